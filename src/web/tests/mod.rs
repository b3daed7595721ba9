//! The fetcher over real sockets on loopback.

pub(crate) mod site;

use crate::free::free;
use std::{net::SocketAddr, sync::Arc, time::Duration};

use self::site::{Site, not_found, page, reply};
use super::{CacheUse, Extract, FetchError, Fetcher, Options, Page, Table};
use crate::{
    config::{self, UpstreamTls},
    store::Store,
};

fn store() -> Store {
    Store::open(None, 64 << 20).unwrap()
}

fn options() -> Options {
    Options { extract: Extract::Full, timeout: Duration::from_secs(60), ..Options::new("ada".into()) }
}

/// One that knows `site.test` as if it were public, and checks everything else.
fn strict(public: SocketAddr, checked: Vec<(&'static str, Vec<SocketAddr>)>, ports: Vec<u16>) -> Fetcher {
    let settings = config::Fetch { ports, ..config::Fetch::default() };
    let table = Table { public: vec![("site.test", public), ("other.test", public)], checked };
    Fetcher::for_tests(&settings, store(), table, UpstreamTls::default())
}

/// One for everything on loopback.
fn open(port: u16, robots: bool) -> Fetcher {
    let settings = config::Fetch { allow_private: true, ports: vec![port], robots };
    Fetcher::new(&settings, store())
}

async fn get(fetcher: &Fetcher, url: &str) -> Result<Page, FetchError> {
    fetcher.fetch(url, &options()).await
}

#[tokio::test]
async fn redirects_are_followed_and_each_is_checked() {
    let secret = Site::start(|_, _| page("<p>secret</p>")).await;
    let port = secret.address.port();
    let site = Site::start(move |path, _| match path {
        "/robots.txt" => not_found(),
        "/hop" => reply(302, &[("location", "/here?x#y")], ""),
        "/here?x" => page("<p>found it</p>"),
        "/loop" => reply(301, &[("location", "/loop")], ""),
        "/ip" => reply(302, &[("location", &format!("http://127.0.0.1:{port}/"))], ""),
        "/hex" => reply(307, &[("location", &format!("http://0x7f000001:{port}/"))], ""),
        "/mapped" => reply(308, &[("location", &format!("http://[::ffff:127.0.0.1]:{port}/"))], ""),
        "/name" => reply(303, &[("location", "http://inside.test/")], ""),
        "/local" => reply(302, &[("location", &format!("http://localhost:{port}/"))], ""),
        "/file" => reply(302, &[("location", "file:///etc/passwd")], ""),
        "/port" => reply(302, &[("location", "http://site.test:25/")], ""),
        "/nowhere" => reply(302, &[], ""),
        _ => not_found(),
    })
    .await;
    let fetcher = strict(site.address, vec![("inside.test", vec![secret.address])], vec![port]);
    let found = get(&fetcher, "http://site.test/hop").await.unwrap();
    assert_eq!((&*found.final_url, &*found.document.text), ("http://site.test/here?x", "found it"));
    assert_eq!(get(&fetcher, "http://site.test/loop").await, Err(FetchError::TooManyRedirects));
    for path in ["ip", "hex", "mapped", "name", "local"] {
        let url = format!("http://site.test/{path}");
        assert_eq!(get(&fetcher, &url).await, Err(FetchError::BlockedAddress), "{path}");
    }
    for path in ["file", "port"] {
        let error = get(&fetcher, &format!("http://site.test/{path}")).await.unwrap_err();
        assert_eq!(error.code(), "invalid_url", "{path}");
    }
    assert!(matches!(
        get(&fetcher, "http://site.test/nowhere").await,
        Err(FetchError::Status { status: 302, .. })
    ));
    assert_eq!(secret.asked(), Vec::<String>::new(), "nothing reached the inside");
}

#[tokio::test]
async fn names_are_judged_by_all_their_addresses() {
    let site = Site::start(|path, _| if path == "/" { page("<p>public</p>") } else { not_found() }).await;
    let inside: Vec<SocketAddr> = [
        "127.0.0.1:80",
        "10.0.0.1:80",
        "169.254.169.254:80",
        "[::1]:80",
        "[::ffff:10.0.0.1]:80",
        "[fd00::1]:80",
        "0.0.0.0:80",
    ]
    .iter()
    .map(|address| address.parse().unwrap())
    .collect();
    let fetcher = strict(site.address, vec![("inside.test", inside), ("empty.test", vec![])], vec![]);
    assert_eq!(get(&fetcher, "http://inside.test/").await, Err(FetchError::BlockedAddress));
    assert_eq!(get(&fetcher, "http://empty.test/").await, Err(FetchError::Dns));
    assert!(get(&fetcher, "http://site.test/").await.is_ok());
    let error = get(&fetcher, "http://inside.test/").await.unwrap_err();
    assert!(!error.to_string().contains("127.") && !error.to_string().contains("10.0"), "{error}");
}

#[tokio::test]
async fn robots_are_obeyed_at_each_hop_and_can_be_switched_off() {
    let rules = |path: &str, _: &str| match path {
        "/robots.txt" => {
            reply(200, &[("content-type", "text/plain")], "User-agent: smartgate\nDisallow: /no")
        }
        "/to" => reply(302, &[("location", "/no/page")], ""),
        _ => page("<p>text</p>"),
    };
    let site = Site::start(rules).await;
    let port = site.address.port();
    let fetcher = open(port, true);
    assert!(get(&fetcher, &site.url("/yes")).await.is_ok());
    assert_eq!(get(&fetcher, &site.url("/no")).await, Err(FetchError::BlockedByRobots));
    assert_eq!(get(&fetcher, &site.url("/to")).await, Err(FetchError::BlockedByRobots));
    assert_eq!(site.asked(), ["/yes", "/to"]);
    assert!(get(&open(port, false), &site.url("/no")).await.is_ok());

    let failing =
        Site::start(|path, _| if path == "/robots.txt" { reply(503, &[], "") } else { page("x") }).await;
    assert_eq!(
        get(&open(failing.address.port(), true), &failing.url("/")).await,
        Err(FetchError::BlockedByRobots)
    );
}

#[tokio::test]
async fn bodies_are_unpacked_and_bombs_are_not() {
    let gzip = |body: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, body).unwrap();
        encoder.finish().unwrap()
    };
    let bomb = gzip(&vec![b' '; 20 << 20]);
    let site = Site::start(move |path, head| {
        assert!(head.contains("accept-encoding: gzip, deflate, br, zstd"), "{head}");
        let coded = |coding: &str, body: Vec<u8>| {
            reply(200, &[("content-type", "text/html"), ("content-encoding", coding)], body)
        };
        match path {
            "/gzip" => coded("gzip", gzip(b"<p>packed words</p>")),
            "/zstd" => coded("zstd", zstd::bulk::compress(b"<p>packed words</p>", 3).unwrap()),
            "/bomb" => coded("gzip", bomb.clone()),
            "/big" => reply(200, &[("content-type", "text/plain")], vec![b'a'; 6 << 20]),
            "/broken" => coded("br", b"no brotli".to_vec()),
            "/koi8" => {
                reply(200, &[("content-type", "text/plain; charset=koi8-r")], b"\xf0\xd2\xc9\xd7\xc5\xd4")
            }
            _ => not_found(),
        }
    })
    .await;
    let fetcher = open(site.address.port(), false);
    for path in ["/gzip", "/zstd"] {
        assert_eq!(get(&fetcher, &site.url(path)).await.unwrap().document.text, "packed words");
    }
    for (path, code) in [
        ("/bomb", "too_large"),
        ("/big", "too_large"),
        ("/broken", "connect_failed"),
        ("/gone", "http_status"),
    ] {
        assert_eq!(get(&fetcher, &site.url(path)).await.unwrap_err().code(), code, "{path}");
    }
    assert_eq!(get(&fetcher, &site.url("/koi8")).await.unwrap().document.text, "Привет");
    let missing = get(&fetcher, &site.url("/gone")).await.unwrap_err();
    assert_eq!(missing, FetchError::Status { status: 404, excerpt: "Nothing here".into() });
}

