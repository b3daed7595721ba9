//! The requests that are sent. Every proxy is sent the same bytes, the key included.

/// The secret whose SHA-256 the gateway's configuration holds.
pub(crate) const SECRET: &str = "sg_load_benchmark_key_not_a_secret";
/// The first id: all ids have nine digits, so that a body's length does not depend on its id.
pub(crate) const FIRST_ID: u64 = 100_000_000;
/// The revision of modern calls, and what each of them says of its client.
const MODERN: &str = "2026-07-28";
const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
/// Stands where the id goes, and is as long as one.
const ID_MARK: &str = "@@@@@@@@@";

/// How a `tools/call` body is written.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// As the specification wants it.
    Clean,
    /// `arguments` as text that holds JSON, and in it a number as text: two rules fire, and the whole body
    /// has to be unescaped.
    Broken,
}

/// One request as bytes, its id still to be filled in.
pub(crate) struct Template {
    head: String,
    tail: String,
}

impl Template {
    /// A POST of a `tools/call` whose body is `size` bytes, or as little more as the envelope needs.
    pub(crate) fn call(shape: Shape, size: usize) -> Self {
        let bare = body(shape, "").len();
        let body = body(shape, &"x".repeat(size.saturating_sub(bare)));
        let (before, after) = body.split_once(ID_MARK).expect("the body holds the mark");
        Self {
            head: format!(
                "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n\
                 Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                 MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n\r\n{before}",
                body.len(),
            ),
            tail: after.into(),
        }
    }

    /// A POST to `path` in the modern era; its body is `size` bytes but for a longer name.
    pub(crate) fn modern(path: &str, method: &str, name: &str, size: usize) -> Self {
        let name_of =
            |name: &str| if name.is_empty() { String::new() } else { format!(r#""name":"{name}","#) };
        let body = |text: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID_MARK},"method":"{method}","params":{{{}"arguments":{{"text":"{text}","n":7}},"_meta":{META}}}}}"#,
                name_of(name)
            )
        };
        let body = body(&"x".repeat(size.saturating_sub(body("").len())));
        let (before, after) = body.split_once(ID_MARK).expect("the body holds the mark");
        let named = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
        Self {
            head: format!(
                "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n\
                 Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                 MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{named}Content-Length: {}\r\n\r\n{before}",
                body.len(),
            ),
            tail: after.into(),
        }
    }

    /// The request with this id.
    pub(crate) fn with_id(&self, id: u64) -> String {
        format!("{}{id}{}", self.head, self.tail)
    }

    /// What comes before and after the id, for a script that fills it in itself.
    pub(crate) fn halves(&self) -> (&str, &str) {
        (&self.head, &self.tail)
    }
}

/// A GET that opens the server's stream.
pub(crate) fn open_stream() -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n\
         Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
    )
}

fn body(shape: Shape, text: &str) -> String {
    let arguments = match shape {
        Shape::Clean => format!(r#"{{"text":"{text}","n":7}}"#),
        Shape::Broken => format!(r#""{{\"text\":\"{text}\",\"n\":\"7\"}}""#),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{ID_MARK},"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    )
}
