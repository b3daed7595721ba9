//! The catalog against real servers on loopback, in both eras and in their bad moods.

mod era;
mod peers;
mod server;

use crate::free::free;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::{
    peers::{CHANGED, Peer, html},
    server::{Server, empty, error, result, stream, text, tools},
};
use super::{Catalog, State};
use crate::{
    config::{Globs, Target, Upstream, UpstreamTls},
    mcp::era::Era,
    upstream::{Upstream as Reached, http::HttpUpstream},
};

/// A catalog at work, and its end.
struct Running {
    catalog: Arc<Catalog>,
    upstream: Arc<dyn Reached>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn on(address: std::net::SocketAddr, protocol: Option<&str>, timeout: Duration) -> Self {
        let upstream = Upstream {
            smart: Default::default(),
            http_sse: false,
            name: "peer".into(),
            target: Target::Http(format!("http://{address}/mcp").parse().expect("a URL")),
            protocol: None,
            prefix: String::new(),
            tools: Globs::new(["*"]),
            headers: BTreeMap::new(),
            timeout,
            idle_timeout: timeout,
            max_total_timeout: timeout,
            answer_within: timeout,
            connect_timeout: timeout,
            retries: 0,
            schema_coercion: None,
            tls: UpstreamTls::default(),
            show: Default::default(),
        };
        let upstream: Arc<dyn Reached> = Arc::new(HttpUpstream::new(&upstream).expect("a plain target"));
        let catalog = Arc::new(Catalog::new("peer".into(), protocol, timeout));
        let stop = CancellationToken::new();
        let task = tokio::spawn(catalog.clone().run(Arc::clone(&upstream), stop.clone()));
        Self { catalog, upstream, stop, task }
    }

    fn of(server: &Server) -> Self {
        Self::on(server.address, None, Duration::from_secs(10))
    }

    fn fixed(server: &Server, protocol: &str) -> Self {
        Self::on(server.address, Some(protocol), Duration::from_secs(10))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.catalog.tools().iter().map(|tool| tool.name.clone()).collect();
        names.sort();
        names
    }

    async fn knows(&self, names: &[&str]) {
        until(&format!("the tools are {names:?}"), || self.names() == names).await;
    }

    async fn is_ready(&self) {
        until("the catalog is ready", || matches!(self.catalog.state(), State::Ready { .. })).await;
    }

    /// Waits until learning failed; the error.
    async fn error(&self) -> String {
        until("learning fails", || matches!(self.catalog.state(), State::Unreachable { .. })).await;
        match self.catalog.state() {
            State::Unreachable { error, .. } => error,
            other => panic!("{other:?}"),
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("the task ends without a panic");
    }
}

/// Waits for a condition; how long is only a guard against waiting forever.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "still waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the stream of changes is open and the look that follows its opening is over: from then on
/// nothing but a change leads to another one.
async fn settled(server: &Server, peer: &Peer) {
    until("the list was read after the stream opened", || {
        peer.open_streams() == 1 && server.count("tools/list") == 2
    })
    .await;
}

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": CHANGED})
}

#[tokio::test]
async fn learns_from_a_modern_server_without_a_handshake() {
    let peer = Peer::new(&["read", "write"]);
    let server = Server::start(move |seen| peer.modern(seen)).await;
    let running = Running::of(&server);
    running.knows(&["read", "write"]).await;
    running.is_ready().await;
    assert_eq!(running.catalog.era(), Some(Era::Modern));
    assert_eq!(running.catalog.version().as_deref(), Some("2026-07-28"));
    assert!(matches!(running.catalog.state(), State::Ready { tools: 2, era: "modern", .. }));
    running.end().await;
    let seen = server.all();
    assert!(seen.iter().all(|s| s.verb == Method::POST
        && s.method() != "initialize"
        && s.header("mcp-session-id").is_none()));
    assert!(seen.iter().all(|s| s.header("user-agent").is_some_and(|agent| agent.starts_with("smartgate/"))));
    assert!(seen.iter().all(|s| s.header("authorization").is_none()));
}

