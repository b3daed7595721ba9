//! Faults of ours in the middle of a call, caused by an upstream that panics: the process, the connection's neighbours and
//! the record go on.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Sleep, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Desk, Gateway};
use crate::{
    audit::{Recorder, Unwritten, record::Outcome},
    config,
    metrics::Metrics,
    server::{Drain, Options, serve},
    snapshot::{Route, Snapshot},
    upstream::{BodyError, BoxFuture, ResponseBody, Upstream, UpstreamError},
};

/// Panics before it answers, or in the middle of its answer.
struct Faulty;

impl Upstream for Faulty {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            let text = String::from_utf8_lossy(call.body()).into_owned();
            assert!(!text.contains("at_once"), "a fault of ours");
            let head = Response::builder().header("content-type", "text/event-stream");
            Ok(head.body(Torn(None).boxed_unsync()).unwrap())
        })
    }
}

/// The time until it panics, once it has begun: what was said before is sent by then.
struct Torn(Option<Pin<Box<Sleep>>>);

impl Body for Torn {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(pause) = &mut self.0 {
            ready!(pause.as_mut().poll(cx));
            panic!("a fault of ours");
        }
        self.0 = Some(Box::pin(sleep(Duration::from_millis(100))));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": begun\n\n")))))
    }
}

/// A gateway before it, and its records.
async fn gateway() -> (std::net::SocketAddr, Unwritten) {
    let text = "upstreams.files.url = \"http://127.0.0.1:1/mcp\"\n";
    let loaded = config::from_str(text, std::path::Path::new(""), "test").unwrap();
    let tasks = TaskTracker::new();
    let mut snapshot = Snapshot::build(loaded.config, None, &tasks).unwrap();
    let faulty: Arc<dyn Upstream> = Arc::new(Faulty);
    let route = Arc::new(Route::to_test(&snapshot.endpoint, &faulty, &snapshot.sealer));
    snapshot.endpoint = Arc::clone(&route);
    snapshot.doors.values_mut().for_each(|door| *door = Arc::clone(&route));
    let metrics = Arc::new(Metrics::new());
    let (recorder, records) = Recorder::unwritten(Arc::clone(&metrics));
    let desk = Desk { recorder, force: CancellationToken::new() };
    let gateway = Arc::new(Gateway::new(snapshot, desk, metrics, tasks));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let options =
        Options { header_timeout: Duration::from_secs(30), tls: None, on_refused: Arc::new(|_| {}) };
    tokio::spawn(serve(listener, options, gateway, Drain::default()));
    (addr, records)
}

/// Everything that comes back on a connection of its own.
async fn post(addr: std::net::SocketAddr, tool: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is torn down may end in a reset.
    while let Ok(1..) = stream.read_buf(&mut answer).await {}
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_panic_in_a_call_is_a_500_and_one_in_an_answer_ends_it_and_each_leaves_one_record() {
    let (addr, mut records) = gateway().await;
    let answer = post(addr, "at_once").await;
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("\"reason\":\"internal\""), "{answer}");
    let record = records.take().expect("one record");
    assert_eq!((record.outcome, record.status), (Outcome::Panicked, Some(500)));
    assert_eq!(record.error.as_ref().and_then(|e| e.reason), Some("internal"));
    assert!(answer.contains(&hex::encode(record.trace_id)), "{answer}");
    let answer = post(addr, "later").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(": begun"), "{answer}");
    let record = records.take().expect("one record");
    assert_eq!(
        (record.outcome, record.status, record.tool.as_deref()),
        (Outcome::Panicked, Some(200), Some("later"))
    );
    // The process goes on.
    assert!(post(addr, "at_once").await.starts_with("HTTP/1.1 500"));
    assert!(records.take().is_some() && records.take().is_none());
}
