//! Bodies that the face makes: whole ones, and event streams written by a future that lives in the body.
//!
//! Invariant: nothing is spawned. Whoever drops the body drops the work behind it, and so the calls that it has
//! open; a client that does not read stops it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc;

use crate::upstream::{BodyError, BoxFuture, ResponseBody};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Frames that wait for the client.
const WAITING: usize = 8;

/// A whole JSON answer.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// A JSON-RPC result.
pub(super) fn result(id: &str, result: &str) -> Response<ResponseBody> {
    json(StatusCode::OK, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
}

/// What notifications and responses of the client get.
pub(super) fn accepted() -> Response<ResponseBody> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

pub(super) fn whole(body: impl Into<Bytes>) -> ResponseBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The writing end of an event stream.
#[derive(Debug, Clone)]
pub(super) struct Events(mpsc::Sender<Bytes>);

/// Nobody reads any more.
#[derive(Debug)]
pub(super) struct Gone;

impl Events {
    /// One message as one event.
    pub(super) async fn message(&self, message: &str) -> Result<(), Gone> {
        self.raw(crate::mcp::sse::frame(message.as_bytes())).await
    }

    /// A comment, so that nobody on the way takes the stream for dead.
    pub(super) async fn keep_alive(&self) -> Result<(), Gone> {
        self.raw(&b": keep-alive\n\n"[..]).await
    }

    pub(super) async fn raw(&self, bytes: impl Into<Bytes>) -> Result<(), Gone> {
        self.0.send(bytes.into()).await.map_err(|_| Gone)
    }
}

/// An event stream that `write` fills while the client reads.
pub(super) fn stream<F>(write: impl FnOnce(Events) -> F) -> ResponseBody
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = mpsc::channel(WAITING);
    Written { writer: Some(Box::pin(write(Events(sender)))), events }.boxed_unsync()
}

/// Makes these the headers of an event stream.
pub(super) fn set_event_stream(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.remove(header::CONTENT_LENGTH);
}

/// A 200 of events.
pub(super) fn streamed(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    set_event_stream(response.headers_mut());
    response
}

struct Written {
    writer: Option<BoxFuture<'static, ()>>,
    events: mpsc::Receiver<Bytes>,
}

impl Body for Written {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(writer) = &mut self.writer
            && writer.as_mut().poll(cx).is_ready()
        {
            self.writer = None;
        }
        self.events.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_is_written_as_far_as_it_is_read() {
        let mut body = stream(|events| async move {
            for n in 0..3 * WAITING {
                events.message(&n.to_string()).await.unwrap();
            }
        });
        let mut seen = 0;
        while let Some(frame) = body.frame().await {
            let text = frame.unwrap().into_data().unwrap();
            assert_eq!(text, format!("event: message\ndata: {seen}\n\n"));
            seen += 1;
        }
        assert_eq!(seen, 3 * WAITING);
    }
}