#[tokio::test]
async fn learns_from_a_legacy_server_in_a_session_of_its_own_and_ends_it() {
    let peer = Peer::telling(&["read"]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    running.knows(&["read"]).await;
    assert_eq!(running.catalog.era(), Some(Era::Legacy));
    assert_eq!(running.catalog.version().as_deref(), Some("2025-11-25"));
    until("the stream of changes is open", || peer.open_streams() == 1).await;
    running.end().await;

    let seen = server.all();
    let order: Vec<_> = seen.iter().map(|s| s.method()).filter(|m| !m.is_empty()).take(4).collect();
    assert_eq!(order, ["server/discover", "initialize", "notifications/initialized", "tools/list"]);
    let hello = &seen[1].body["params"];
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    // Some servers have tools only for clients that can be asked, and all clients are shown the same lists.
    assert_eq!(hello["capabilities"], json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}));
    assert_eq!(hello["clientInfo"]["name"], "smartgate");
    assert_eq!(seen.last().map(|s| s.verb.clone()), Some(Method::DELETE));
    assert!(peer.sessions.as_ref().expect("has sessions").lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn a_change_told_on_the_legacy_stream_is_learned() {
    let peer = Peer::telling(&["old"]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    settled(&server, &peer).await;
    running.knows(&["old"]).await;
    peer.set(&["new", "newer"]);
    peer.tell(&changed());
    running.knows(&["new", "newer"]).await;
    assert_eq!(server.count("initialize"), 1);
    running.end().await;
}

#[tokio::test]
async fn a_change_told_to_a_modern_listener_is_learned() {
    let peer = Peer::telling(&["old"]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.modern(seen)).await;
    let running = Running::of(&server);
    settled(&server, &peer).await;
    running.knows(&["old"]).await;
    peer.set(&["new"]);
    peer.tell(&changed());
    running.knows(&["new"]).await;
    assert_eq!(server.count("server/discover"), 1);
    running.end().await;
}

#[tokio::test]
async fn a_broken_stream_is_opened_again_and_what_was_missed_is_learned() {
    let peer = Peer::telling(&["old"]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    settled(&server, &peer).await;
    running.knows(&["old"]).await;
    peer.set(&["new"]);
    peer.end_streams();
    running.knows(&["new"]).await;
    until("the stream is open again", || peer.open_streams() == 1).await;
    running.end().await;
}

#[tokio::test]
async fn a_ping_on_the_stream_is_answered() {
    let peer = Peer::telling(&[]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    until("the stream of changes is open", || peer.open_streams() == 1).await;
    peer.tell(&json!({"jsonrpc": "2.0", "id": "p-1", "method": "ping"}));
    let answered =
        || server.all().iter().any(|s| s.body == json!({"jsonrpc": "2.0", "id": "p-1", "result": {}}));
    until("the ping is answered", answered).await;
    running.end().await;
}

#[tokio::test]
async fn what_a_server_asks_outside_of_calls_is_refused() {
    let peer = Peer::telling(&[]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    until("the stream of changes is open", || peer.open_streams() == 1).await;
    peer.tell(&json!({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}}));
    let refused = || server.all().iter().any(|s| s.body["id"] == 5 && s.body["error"]["code"] == -32601);
    until("the question is refused", refused).await;
    running.end().await;
}

#[tokio::test]
async fn a_lifetime_that_ran_out_is_a_reason_to_look_again() {
    let peer = Arc::new(Peer { ttl_ms: 1, ..Peer::new(&["old"]) });
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.modern(seen)).await;
    let running = Running::of(&server);
    running.knows(&["old"]).await;
    peer.set(&["new"]);
    running.knows(&["new"]).await;
    running.end().await;
}

#[tokio::test]
async fn nudges_are_followed_but_at_most_one_a_second() {
    let peer = Arc::new(Peer::new(&["old"]));
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let began = Instant::now();
    let running = Running::of(&server);
    running.knows(&["old"]).await;
    peer.set(&["new"]);
    until("two nudges are followed", || {
        running.catalog.nudge();
        server.count("tools/list") >= 3
    })
    .await;
    running.knows(&["new"]).await;
    let allowed = 2 + began.elapsed().as_secs() as usize;
    assert!(server.count("tools/list") <= allowed, "{} looks", server.count("tools/list"));
    assert!(server.all().iter().all(|s| s.header("mcp-session-id").is_none()), "the server gave no session");
    running.end().await;
}

#[tokio::test]
async fn an_unchanged_list_keeps_the_same_set() {
    let peer = Peer { ttl_ms: 1, ..Peer::new(&["same"]) };
    let server = Server::start(move |seen| peer.modern(seen)).await;
    let running = Running::of(&server);
    running.is_ready().await;
    let first = running.catalog.tools();
    until("it was listed again", || server.count("tools/list") >= 3).await;
    assert!(Arc::ptr_eq(&first, &running.catalog.tools()));
    running.end().await;
}

#[tokio::test]
async fn answers_as_event_streams_are_read_past_other_messages() {
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => error(seen, 400, -32000, Value::Null),
        "initialize" | "tools/list" => {
            let (response, events) = stream();
            events.send(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}),
            );
            events.send(&json!({"jsonrpc": "2.0", "id": 999, "result": {"tools": [{"name": "wrong"}]}}));
            events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "method": "roots/list"}));
            let mut body = tools(&["right"]);
            body["protocolVersion"] = json!("2025-06-18");
            events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": body}));
            response
        }
        "" => empty(405),
        _ => empty(202),
    })
    .await;
    let running = Running::of(&server);
    running.knows(&["right"]).await;
    assert_eq!(running.catalog.version().as_deref(), Some("2025-06-18"));
    running.end().await;
}

