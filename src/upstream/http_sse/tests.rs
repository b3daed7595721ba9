//! Against a scripted server over real sockets.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

use super::*;
use crate::mcp::sse::Scanner;

type Answered = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What the server keeps.
#[derive(Default)]
struct Kept {
    /// The newest stream.
    stream: Option<mpsc::UnboundedSender<Bytes>>,
    posts: Vec<(HeaderMap, String, Value)>,
    gets: Vec<HeaderMap>,
    /// The status of the next POST.
    refuses: Option<StatusCode>,
}

#[derive(Clone)]
struct Server {
    address: SocketAddr,
    endpoint: &'static str,
    kept: Arc<Mutex<Kept>>,
}

impl Server {
    async fn start(endpoint: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), endpoint, kept: Arc::default() };
        let ours = server.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let ours = ours.clone();
                let service = service_fn(move |request| {
                    let ours = ours.clone();
                    async move { Ok::<_, Infallible>(ours.answer(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                // The gateway cuts connections as it likes.
                tokio::spawn(async move { drop(http.serve_connection(TokioIo::new(socket), service).await) });
            }
        });
        server
    }

    async fn answer(&self, request: Request<Incoming>) -> Answered {
        let (head, body) = request.into_parts();
        if head.method == Method::GET {
            let (stream, events) = mpsc::unbounded_channel();
            let mut kept = self.kept.lock().unwrap();
            kept.gets.push(head.headers);
            kept.stream = Some(stream);
            drop(kept);
            self.tell(&format!(": hello\n\nevent: endpoint\ndata: {}\n\n", self.endpoint));
            let mut response = Response::new(Told(events).boxed_unsync());
            response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
            return response;
        }
        let body = body.collect().await.unwrap().to_bytes();
        let message: Value = serde_json::from_slice(&body).unwrap();
        let refuses = {
            let mut kept = self.kept.lock().unwrap();
            kept.posts.push((head.headers, head.uri.to_string(), message.clone()));
            kept.refuses.take()
        };
        let mut response = Response::new(Full::new(Bytes::from_static(b"Accepted")).boxed_unsync());
        *response.status_mut() = refuses.unwrap_or(StatusCode::ACCEPTED);
        if refuses.is_none() {
            self.hear(&message);
        }
        response
    }

    /// Answers what needs no script.
    fn hear(&self, message: &Value) {
        let result = match message["method"].as_str() {
            Some("initialize") if message["params"]["bad"] == true => {
                let error = json!({"code": -32602, "message": "no"});
                return self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            Some("initialize") => json!({"protocolVersion": "2024-11-05", "capabilities": {}}),
            Some("echo") => message["params"].clone(),
            _ => return,
        };
        self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }

    fn say(&self, message: &Value) {
        self.tell(&format!("event: message\ndata: {message}\n\n"));
    }

    fn tell(&self, text: &str) {
        let stream = self.kept.lock().unwrap().stream.clone().unwrap();
        drop(stream.send(Bytes::copy_from_slice(text.as_bytes())));
    }

    fn hang_up(&self) {
        self.kept.lock().unwrap().stream = None;
    }

    /// The POST that `fits`, once it is there.
    async fn posted(&self, fits: impl Fn(&Value) -> bool) -> Value {
        self.wait(|kept| kept.posts.iter().map(|(.., m)| m).find(|m| fits(m)).cloned()).await
    }

    async fn wait<T>(&self, what: impl Fn(&Kept) -> Option<T>) -> T {
        loop {
            if let Some(found) = what(&self.kept.lock().unwrap()) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn upstream(&self) -> HttpSseUpstream {
        let timeout = Duration::from_secs(10);
        let spec = config::Upstream {
            name: "old".into(),
            target: Target::Http(format!("http://{}/v1/sse", self.address).parse().unwrap()),
            protocol: Some("2024-11-05".into()),
            http_sse: true,
            prefix: String::new(),
            tools: config::Globs::any(),
            headers: [("x-token".to_owned(), config::Secret::new("hunter2"))].into(),
            timeout,
            idle_timeout: timeout,
            max_total_timeout: timeout,
            answer_within: timeout,
            connect_timeout: timeout,
            retries: 0,
            schema_coercion: None,
            tls: config::UpstreamTls::default(),
            smart: config::Smart::default(),
            show: config::Show::default(),
        };
        HttpSseUpstream::new(&spec, &TaskTracker::new(), CancellationToken::new()).unwrap()
    }
}

/// The body of a stream.
struct Told(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|told| told.map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

fn request(method: Method, session: Option<&str>, body: impl Into<Bytes>) -> Request<Bytes> {
    let mut request = Request::builder().method(method).header(CONTENT_TYPE, "application/json");
    if let Some(session) = session {
        request = request.header(SESSION_HEADER, session);
    }
    request.body(body.into()).unwrap()
}

async fn post(upstream: &HttpSseUpstream, session: Option<&str>, message: &Value) -> Response<ResponseBody> {
    upstream.call(request(Method::POST, session, message.to_string())).await.unwrap()
}

async fn whole(response: Response<ResponseBody>) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap_or(Value::Null)
}

fn rpc(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

async fn initialized(upstream: &HttpSseUpstream) -> String {
    let response = post(upstream, None, &rpc(0, "initialize", &json!({}))).await;
    let session = response.headers()[SESSION_HEADER].to_str().unwrap().to_owned();
    assert_eq!(whole(response).await["result"]["protocolVersion"], "2024-11-05");
    session
}

/// The next message of an event stream.
async fn next(body: &mut ResponseBody) -> Option<Value> {
    let mut message = None;
    while message.is_none() {
        let frame = body.frame().await?.unwrap();
        Scanner::new(1 << 20).feed(frame.data_ref().unwrap(), |e| {
            message = Some(serde_json::from_slice(e.data).unwrap());
        });
    }
    message
}

#[tokio::test]
async fn answers_come_back_to_their_requests_and_headers_go_with_both() {
    let server = Server::start("/v1/messages?sessionId=a").await;
    let upstream = server.upstream();
    let session = initialized(&upstream).await;
    let ids = [json!(1), json!("1"), json!("a\u{e9}\n")];
    let echo = async |id: &Value| {
        let response = post(&upstream, Some(&session), &rpc(id.clone(), "echo", &json!({"own": id}))).await;
        assert_eq!(response.status(), 200);
        whole(response).await
    };
    let answers = tokio::join!(echo(&ids[0]), echo(&ids[1]), echo(&ids[2]));
    for (answer, id) in [answers.0, answers.1, answers.2].iter().zip(&ids) {
        assert_eq!((&answer["id"], &answer["result"]["own"]), (id, id));
    }
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&upstream, Some(&session), &note).await.status(), 202);
    let kept = server.kept.lock().unwrap();
    assert_eq!(kept.gets.len(), 1);
    assert_eq!(kept.gets[0]["accept"], "text/event-stream");
    let heads = kept.posts.iter().map(|(headers, uri, _)| (headers, uri.as_str()));
    for (headers, uri) in heads.chain([(&kept.gets[0], "/v1/messages?sessionId=a")]) {
        assert_eq!(
            (&headers["x-token"], uri),
            (&HeaderValue::from_static("hunter2"), "/v1/messages?sessionId=a")
        );
        assert!(!headers.contains_key(SESSION_HEADER));
    }
}

#[tokio::test]
async fn what_belongs_to_a_call_comes_on_its_stream_and_the_rest_on_the_sessions() {
    let server = Server::start("messages").await;
    let upstream = Arc::new(server.upstream());
    let session = initialized(&upstream).await;
    let asked = rpc(7, "slow", &json!({"_meta": {"progressToken": "t"}}));
    let (ours, body) = (Arc::clone(&upstream), request(Method::POST, Some(&session), asked.to_string()));
    let call = tokio::spawn(async move { ours.call(body).await.unwrap().into_body() });
    server.posted(|m| m["id"] == 7).await;
    let progress =
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "t"}});
    server.say(&progress);
    let question = rpc("q", "roots/list", &json!({}));
    server.say(&question);
    let mut stream = call.await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap(), progress);
    assert_eq!(next(&mut stream).await.unwrap(), question);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let mut listening = upstream.call(request(Method::GET, Some(&session), "")).await.unwrap().into_body();
    server.say(&changed);
    assert_eq!(next(&mut listening).await.unwrap(), changed);
    server.say(&json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    assert_eq!(next(&mut stream).await.unwrap()["id"], 7);
    assert!(next(&mut stream).await.is_none());
    // Nobody is asked for a sign of life but the gateway.
    server.say(&rpc("p", "ping", &json!({})));
    assert_eq!(server.posted(|m| m["id"] == "p").await["result"], json!({}));
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused() {
    for foreign in ["http://127.0.0.1:1/messages", "//example.com/m", "https://example.com/", "", "a:b"] {
        let server = Server::start(foreign).await;
        let upstream = server.upstream();
        let hello = rpc(0, "initialize", &json!({})).to_string();
        let refused = upstream.call(request(Method::POST, None, hello)).await;
        assert!(matches!(refused, Err(UpstreamError::Protocol(_))), "{foreign}");
        assert_eq!(server.kept.lock().unwrap().posts.len(), 0, "{foreign}");
    }
}

#[tokio::test]
async fn a_lost_stream_ends_the_session() {
    let server = Server::start("/m").await;
    let upstream = server.upstream();
    let session = initialized(&upstream).await;
    let hanging =
        upstream.call(request(Method::POST, Some(&session), rpc(1, "slow", &json!({})).to_string()));
    let lost = async {
        server.posted(|m| m["id"] == 1).await;
        server.hang_up();
    };
    let (answer, ()) = tokio::join!(hanging, lost);
    assert!(matches!(answer, Err(UpstreamError::Protocol(_))));
    assert_eq!(post(&upstream, Some(&session), &rpc(2, "echo", &json!({}))).await.status(), 404);
    assert_ne!(initialized(&upstream).await, session);
}

#[tokio::test]
async fn sessions_are_their_owners_and_end_with_delete_or_the_servers_404() {
    let server = Server::start("/m").await;
    let upstream = server.upstream();
    let session = initialized(&upstream).await;
    let mut theirs = request(Method::POST, Some(&session), rpc(1, "echo", &json!({})).to_string());
    theirs.extensions_mut().insert(Caller { name: "bob".into(), ..Caller::default() });
    assert_eq!(upstream.call(theirs).await.unwrap().status(), 404);
    server.kept.lock().unwrap().refuses = Some(StatusCode::UNAUTHORIZED);
    assert_eq!(post(&upstream, Some(&session), &rpc(2, "echo", &json!({}))).await.status(), 401);
    assert_eq!(post(&upstream, Some(&session), &rpc(3, "echo", &json!({}))).await.status(), 200);
    server.kept.lock().unwrap().refuses = Some(StatusCode::NOT_FOUND);
    assert_eq!(post(&upstream, Some(&session), &rpc(4, "echo", &json!({}))).await.status(), 404);
    assert_eq!(post(&upstream, Some(&session), &rpc(5, "echo", &json!({}))).await.status(), 404);
    let session = initialized(&upstream).await;
    assert_eq!(upstream.call(request(Method::DELETE, Some(&session), "")).await.unwrap().status(), 204);
    assert_eq!(upstream.call(request(Method::GET, Some(&session), "")).await.unwrap().status(), 404);
    let refused = post(&upstream, None, &rpc(0, "initialize", &json!({"bad": true}))).await;
    assert!(!refused.headers().contains_key(SESSION_HEADER));
    assert_eq!(whole(refused).await["error"]["code"], -32602);
    // The server sees its streams end.
    server.wait(|kept| kept.stream.as_ref().filter(|s| s.is_closed()).map(|_| ())).await;
    let host = Arc::clone(&upstream.host);
    while !host.sessions().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
