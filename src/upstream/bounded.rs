//! An upstream whose calls end after a time, whatever they report meanwhile (2025-11-25, lifecycle: "a maximum timeout
//! SHOULD always be enforced"). Owns that time, and that the server hears of the end.
//!
//! Invariant: streams that are meant to stay open (GET, `subscriptions/listen`) have no end here, and a call that was
//! given up is cancelled: by closing its stream in the modern era, by a notification in a legacy session.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, header::CONTENT_LENGTH};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};

use super::{BodyError, BoxFuture, ResponseBody, Upstream, UpstreamError};
use crate::{
    bridge::hops::Recipient,
    mcp::{
        era::SESSION_HEADER,
        headers::METHOD_HEADER,
        message::{self, Kind},
        response::Format,
        sse,
    },
};

/// How long a server may take to hear of a cancelled call.
const PATIENCE: Duration = Duration::from_secs(10);
/// As the pipeline's own table has it.
const REASON: &str = "upstream_timeout";
const CODE: i64 = 504;

/// See the module.
pub struct Bounded {
    inner: Arc<dyn Upstream>,
    limit: Duration,
}

/// A call that runs.
struct Running {
    inner: Arc<dyn Upstream>,
    /// What the cancellation has in common with the call, in a legacy session.
    alike: Option<Request<()>>,
    to: Recipient,
    body: Bytes,
}

impl Bounded {
    /// `limit` is the longest that a call of `inner` takes.
    #[must_use]
    pub fn new(inner: Arc<dyn Upstream>, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl Upstream for Bounded {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        let modern = call.headers().get(METHOD_HEADER);
        if call.method() != Method::POST || modern.is_some_and(|m| m == "subscriptions/listen") {
            return self.inner.call(call);
        }
        let in_session = modern.is_none() && call.headers().contains_key(SESSION_HEADER);
        let alike = in_session.then(|| alike(&call));
        let running =
            Running { inner: Arc::clone(&self.inner), alike, to: (&call).into(), body: call.body().clone() };
        let until = Instant::now().checked_add(self.limit);
        Box::pin(async move {
            let Some(until) = until else { return self.inner.call(call).await };
            let Ok(answer) = timeout_at(until, self.inner.call(call)).await else {
                running.cancel();
                return Err(UpstreamError::TooLong(self.limit));
            };
            let answer = answer?;
            // What has a length is on its way already, and reports nothing.
            if answer.body().size_hint().exact().is_some() {
                return Ok(answer);
            }
            let events = Format::is_sse(answer.headers());
            let ends = running.into_end(self.limit, events);
            Ok(answer.map(|body| {
                Timed { body: Some(body), until: Box::pin(sleep_until(until)), ends }.boxed_unsync()
            }))
        })
    }

    fn replicas(&self) -> Vec<Arc<dyn Upstream>> {
        self.inner.replicas()
    }

    fn sleeps(&self) -> bool {
        self.inner.sleeps()
    }
}

/// A request with what is the same in every message of the session.
fn alike(call: &Request<Bytes>) -> Request<()> {
    let mut alike = Request::new(());
    *alike.method_mut() = Method::POST;
    *alike.headers_mut() = call.headers().clone();
    alike.headers_mut().remove(CONTENT_LENGTH);
    *alike.extensions_mut() = call.extensions().clone();
    alike
}

impl Running {
    /// JSON text of the request's id.
    fn id(&self) -> Option<String> {
        match message::parse(&self.body) {
            Ok(message::Body::Object(m)) if m.kind() == Kind::Request => m.id().map(str::to_owned),
            _ => None,
        }
    }

    /// Tells the server, where closing the stream does not.
    fn cancel(self) {
        if let (Some(alike), Some(id)) = (self.alike.as_ref(), self.id()) {
            tell(self.inner, alike.clone(), &id);
        }
    }

    fn into_end(self, limit: Duration, events: bool) -> End {
        let id = self.id();
        let to = self.to;
        End { limit, events, id, to, session: self.alike.map(|alike| (self.inner, alike)) }
    }
}

fn tell(upstream: Arc<dyn Upstream>, alike: Request<()>, id: &str) {
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"it took too long"}}}}"#
    );
    let request = alike.map(|()| text.into());
    tokio::spawn(async move { drop(timeout(PATIENCE, upstream.call(request)).await) });
}

/// How a stream ends whose time is over.
struct End {
    limit: Duration,
    events: bool,
    id: Option<String>,
    to: Recipient,
    session: Option<(Arc<dyn Upstream>, Request<()>)>,
}

impl End {
    fn cancel(&mut self) {
        if let (Some((upstream, alike)), Some(id)) = (self.session.take(), &self.id) {
            tell(upstream, alike, id);
        }
    }