#[tokio::test]
async fn a_server_that_is_down_at_first_is_learned_when_it_comes() {
    let address = free();
    let running = Running::on(address, None, Duration::from_secs(10));
    running.error().await;
    assert!(running.catalog.tools().is_empty() && running.catalog.era().is_none());
    let peer = Peer::new(&["late"]);
    let server =
        Server::on(TcpListener::bind(address).await.expect("the same port"), move |seen| peer.modern(seen));
    running.knows(&["late"]).await;
    running.is_ready().await;
    drop(server);
    running.catalog.nudge();
    running.error().await;
    assert_eq!(running.names(), ["late"], "what was known stays while the server is away");
    running.end().await;
}

#[tokio::test]
async fn a_forgotten_session_is_replaced_without_a_word() {
    let peer = Peer::telling(&["old"]);
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.legacy(seen)).await;
    let running = Running::of(&server);
    settled(&server, &peer).await;
    running.is_ready().await;
    peer.set(&["new"]);
    peer.forget_sessions();
    until("the new tools are known", || {
        assert!(matches!(running.catalog.state(), State::Ready { .. }), "{:?}", running.catalog.state());
        running.names() == ["new"]
    })
    .await;
    assert_eq!(server.count("initialize"), 2);
    running.end().await;
}

#[tokio::test]
async fn a_server_replaced_by_one_of_the_other_era_is_found_out() {
    let peer = Arc::new(Peer::new(&["old"]));
    let legacy = Arc::new(AtomicBool::new(false));
    let (handler, is_legacy) = (peer.clone(), legacy.clone());
    let server = Server::start(move |seen| match (is_legacy.load(SeqCst), seen.method()) {
        (false, _) => handler.modern(seen),
        (true, "server/discover") => text(400, "application/json", ""),
        (true, "tools/list") if seen.header("mcp-method").is_some() => error(seen, 400, -32000, Value::Null),
        (true, _) => handler.legacy(seen),
    })
    .await;
    let running = Running::of(&server);
    running.knows(&["old"]).await;
    peer.set(&["new"]);
    legacy.store(true, SeqCst);
    running.catalog.nudge();
    running.knows(&["new"]).await;
    assert_eq!(running.catalog.era(), Some(Era::Legacy));
    running.end().await;
}

#[tokio::test]
async fn where_the_gateway_is_refused_lists_that_pass_by_are_learned() {
    for status in [401, 403] {
        let server = Server::start(move |_| empty(status)).await;
        let running = Running::of(&server);
        running.catalog.observe_list(br#"{"tools":[{"name":"too-early"}]}"#);
        until("the gateway is refused", || matches!(running.catalog.state(), State::Unauthorized { .. }))
            .await;
        running
            .catalog
            .observe_list(br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}],"nextCursor":"2"}}"#);
        running
            .catalog
            .observe_list(br#"{"tools":[{"name":"b"},{"name":"a","annotations":{"readOnlyHint":true}}]}"#);
        running.catalog.observe_list(b"<html>");
        running.catalog.observe_list(br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#);
        assert_eq!(running.names(), ["a", "b"]);
        assert!(
            running.catalog.tools().get("a").is_some_and(|tool| tool.read_only),
            "the later definition counts"
        );
        assert_eq!(running.catalog.state(), State::Unauthorized { tools: 2 });
        running.end().await;
    }
}

