//! The bridge against scripted servers: every row of the table "modern client, legacy server".

mod apart;
mod asking;
mod fake;
mod leaving;
mod listening;
mod named;
mod plain;
mod properties;
mod refusing;
mod sessions;
mod sockets;
mod standing;
mod telling;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use self::fake::{Does, Fake, Seen};
use super::{Legacy, Settings};
use crate::{
    bridge::sealed::Sealer,
    mcp::sse::Scanner,
    upstream::{Caller, ResponseBody, Upstream},
};

const EVERYTHING: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;

/// A bridge before a fake.
struct Bench {
    legacy: Arc<Legacy>,
    fake: Arc<Fake>,
}

impl Bench {
    fn new(script: impl Fn(&Seen) -> Does + Send + Sync + 'static) -> Self {
        Self::of(Fake::new(script))
    }

    fn of(fake: Fake) -> Self {
        Self::with(fake, Settings::default())
    }

    fn with(fake: Fake, settings: Settings) -> Self {
        let fake = Arc::new(fake);
        let legacy = Legacy::new(fake.clone(), Arc::new(Sealer::of_this_process()), settings);
        Self { legacy: Arc::new(legacy), fake }
    }

    async fn send(&self, request: Request<Bytes>) -> Response<ResponseBody> {
        self.legacy.call(request).await.unwrap()
    }

    /// Sends a request of a client that can be asked everything, and reads its whole JSON answer.
    async fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        self.ask_as("ada", EVERYTHING, method, params).await
    }

    async fn ask_as(&self, who: &str, capabilities: &str, method: &str, params: Value) -> (u16, Value) {
        whole(self.send(request(who, capabilities, json!("c-1"), method, params)).await).await
    }

    /// A call of the tool `t`.
    async fn call(&self) -> (u16, Value) {
        self.ask("tools/call", tool()).await
    }
}

fn tool() -> Value {
    json!({"name": "t", "arguments": {"n": 1}})
}

/// A modern request. `params._meta` may bring more keys.
fn request(who: &str, capabilities: &str, id: Value, method: &str, mut params: Value) -> Request<Bytes> {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = serde_json::from_str(capabilities).unwrap();
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "client", "version": "9", "icons": []});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let mut request = Request::post("/mcp")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", "t")
        .header("mcp-param-n", "1")
        .header("user-agent", "test")
        .header("content-type", "application/json")
        .body(Bytes::from(body.to_string()))
        .unwrap();
    request.extensions_mut().insert(Caller { name: who.into(), ..Caller::default() });
    request
}

async fn whole(response: Response<ResponseBody>) -> (u16, Value) {
    assert_eq!(response.headers()["content-type"], "application/json");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// The client's end of a stream.
struct Reader {
    body: ResponseBody,
    scanner: Scanner,
    ready: std::collections::VecDeque<Value>,
}

impl Reader {
    fn new(response: Response<ResponseBody>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { body: response.into_body(), scanner: Scanner::new(1 << 20), ready: Default::default() }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let read = async {
            while self.ready.is_empty() {
                let frame = self.body.frame().await?.unwrap();
                let ready = &mut self.ready;
                self.scanner.feed(frame.data_ref().unwrap(), |event| {
                    ready.push_back(serde_json::from_slice(event.data).unwrap());
                });
            }
            self.ready.pop_front()
        };
        tokio::time::timeout(Duration::from_secs(120), read).await.expect("something comes")
    }
}

/// The last message of an answer, however it is framed.
async fn last(response: Response<ResponseBody>) -> Value {
    if response.headers()["content-type"] == "application/json" {
        return whole(response).await.1;
    }
    let mut reader = Reader::new(response);
    let mut last = Value::Null;
    while let Some(message) = reader.next().await {
        last = message;
    }
    last
}
