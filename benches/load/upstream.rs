//! An MCP server, legacy or modern, that does as little as possible: it finds the id and the method by searching, and
//! answers every call with the same kibibyte. It stands for a server that costs nothing.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use memchr::memmem;

use crate::{Res, serve};

/// Bytes in the body of an answer to `tools/call`.
const ANSWER: usize = 1024;
const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"load-upstream","version":"1"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"echo","description":"Answers with a kibibyte.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"]}}]}"#;

const DISCOVER: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":false}},"ttlMs":3600000,"cacheScope":"public"}"#;

/// What a modern server lists; a legacy one has no such list.
type Modern = Option<Arc<str>>;

/// Serves until standard input closes; a modern server with so many `tools`, without them a legacy one.
pub(crate) fn run(tools: Option<usize>) -> Res<()> {
    let list: Modern = tools.map(|tools| list(tools).into());
    serve::run(move |stream| {
        let list = list.clone();
        async move {
            let service = service_fn(move |request| answer(request, list.clone()));
            let connection =
                http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(stream), service);
            drop(connection.await); // a client that leaves is no news
        }
    })
}

/// `echo`, and others like it.
fn list(tools: usize) -> String {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}}}"#;
    let tool = |n: usize| {
        let name = if n == 0 { "echo".to_owned() } else { format!("echo_{n}") };
        format!(r#"{{"name":"{name}","description":"Answers with a kibibyte.","inputSchema":{schema}}}"#)
    };
    let tools: Vec<_> = (0..tools).map(tool).collect();
    let tools = tools.join(",");
    format!(r#"{{"resultType":"complete","tools":[{tools}],"ttlMs":3600000,"cacheScope":"public"}}"#)
}

async fn answer(request: Request<Incoming>, modern: Modern) -> Result<Response<Answer>, Infallible> {
    if request.method() == Method::GET {
        return Ok(reply(
            StatusCode::OK,
            "text/event-stream",
            Answer::Stream(Some(": open\ndata: {}\n\n".into())),
        ));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(reply(StatusCode::BAD_REQUEST, "text/plain", Answer::Whole(None)));
    };
    let body = body.to_bytes();
    let method = member(&body, b"\"method\":\"", b"\"");
    let Some(id) = member(&body, b"\"id\":", b",}") else {
        return Ok(reply(StatusCode::ACCEPTED, "application/json", Answer::Whole(None)));
    };
    let whole = result(method.unwrap_or_default(), id, modern.as_deref());
    Ok(reply(StatusCode::OK, "application/json", Answer::Whole(Some(whole))))
}

/// What stands between `key` and the first of the bytes in `ends`. Enough for the bodies sent here.
fn member<'a>(body: &'a [u8], key: &[u8], ends: &[u8]) -> Option<&'a [u8]> {
    let rest = &body[memmem::find(body, key)? + key.len()..];
    Some(&rest[..rest.iter().position(|byte| ends.contains(byte))?])
}

fn result(method: &[u8], id: &[u8], modern: Option<&str>) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let result = match method {
        b"tools/call" => return call_result(&id, if modern.is_some() { COMPLETE } else { "" }),
        b"server/discover" if modern.is_some() => DISCOVER,
        b"initialize" if modern.is_none() => INITIALIZE,
        b"tools/list" => modern.unwrap_or(TOOLS),
        b"ping" => "{}",
        _ => {
            return format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            )
            .into();
        }
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

const COMPLETE: &str = r#""resultType":"complete","#;

fn call_result(id: &str, kind: &str) -> Bytes {
    const TAIL: &str = r#""}],"isError":false}}"#;
    let mut text = String::with_capacity(ANSWER);
    text.push_str(r#"{"jsonrpc":"2.0","id":"#);
    text.push_str(id);
    text.push_str(r#","result":{"#);
    text.push_str(kind);
    text.push_str(r#""content":[{"type":"text","text":""#);
    let fill = ANSWER.saturating_sub(text.len() + TAIL.len());
    text.extend(std::iter::repeat_n('y', fill));
    text.push_str(TAIL);
    text.into()
}

fn reply(status: StatusCode, media: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}

/// A whole answer, or a stream that says one thing and then stays open.
enum Answer {
    Whole(Option<Bytes>),
    Stream(Option<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(first) => {
                first.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
