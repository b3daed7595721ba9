//! A legacy MCP server that does as little as possible: it finds the id and the method by searching, and
//! answers every call with the same kibibyte. It stands for a server that costs nothing.

use std::{
    convert::Infallible,
    pin::Pin,
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

/// Serves until standard input closes.
pub(crate) fn run() -> Res<()> {
    serve::run(|stream| async {
        let connection = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        drop(connection.await); // a client that leaves is no news
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
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
    Ok(reply(StatusCode::OK, "application/json", Answer::Whole(Some(result(method.unwrap_or_default(), id)))))
}

/// What stands between `key` and the first of the bytes in `ends`. Enough for the bodies sent here.
fn member<'a>(body: &'a [u8], key: &[u8], ends: &[u8]) -> Option<&'a [u8]> {
    let rest = &body[memmem::find(body, key)? + key.len()..];
    Some(&rest[..rest.iter().position(|byte| ends.contains(byte))?])
}

fn result(method: &[u8], id: &[u8]) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let result = match method {
        b"tools/call" => return call_result(&id),
        b"initialize" => INITIALIZE,
        b"tools/list" => TOOLS,
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

fn call_result(id: &str) -> Bytes {
    const TAIL: &str = r#""}],"isError":false}}"#;
    let mut text = String::with_capacity(ANSWER);
    text.push_str(r#"{"jsonrpc":"2.0","id":"#);
    text.push_str(id);
    text.push_str(r#","result":{"content":[{"type":"text","text":""#);
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
