//! Legacy sessions at an endpoint that a reload replaces: what they have set stays, their streams and questions go on, and
//! they hear of changed lists once.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Response};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::{bridge::modern_server, request, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, channel, event, result, sse, status},
    process::{Answer, Gateway, read_to},
    until,
};

/// Long enough for listens that end at once to be opened again twice.
const A_WHILE: Duration = Duration::from_secs(2);

/// Open listens: the id of the request and the stream.
type Listens = Vec<(Value, Sender<Bytes>)>;

/// A modern server with a resource; its tool `ask` asks first.
struct Server {
    fake: Fake,
    listens: Arc<Mutex<Listens>>,
}

impl Server {
    async fn start() -> Self {
        let listens = Arc::<Mutex<Listens>>::default();
        let theirs = Arc::clone(&listens);
        let fake = Fake::speaking(Speaks::Resources, move |seen| {
            let theirs = Arc::clone(&theirs);
            async move { answer(&theirs, &seen) }
        })
        .await;
        let tools = ["ask", "add"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
        fake.set_tools(json!(tools)).await;
        Self { fake, listens }
    }

    fn open(&self) -> Listens {
        let mut listens = self.listens.lock().unwrap();
        listens.retain(|(_, stream)| !stream.is_closed());
        listens.clone()
    }

    /// Says to all who listen that the resource has changed.
    async fn update(&self) {
        for (id, stream) in self.open() {
            let params = json!({"uri": "a://x", "_meta": {"io.modelcontextprotocol/subscriptionId": id}});
            stream.send(notice("notifications/resources/updated", &params)).await.unwrap();
        }
    }

    /// The level that the last call asked for.
    fn level(&self) -> Value {
        let calls = self.fake.calls();
        let last = calls.iter().rfind(|s| s.rpc() == "tools/call").unwrap();
        last.json()["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone()
    }
}

fn notice(method: &str, params: &Value) -> Bytes {
    event(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
}

fn answer(listens: &Mutex<Listens>, seen: &Seen) -> Reply {
    let body = seen.json();
    match seen.rpc().as_str() {
        "server/discover" => result(
            seen,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities":
                {"tools": {"listChanged": true}, "resources": {"subscribe": true}}, "ttlMs": 0}),
        ),
        "subscriptions/listen" => {
            let (stream, reply) = channel();
            let params = json!({"notifications": body["params"]["notifications"],
                "_meta": {"io.modelcontextprotocol/subscriptionId": body["id"]}});
            stream.try_send(notice("notifications/subscriptions/acknowledged", &params)).unwrap();
            listens.lock().unwrap().push((body["id"].clone(), stream));
            sse(reply)
        }
        "tools/call" if body["params"]["name"] == "ask" && body["params"]["inputResponses"].is_null() => {
            result(
                seen,
                &json!({"resultType": "input_required", "inputRequests": {"form": {"method": "elicitation/create",
                    "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}}}}),
            )
        }
        "tools/call" => {
            let said = body["params"]["inputResponses"]["form"]["action"].as_str().unwrap_or("unasked");
            let content = json!([{"type": "text", "text": said}]);
            result(seen, &json!({"resultType": "complete", "content": content, "isError": false}))
        }
        _ => status(404),
    }
}

/// A legacy client.
struct Client<'a> {
    gate: &'a Gateway,
    session: String,
}

impl<'a> Client<'a> {
    async fn join(gate: &'a Gateway) -> Self {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "old-host", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = gate.post(body.to_string()).await;
        Self { gate, session: answer.header("mcp-session-id").unwrap().to_owned() }
    }

    fn request(&self, method: Method) -> http::request::Builder {
        let request = self.gate.request().method(method).header("mcp-session-id", &self.session);
        request.header("mcp-protocol-version", "2025-11-25")
    }

    async fn post(&self, body: impl Into<Bytes>) -> Answer {
        self.gate.call(self.request(Method::POST), body).await
    }

    async fn ask(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        self.post(body.to_string()).await.json()["result"].clone()
    }

    async fn stream(&self) -> Response<Incoming> {
        let stream = self.gate.open(self.request(Method::GET), "").await;
        assert_eq!(stream.status(), 200);
        stream
    }

    async fn tools(&self) -> Vec<String> {
        super::bridge::names(&self.post(request(3, "tools/list")).await.json())
    }
}

/// Everything up to the nth update of the resource.
async fn updates(stream: &mut Response<Incoming>, n: usize) -> String {
    let mut text = String::new();
    while text.matches("resources/updated").count() < n {
        text += &read_to(stream.body_mut(), "resources/updated").await;
    }
    text
}

fn upstreams(named: &[(&str, &Fake)]) -> String {
    named.iter().map(|(name, fake)| format!("upstreams.{name}.url = \"{}\"\n", fake.url())).collect()
}

/// Opens a session at `/mcp`, with the first configuration in force, and takes it through the second.
async fn goes_on(
    server: &Server,
    before: &[(&str, &Fake)],
    after: &[(&str, &Fake)],
    more: &str,
    told: RangeInclusive<usize>,
) {
    let gate = Gateway::start(&upstreams(before)).await;
    for (name, _) in before {
        gate.knows(name).await;
    }
    let of_one = |tool: &str, all: &[(&str, &Fake)]| {
        if all.len() == 1 { tool.to_owned() } else { format!("one__{tool}") }
    };
    let client = Client::join(&gate).await;
    let mut stream = client.stream().await;
    assert_eq!(client.ask("logging/setLevel", &json!({"level": "warning"})).await, json!({}));
    assert_eq!(client.ask("resources/subscribe", &json!({"uri": "a://x"})).await, json!({}));
    server.update().await;
    updates(&mut stream, 1).await;
    let mut asked = gate.open(client.request(Method::POST), tool(7, &of_one("ask", before), "{}")).await;
    let question = read_to(asked.body_mut(), "\n\n").await;
    let listed = client.tools().await;

    gate.rewrite(&format!("{}{more}", upstreams(after)));
    gate.logged("configuration reloaded").await;
    for (name, _) in after {
        gate.knows(name).await;
    }
    tokio::time::sleep(A_WHILE).await;
    // The first of these is told because one may have been missed.
    until("one who listens", || server.open().len() == 1).await;
    server.update().await;
    let heard = updates(&mut stream, 2).await;
    assert!(told.contains(&heard.matches("tools/list_changed").count()), "{heard}");
    let same = !more.is_empty() || *told.end() == 0;
    assert_eq!(client.tools().await == listed, same);

    let data = question.lines().find_map(|l| l.strip_prefix("data: ")).unwrap();
    let id = data.parse::<Value>().unwrap()["id"].clone();
    let said = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {}}});
    let taken = client.post(said.to_string()).await;
    assert_eq!(taken.status, 202, "{}", taken.text());
    read_to(asked.body_mut(), "\"text\":\"accept\"").await;

    assert_eq!(client.post(tool(8, &of_one("add", after), "{}")).await.status, 200);
    assert_eq!(server.level(), "warning");
    // The stream hears of later changes too, and of what is subscribed to anew.
    assert_eq!(client.ask("resources/unsubscribe", &json!({"uri": "a://x"})).await, json!({}));
    if after.len() > 1 {
        until("nobody listens", || server.open().is_empty()).await;
    }
    assert_eq!(client.ask("resources/subscribe", &json!({"uri": "a://x"})).await, json!({}));
    server.update().await;
    updates(&mut stream, 1).await;
    if after.len() > 1 {
        server.fake.set_tools(json!([{"name": "new", "inputSchema": {"type": "object"}}])).await;
        read_to(stream.body_mut(), "tools/list_changed").await;
    }
    drop((stream, asked));
    gate.stop().await;
}

#[tokio::test]
async fn a_session_goes_on_when_a_server_is_added_to_several() {
    let (server, two, three) = (Server::start().await, modern_server().await, modern_server().await);
    let one = &server.fake;
    let after = [("one", one), ("two", &two), ("three", &three)];
    goes_on(&server, &[("one", one), ("two", &two)], &after, "", 1..=1).await;
}

#[tokio::test]
async fn a_session_hears_of_nothing_when_the_lists_stay_the_same() {
    let (server, two, three) = (Server::start().await, modern_server().await, modern_server().await);
    three.set_tools(json!([])).await;
    let one = &server.fake;
    let after = [("one", one), ("two", &two), ("three", &three)];
    goes_on(&server, &[("one", one), ("two", &two)], &after, "", 0..=0).await;
}

#[tokio::test]
async fn a_session_goes_on_when_one_server_becomes_several_and_one_again() {
    let (server, two) = (Server::start().await, modern_server().await);
    let one = &server.fake;
    goes_on(&server, &[("one", one)], &[("one", one), ("two", &two)], "", 1..=3).await;
    let server = Server::start().await;
    let one = &server.fake;
    goes_on(&server, &[("one", one), ("two", &two)], &[("one", one)], "", 1..=1).await;
}

#[tokio::test]
async fn a_session_goes_on_when_a_server_is_configured_otherwise() {
    let (server, two) = (Server::start().await, modern_server().await);
    let both = [("one", &server.fake), ("two", &two)];
    // Until its tools are learned anew they are not in the list.
    goes_on(&server, &both, &both, "upstreams.one.timeout = \"50s\"\n", 0..=2).await;
}

#[tokio::test]
async fn a_stream_ends_with_the_endpoint_of_its_session() {
    let (server, two) = (Server::start().await, modern_server().await);
    let both = upstreams(&[("one", &server.fake), ("two", &two)]);
    let gate = Gateway::start(&both).await;
    for name in ["one", "two"] {
        gate.knows(name).await;
    }
    let client = Client::join(&gate).await;
    let path = |method| client.request(method).uri("/mcp/one");
    let mut stream = gate.open(path(Method::GET), "").await;
    assert_eq!(stream.status(), 200);
    read_to(stream.body_mut(), "keep-alive").await;
    gate.rewrite(&upstreams(&[("two", &two)]));
    while crate::support::process::next(stream.body_mut()).await.is_some() {}
    assert_eq!(gate.call(path(Method::GET), "").await.status, 404);
    gate.stop().await;
}
