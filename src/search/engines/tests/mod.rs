//! The drivers against answers of the documented shape, served on loopback. The fixtures are our own.

mod drivers;

use crate::free::free;
use std::{net::SocketAddr, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{request::with_sites, *};

/// What it was asked: the head, and the body as JSON.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

/// Serves the same bytes to every request; nothing at all if there are none.
struct Fake {
    addr: SocketAddr,
    seen: Seen,
}

impl Fake {
    async fn start(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, seen, answer) = (listener.local_addr().unwrap(), Seen::default(), answer.into());
        let theirs = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), Arc::clone(&theirs)));
            }
        });
        Self { addr, seen }
    }

    async fn json(status: u16, body: &Value) -> Self {
        Self::start(answer(status, "application/json", &body.to_string())).await
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }

    fn engine(&self, kind: EngineKind) -> config::Engine {
        engine(kind, &format!("http://{}", self.addr))
    }
}

fn answer(status: u16, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

async fn serve(mut stream: TcpStream, answer: Vec<u8>, seen: Seen) {
    let mut bytes = Vec::new();
    let whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length =
            head.to_lowercase().lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
        (body.len() >= length.unwrap_or(0))
            .then(|| (head.to_owned(), serde_json::from_str(body).unwrap_or_default()))
    };
    while whole(&bytes).is_none() {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    seen.lock().unwrap().extend(whole(&bytes));
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    stream.write_all(&answer).await.unwrap();
}

fn engine(kind: EngineKind, url: &str) -> config::Engine {
    let key = Some(Secret::new("s3cret"));
    config::Engine { name: "main".into(), kind, url: Some(url.parse().unwrap()), key, weight: 2.0 }
}

fn plain_query() -> Query {
    Query { text: "rust".into(), count: 10, page: 1, snippet_tokens: 60, ..Query::default() }
}

async fn ask(engines: &Engines, query: Query) -> Outcome {
    let store = Store::open(None, 16 << 20).unwrap();
    engines.search(&store, &"ada".into(), &[], &Arc::new(query)).await.remove(0)
}

const ALL: [EngineKind; 4] = [EngineKind::Searxng, EngineKind::Brave, EngineKind::Tavily, EngineKind::Exa];

#[tokio::test]
async fn what_goes_wrong_is_told_apart_and_never_shows_the_key() {
    let detail = json!({"detail": {"error": "Unauthorized: s3cret"}, "error": {"detail": "s3cret"}});
    for (status, body, kind) in [
        (401, detail.to_string(), FailureKind::Unauthorized),
        (403, "<html>Forbidden</html>".into(), FailureKind::Unauthorized),
        (422, detail.to_string(), FailureKind::Refused),
        (429, detail.to_string(), FailureKind::RateLimited),
        (432, detail.to_string(), FailureKind::RateLimited),
        (302, String::new(), FailureKind::BadAnswer),
        (503, "down".into(), FailureKind::ServerError),
        (200, "<!doctype html><html>s3cret</html>".into(), FailureKind::BadAnswer),
        (200, "{\"results\": [{\"tit".into(), FailureKind::BadAnswer),
        (200, "[]".into(), FailureKind::BadAnswer),
        (200, "{\"error\":\"s3cret\"}".into(), FailureKind::BadAnswer),
        (200, String::new(), FailureKind::BadAnswer),
        (200, " ".repeat(3 << 20), FailureKind::BadAnswer),
    ] {
        let fake = Fake::start(answer(status, "text/html", &body)).await;
        for engine in ALL {
            let outcome = ask(&Engines::new(&[fake.engine(engine)]), plain_query()).await;
            let failure = outcome.result.unwrap_err();
            assert_eq!(failure.kind, kind, "{engine:?} {status}: {failure}");
            let shown = format!("{failure} {failure:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("127.0.0.1"), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_instance_without_json_is_told_what_to_change() {
    let fake = Fake::start(answer(403, "text/html", "<html></html>")).await;
    let outcome = ask(&Engines::new(&[fake.engine(EngineKind::Searxng)]), plain_query()).await;
    assert!(outcome.result.unwrap_err().message.contains("add json to search.formats"));
}

#[tokio::test]
async fn no_connection_and_garbage_are_failures_too() {
    let garbage = Fake::start("SSH-2.0-OpenSSH\r\n").await;
    for addr in [free(), garbage.addr] {
        let engines = Engines::new(&[engine(EngineKind::Brave, &format!("http://{addr}"))]);
        assert_eq!(ask(&engines, plain_query()).await.result.unwrap_err().kind, FailureKind::Unreachable);
    }
}

#[tokio::test]
async fn a_slow_engine_is_given_up_and_the_others_hits_stay() {
    let slow = Fake::start("").await;
    let good = Fake::json(200, &json!({"results": [{"url": "https://example.com/", "title": "T"}]})).await;
    let named =
        |fake: &Fake, name: &str| config::Engine { name: name.into(), ..fake.engine(EngineKind::Tavily) };
    let engines = Engines::new(&[named(&slow, "slow"), named(&good, "good")]);
    let store = Store::open(None, 16 << 20).unwrap();
    let query = Arc::new(plain_query());
    let tenant = "ada".into();
    let outcomes = engines.search(&store, &tenant, &[], &query).await;
    assert_eq!(outcomes[0].result.as_ref().unwrap_err().kind, FailureKind::Timeout);
    assert!(outcomes[0].ms >= 4_000);
    assert_eq!((&*outcomes[1].engine, outcomes[1].result.as_ref().unwrap().hits.len()), ("good", 1));
    let one = engines.search(&store, &tenant, &["good".into()], &query).await;
    assert_eq!(one.len(), 1);
}

#[tokio::test]
async fn an_engine_that_keeps_failing_is_left_alone() {
    let fake = Fake::start(answer(500, "text/plain", "")).await;
    let engines = Engines::new(&[fake.engine(EngineKind::Searxng)]);
    for _ in 0..3 {
        assert_eq!(ask(&engines, plain_query()).await.result.unwrap_err().kind, FailureKind::ServerError);
    }
    assert_eq!(ask(&engines, plain_query()).await.result.unwrap_err().kind, FailureKind::CircuitOpen);
    assert_eq!(fake.asked().len(), 3);
    let limited = Fake::start("HTTP/1.1 429 X\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n").await;
    let engines = Engines::new(&[limited.engine(EngineKind::Exa)]);
    let failure = ask(&engines, plain_query()).await.result.unwrap_err();
    assert_eq!(
        (failure.kind, failure.retry_after),
        (FailureKind::RateLimited, Some(Duration::from_secs(60)))
    );
    assert_eq!(ask(&engines, plain_query()).await.result.unwrap_err().kind, FailureKind::CircuitOpen);
}

#[tokio::test]
async fn without_configuration_the_local_index_is_asked() {
    let engines = Engines::new(&[]);
    assert_eq!(engines.names().collect::<Vec<_>>(), ["local"]);
    assert!(engines.is_local("local"));
    assert_eq!(ask(&engines, plain_query()).await.result.unwrap(), Page::default());
}

#[test]
fn addresses_are_completed_once() {
    for (given, path, whole) in [
        ("http://h:8888", "/search", "http://h:8888/search"),
        ("http://h/searx/", "/search", "http://h/searx/search"),
        ("http://h/searx/search", "/search", "http://h/searx/search"),
        (
            "https://api.search.brave.com",
            "/res/v1/web/search",
            "https://api.search.brave.com/res/v1/web/search",
        ),
    ] {
        assert_eq!(with_path(Url::parse(given).unwrap(), path).unwrap().as_str(), whole);
    }
}

#[test]
fn dates_are_days() {
    for (given, day) in [
        ("2024-05-01T10:00:00", Some("2024-05-01")),
        ("2024-05-01", Some("2024-05-01")),
        ("Wed, 01 May 2024 12:00:00 +0200", Some("2024-05-01")),
        ("2 days ago", None),
        ("2024-13-01", None),
        ("ééééééééé", None),
    ] {
        assert_eq!(date(given).as_deref(), day, "{given}");
    }
}

#[test]
fn filters_that_do_not_fit_are_left_to_us() {
    let query = Query { text: "x".repeat(390), include: vec!["example.com".into()], ..Query::default() };
    assert_eq!(with_sites(&query, 400), query.text);
}