#[tokio::test]
async fn lists_that_pass_by_do_not_count_where_the_gateway_may_ask() {
    let peer = Peer::new(&["own"]);
    let server = Server::start(move |seen| peer.modern(seen)).await;
    let running = Running::of(&server);
    running.is_ready().await;
    running.catalog.observe_list(br#"{"tools":[{"name":"theirs"}]}"#);
    assert_eq!(running.names(), ["own"]);
    running.end().await;
}

/// A legacy server whose `tools/list` is scripted.
async fn with_list(
    list: impl Fn(&server::Seen) -> http::Response<crate::upstream::ResponseBody> + Send + Sync + 'static,
) -> Server {
    let peer = Peer::new(&[]);
    Server::start(move |seen| match seen.method() {
        "server/discover" => error(seen, 400, -32000, Value::Null),
        "tools/list" => list(seen),
        _ => peer.legacy(seen),
    })
    .await
}

#[tokio::test]
async fn pages_are_read_in_order_and_a_cursor_that_comes_twice_ends_them() {
    let server = with_list(|seen| {
        let (name, next) = match seen.body.pointer("/params/cursor").and_then(Value::as_str) {
            None => ("one", json!("")),
            Some("") => ("two", json!("b")),
            _ => ("three", json!("b")),
        };
        let mut page = tools(&[name]);
        page["nextCursor"] = next;
        result(seen, page)
    })
    .await;
    let running = Running::of(&server);
    running.knows(&["one", "three", "two"]).await;
    running.is_ready().await;
    assert_eq!(server.count("tools/list"), 3);
    running.end().await;
}

#[tokio::test]
async fn a_list_without_end_is_cut() {
    let pages = AtomicUsize::new(0);
    let server = with_list(move |seen| {
        let n = pages.fetch_add(1, SeqCst);
        let mut page = json!({"tools": [{"name": format!("t{n}")}]});
        page["nextCursor"] = json!(n.to_string());
        result(seen, page)
    })
    .await;
    let running = Running::of(&server);
    running.is_ready().await;
    assert_eq!(running.catalog.tools().len(), 1_000);
    running.end().await;
}

#[tokio::test]
async fn a_large_list_is_learned_and_one_over_the_limit_is_refused() {
    let description = "x".repeat(2_000);
    let size = Arc::new(AtomicUsize::new(2_000));
    let asked = size.clone();
    let server = with_list(move |seen| {
        let tool = |n: usize| json!({"name": format!("t{n}"), "description": description});
        result(seen, json!({"tools": (0..asked.load(SeqCst)).map(tool).collect::<Vec<_>>()}))
    })
    .await;
    let running = Running::of(&server);
    running.is_ready().await;
    assert_eq!(running.catalog.tools().len(), 2_000);
    size.store(9_000, SeqCst);
    running.catalog.nudge();
    assert!(running.error().await.contains("larger than 16 MiB"));
    assert_eq!(running.catalog.tools().len(), 2_000);
    running.end().await;
}

#[tokio::test]
async fn a_server_without_tools_is_ready_with_none() {
    let server = with_list(|seen| error(seen, 200, -32601, Value::Null)).await;
    let running = Running::of(&server);
    running.is_ready().await;
    assert!(running.catalog.tools().is_empty());
    running.end().await;
}

#[tokio::test]
async fn an_unsupported_version_leads_to_one_that_is_supported() {
    for (supported, spoken) in [
        (json!(["2025-06-18", "2025-03-26"]), "2025-06-18"),
        (json!(["2027-05-01", "2025-11-25"]), "2027-05-01"),
    ] {
        let server = Server::start(move |seen| {
            let version = seen.body.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
            match (seen.method(), version.and_then(Value::as_str)) {
                (_, Some("2026-07-28")) => error(seen, 400, -32022, json!({"supported": supported})),
                ("server/discover", Some("2027-05-01")) => {
                    result(seen, json!({"supportedVersions": supported, "capabilities": {}}))
                }
                ("initialize", _) => {
                    result(seen, json!({"protocolVersion": seen.body["params"]["protocolVersion"]}))
                }
                ("tools/list", _) => {
                    result(seen, tools(&[if version.is_some() { "modern" } else { "legacy" }]))
                }
                ("notifications/initialized", _) => empty(202),
                _ => empty(405),
            }
        })
        .await;
        let running = Running::of(&server);
        running.is_ready().await;
        assert_eq!(running.catalog.version().as_deref(), Some(spoken));
        running.end().await;
    }
}

#[tokio::test]
async fn a_revision_written_in_the_configuration_is_not_in_question() {
    let both =
        || {
            let peer = Peer::new(&["t"]);
            Server::start(move |seen| {
                if seen.header("mcp-method").is_some() { peer.modern(seen) } else { peer.legacy(seen) }
            })
        };
    let server = both().await;
    let running = Running::fixed(&server, "2025-06-18");
    running.knows(&["t"]).await;
    running.end().await;
    assert_eq!(server.count("server/discover"), 0);
    assert_eq!(server.all()[0].body["params"]["protocolVersion"], "2025-06-18");

    let server = both().await;
    let running = Running::fixed(&server, "2026-07-28");
    running.knows(&["t"]).await;
    running.end().await;
    assert_eq!(server.count("initialize"), 0);

    let peer = Peer::new(&["t"]);
    let server = Server::start(move |seen| peer.legacy(seen)).await;
    let running = Running::fixed(&server, "2026-07-28");
    until("it was asked", || server.count("server/discover") > 0).await;
    running.end().await;
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test]
async fn a_server_held_to_the_modern_era_is_not_asked_for_legacy_clients() {
    let both =
        || {
            let peer = Peer::new(&["t"]);
            Server::start(move |seen| {
                if seen.header("mcp-method").is_some() { peer.modern(seen) } else { peer.legacy(seen) }
            })
        };
    for (protocol, serves_legacy) in [(Some("2026-07-28"), false), (None, true)] {
        let server = both().await;
        let running = Running::on(server.address, protocol, Duration::from_secs(10));
        running.knows(&["t"]).await;
        running.catalog.before(Era::Legacy, &running.upstream, &HeaderMap::new()).await;
        assert_eq!(running.catalog.speaks(Era::Legacy), serves_legacy, "{protocol:?}");
        assert!(running.catalog.speaks(Era::Modern));
        running.end().await;
        assert_eq!(server.count("initialize"), usize::from(serves_legacy), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_call_that_waits_has_the_list_read_again() {
    let peer = Arc::new(Peer::new(&["old"]));
    let handler = peer.clone();
    let server = Server::start(move |seen| handler.modern(seen)).await;
    let running = Running::of(&server);
    running.knows(&["old"]).await;
    let before = running.catalog.offers_version();
    peer.set(&["new"]);
    assert!(running.catalog.relisted(before).await);
    assert_eq!(running.names(), ["new"]);
    assert!(running.catalog.relisted(before).await, "it is another list already");
    running.end().await;
}

#[tokio::test]
async fn what_is_no_mcp_server_is_said_without_its_words() {
    let server = Server::start(html).await;
    let running = Running::of(&server);
    let error_text = running.error().await;
    assert!(error_text.contains("initialize: HTTP 200 without a JSON-RPC response"), "{error_text}");
    running.end().await;

    let server = Server::start(|seen| error(seen, 500, -32603, json!({"authorization": "hunter2"}))).await;
    let running = Running::of(&server);
    let error_text = running.error().await;
    assert!(error_text.contains("-32603") && !error_text.contains("hunter2"), "{error_text}");
    running.end().await;
}

#[tokio::test]
async fn a_server_that_is_overloaded_or_silent_is_unreachable() {
    let server = Server::start(|_| empty(503)).await;
    let running = Running::of(&server);
    assert_eq!(running.error().await, "HTTP 503");
    running.end().await;
    assert_eq!(server.count("initialize"), 0, "503 says nothing about the era");

    let held = Mutex::new(Vec::new());
    let server = Server::start(move |_| {
        let (response, events) = stream();
        held.lock().expect("not poisoned").push(events);
        response
    })
    .await;
    let running = Running::on(server.address, None, Duration::from_millis(200));
    assert!(running.error().await.starts_with("no answer within"));
    running.end().await;
}
