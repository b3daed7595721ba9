//! The same over real connections: what a half-read response, a held stream and a lost server are there.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::Method;
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::{
    Bench, EVERYTHING, Reader,
    fake::{Does, Fake, Streams, until},
    request, tool, whole,
};
use crate::{
    bridge::sealed::Sealer,
    config::{self, Globs, Target, UpstreamTls},
    upstream::{
        Upstream,
        http::HttpUpstream,
        legacy::{Legacy, Settings},
    },
};

/// A bridge before a fake that listens on loopback.
async fn bench(fake: Fake) -> Bench {
    let fake = Arc::new(fake);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, fake.clone()));
    let legacy =
        Legacy::new(Arc::new(upstream(address)), Arc::new(Sealer::of_this_process()), Settings::default());
    Bench { legacy: Arc::new(legacy), fake }
}

async fn serve(listener: TcpListener, fake: Arc<Fake>) {
    while let Ok((socket, _)) = listener.accept().await {
        let fake = fake.clone();
        let service = service_fn(move |request: http::Request<Incoming>| {
            let fake = fake.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
                let answer = fake.call(http::Request::from_parts(head, body)).await;
                Ok::<_, Infallible>(answer.expect("the script answers"))
            }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
        // A connection that the bridge cuts is what the tests are about.
        tokio::spawn(async move { drop(connection.await) });
    }
}

fn upstream(address: SocketAddr) -> HttpUpstream {
    let timeout = Duration::from_secs(10);
    HttpUpstream::new(&config::Upstream {
        smart: Default::default(),
        http_sse: false,
        show: Default::default(),
        name: "peer".into(),
        target: Target::Http(format!("http://{address}/mcp").parse().unwrap()),
        protocol: None,
        prefix: String::new(),
        tools: Globs::new(["*"]),
        headers: Default::default(),
        timeout,
        idle_timeout: timeout,
        max_total_timeout: timeout,
        answer_within: timeout,
        connect_timeout: timeout,
        retries: 0,
        schema_coercion: None,
        tls: UpstreamTls::default(),
    })
    .unwrap()
}

fn streaming(streams: &Streams) -> Fake {
    let theirs = streams.clone();
    Fake::new(move |seen| match (seen.method(), &seen.verb) {
        ("tools/call", _) | (_, &Method::GET) => theirs.open(seen).into(),
        _ => Does::AsUsual,
    })
}

#[tokio::test]
async fn a_parked_call_goes_on_over_the_same_connection() {
    let streams = Streams::default();
    let bench = bench(streaming(&streams)).await;
    let server = async {
        // The first is the session's GET stream.
        let (seen, events) = streams.nth(1).await;
        events.send(
            &json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {"message": "m"}}),
        );
        (seen, events)
    };
    let ((_, asked), (seen, events)) = tokio::join!(bench.call(), server);
    assert_eq!(asked["result"]["resultType"], "input_required");
    // Whatever the server says meanwhile waits in the connection.
    events.send(&json!({"jsonrpc": "2.0", "method": "notifications/vendor"}));
    let server = async {
        until("the answer is posted", || !bench.fake.responses().is_empty()).await;
        events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"ok": 1}}));
    };
    let mut params = tool();
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"1": {"action": "decline"}});
    let retry = bench.send(request("ada", EVERYTHING, json!(2), "tools/call", params));
    let (response, ()) = tokio::join!(retry, server);
    let mut reader = Reader::new(response);
    assert_eq!(reader.next().await.unwrap()["method"], "notifications/vendor");
    assert_eq!(reader.next().await.unwrap()["result"], json!({"resultType": "complete", "ok": 1}));
    assert_eq!(bench.fake.of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_closes_the_servers_stream() {
    let streams = Streams::default();
    let bench = bench(streaming(&streams)).await;
    let call = bench.send(request("ada", EVERYTHING, json!(1), "tools/call", tool()));
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
    let (_, events) = streams.nth(1).await;
    until("the server is told", || bench.fake.of("notifications/cancelled").len() == 1).await;
    until("the connection is closed", || {
        events.raw(": are you there?\n\n");
        events.is_closed()
    })
    .await;
}

#[tokio::test]
async fn a_server_that_breaks_off_is_told_as_a_failure() {
    let streams = Streams::default();
    let bench = bench(streaming(&streams)).await;
    let server = async {
        streams.nth(1).await;
        streams.end(1);
    };
    let ((status, answer), ()) = tokio::join!(bench.call(), server);
    assert_eq!((status, &answer["error"]["code"]), (502, &json!(502)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("not known"), "{answer}");
}

#[tokio::test]
async fn sessions_and_subscriptions_end_where_they_began() {
    let streams = Streams::default();
    let bench = bench(streaming(&streams)).await;
    let params = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["x:/a"]}});
    let listen = request("ada", EVERYTHING, json!(1), "subscriptions/listen", params);
    let mut reader = Reader::new(bench.send(listen).await);
    assert_eq!(reader.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let (_, events) = streams.nth(0).await;
    events.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x:/a"}}),
    );
    assert_eq!(reader.next().await.unwrap()["params"]["uri"], "x:/a");
    drop(reader);
    until("it is taken back", || bench.fake.of("resources/unsubscribe").len() == 1).await;
    let fake = bench.fake.clone();
    let (status, _) =
        whole(bench.send(request("ada", EVERYTHING, json!(2), "prompts/list", json!({}))).await).await;
    assert_eq!((status, fake.sessions()), (200, 1));
    drop(bench);
    until("the session is ended", || fake.sessions() == 0).await;
}