#[tokio::test]
async fn kept_pages_are_asked_about_and_not_fetched_again() {
    let site = Site::start(|path, head| match path {
        "/etag" if head.contains("if-none-match: \"1\"") => reply(304, &[("cache-control", "max-age=0")], ""),
        "/etag" => reply(
            200,
            &[("content-type", "text/plain"), ("etag", "\"1\""), ("cache-control", "max-age=0")],
            "tagged",
        ),
        "/date" if head.contains("if-modified-since: Thu, 01 Jan 2026 00:00:00 GMT") => reply(304, &[], ""),
        "/date" => reply(
            200,
            &[("content-type", "text/plain"), ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")],
            "dated",
        ),
        "/moved" => reply(301, &[("location", "/etag")], ""),
        "/cookie" => reply(200, &[("content-type", "text/plain"), ("set-cookie", "a=b")], "cookie"),
        "/never" => reply(200, &[("content-type", "text/plain"), ("cache-control", "no-store")], "never"),
        _ => not_found(),
    })
    .await;
    let fetcher = open(site.address.port(), false);
    let used = async |path: &str, fresh: bool, owner: &str| {
        let options = Options { fresh, owner: Arc::from(owner), ..options() };
        let page = fetcher.fetch(&site.url(path), &options).await.unwrap();
        (page.cache, page.document.text)
    };
    for path in ["/etag", "/moved"] {
        assert_eq!(used(path, false, "ada").await, (CacheUse::Miss, "tagged".into()));
        assert_eq!(used(path, false, "ada").await, (CacheUse::Revalidated, "tagged".into()));
        // What one tenant has fetched, another cannot tell.
        assert_eq!(used(path, false, "bob").await.0, CacheUse::Miss);
    }
    assert_eq!(used("/date", false, "ada").await.0, CacheUse::Miss);
    assert_eq!(used("/date", false, "ada").await, (CacheUse::Hit, "dated".into()));
    assert_eq!(used("/date", true, "ada").await, (CacheUse::Revalidated, "dated".into()));
    assert_eq!(used("/cookie", false, "ada").await.0, CacheUse::Miss);
    assert_eq!(used("/cookie", false, "bob").await.0, CacheUse::Miss, "another tenant's cookie page");
    assert_eq!(used("/cookie", false, "ada").await.0, CacheUse::Hit);
    for _ in 0..2 {
        assert_eq!(used("/never", false, "ada").await.0, CacheUse::Miss);
    }
}

#[tokio::test]
async fn https_is_verified_and_never_left() {
    let (site, pem) = Site::start_tls(|path, _| match path {
        "/down" => reply(302, &[("location", "http://site.test/")], ""),
        _ => page("<p>safe</p>"),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, pem).unwrap();
    let trust = |ca| UpstreamTls { ca, ..UpstreamTls::default() };
    let settings = config::Fetch { robots: false, ..config::Fetch::default() };
    let table = Table { public: vec![("site.test", site.address)], ..Table::default() };
    let knows = Fetcher::for_tests(&settings, store(), table.clone(), trust(Some(ca)));
    assert_eq!(get(&knows, "https://site.test/").await.unwrap().document.text, "safe");
    assert_eq!(get(&knows, "https://site.test/down").await.unwrap_err().code(), "invalid_url");
    let stranger = Fetcher::for_tests(&settings, store(), table, trust(None));
    assert_eq!(get(&stranger, "https://site.test/").await.unwrap_err().code(), "tls_error");
}

#[tokio::test]
async fn silence_ends_with_the_timeout_and_absence_at_once() {
    let silent = free();
    let listener = tokio::net::TcpListener::bind(silent).await.unwrap();
    let fetcher = open(silent.port(), false);
    let short = Options { timeout: Duration::from_millis(100), ..options() };
    assert_eq!(fetcher.fetch(&format!("http://{silent}/"), &short).await, Err(FetchError::Timeout));
    drop(listener);
    let error = get(&fetcher, &format!("http://{silent}/")).await.unwrap_err();
    assert_eq!(error.code(), "connect_failed");
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
    let broken = Site::start(|_, _| {
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 100\r\n\r\nhalf".to_vec()
    })
    .await;
    assert_eq!(
        get(&open(broken.address.port(), false), &broken.url("/")).await.unwrap_err().code(),
        "connect_failed"
    );
    let noise = Site::start(|_, _| b"\x00\x01nonsense\r\n\r\n".to_vec()).await;
    assert_eq!(
        get(&open(noise.address.port(), false), &noise.url("/")).await.unwrap_err().code(),
        "connect_failed"
    );
}