    /// The response in the server's place, if it can be put on the stream.
    fn response(&self) -> Option<Bytes> {
        let mut data = json!({"reason": REASON});
        if let Some(trace_id) = self.to.refused(REASON, CODE) {
            data["trace_id"] = trace_id.into();
        }
        let id = self.id.as_ref().filter(|_| self.events)?;
        let error = json!({"code": CODE, "message": too_long(self.limit), "data": data});
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        // The server may have been in the middle of an event.
        Some([b"\n\n", &sse::frame(text.as_bytes())[..]].concat().into())
    }
}

/// What a client is told.
#[must_use]
pub fn too_long(limit: Duration) -> String {
    format!(
        "The upstream was still at work after {} s, the longest that a call may take, and was told to stop; a part may \
         have run. Ask for less, or raise the upstream's max_total_timeout.",
        limit.as_secs_f64()
    )
}

struct Timed {
    body: Option<ResponseBody>,
    until: Pin<Box<Sleep>>,
    ends: End,
}

impl Body for Timed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // First: a server that never pauses has its end, too.
        if this.until.as_mut().poll(cx).is_pending() {
            return Pin::new(body).poll_frame(cx);
        }
        this.ends.cancel();
        this.body = None;
        Poll::Ready(Some(match this.ends.response() {
            Some(response) => Ok(Frame::data(response)),
            None => Err(too_long(this.ends.limit).into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::HeaderMap;
    use tokio::sync::mpsc;

    use super::*;
    use crate::upstream::written;

    const LIMIT: Duration = Duration::from_secs(60);
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    /// Says that it is at work every second, and never more; remembers what it was sent.
    #[derive(Default)]
    struct Busy {
        sent: Mutex<Vec<(Method, HeaderMap, Bytes)>>,
        silent: bool,
    }

    impl Upstream for Busy {
        fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
            let (head, body) = call.into_parts();
            self.sent.lock().unwrap().push((head.method, head.headers, body));
            Box::pin(async move {
                if self.silent {
                    return std::future::pending().await;
                }
                let (pieces, written) = mpsc::channel(1);
                tokio::spawn(async move {
                    while pieces.send(": at work\n\n".into()).await.is_ok() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                });
                let head = Response::builder().header("content-type", "text/event-stream");
                Ok(head.body(written::body(written)).unwrap())
            })
        }
    }

    fn request(method: &str, header: (&'static str, &'static str)) -> Request<Bytes> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#);
        let post = Request::post("/").header("authorization", "Bearer b").header(header.0, header.1);
        let post = post.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"));
        post.body(body.into()).unwrap()
    }

    async fn text(answer: Response<ResponseBody>) -> String {
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_reports_progress_for_ever_ends_with_an_error_and_is_cancelled() {
        let busy = Arc::new(Busy::default());
        let bounded = Bounded::new(busy.clone(), LIMIT);
        let began = Instant::now();
        let answer = bounded.call(request("tools/call", (SESSION_HEADER, "s"))).await.unwrap();
        let text = text(answer).await;
        assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
        let last = text.trim_end().rsplit("data: ").next().unwrap();
        let error: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&"a".into(), &504.into()));
        assert_eq!(error["error"]["data"], json!({"reason": "upstream_timeout", "trace_id": TRACE}));
        assert!(error["error"]["message"].as_str().unwrap().contains("max_total_timeout"), "{error}");
        tokio::task::yield_now().await;
        let sent = busy.sent.lock().unwrap();
        let (method, headers, body) = &sent[1];
        assert_eq!((method, &headers[SESSION_HEADER]), (&Method::POST, &"s".parse().unwrap()));
        assert_eq!(headers["authorization"], "Bearer b");
        let cancelled: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_modern_call_is_cancelled_by_its_end() {
        let busy = Arc::new(Busy::default());
        let bounded = Bounded::new(busy.clone(), LIMIT);
        let answer = bounded.call(request("tools/call", (METHOD_HEADER, "tools/call"))).await.unwrap();
        assert!(text(answer).await.contains("upstream_timeout"));
        assert_eq!(busy.sent.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_without_a_response_head_is_given_up_too() {
        let busy = Arc::new(Busy { silent: true, ..Busy::default() });
        let bounded = Bounded::new(busy.clone(), LIMIT);
        let answer = bounded.call(request("tools/call", (SESSION_HEADER, "s"))).await;
        assert!(matches!(answer, Err(UpstreamError::TooLong(LIMIT))));
        tokio::task::yield_now().await;
        assert_eq!(busy.sent.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_are_to_stay_open_do() {
        let bounded = Bounded::new(Arc::new(Busy::default()), LIMIT);
        let listen = request("subscriptions/listen", (METHOD_HEADER, "subscriptions/listen"));
        let get = Request::get("/").body(Bytes::new()).unwrap();
        for call in [listen, get] {
            let mut stream = bounded.call(call).await.unwrap().into_body();
            let began = Instant::now();
            while began.elapsed() < LIMIT * 3 {
                assert!(stream.frame().await.is_some_and(|frame| frame.is_ok()));
            }
        }
    }
}
