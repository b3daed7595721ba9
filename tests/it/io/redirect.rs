//! Redirects of an upstream: followed on its own authority, refused elsewhere.

use std::sync::{Arc, Mutex};

use http::{Method, Request, uri::PathAndQuery};
use smartgate::{
    config::Secret,
    upstream::{ForwardPath, Upstream, UpstreamError, http::HttpUpstream},
};

use super::{config, post, read, to};
use crate::support::server::Server;

/// An upstream that redirects with `status` to `location` until the path is `/end`, and records the heads
/// and bodies it gets.
async fn redirecting(status: u16, location: &'static str) -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    let server = Server::start(move |mut raw, _| {
        let seen = Arc::clone(&copy);
        async move {
            loop {
                let head = raw.read_to("\r\n\r\n").await;
                let body = if head.contains("content-length: 4") {
                    raw.read_to("body").await
                } else {
                    String::new()
                };
                seen.lock().unwrap().push(format!("{head}{body}"));
                if head.split(' ').nth(1).unwrap().starts_with("/end") {
                    raw.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").await;
                } else {
                    let answer =
                        format!("HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
                    raw.send(answer).await;
                }
            }
        }
    })
    .await;
    (server, seen)
}

#[tokio::test]
async fn keeps_method_body_and_headers_on_the_same_authority() {
    for status in [301, 302, 307, 308] {
        let (server, seen) = redirecting(status, "/end?x=1").await;
        let mut config = config(&format!("http://{}/mcp", server.addr));
        config.headers.insert("authorization".into(), Secret::new("Bearer t"));
        let upstream = HttpUpstream::new(&config).unwrap();
        assert_eq!(read(upstream.call(post("body")).await.unwrap()).await.unwrap(), "done");
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].starts_with("POST /end?x=1 HTTP/1.1\r\n"), "{status}: {}", seen[1]);
        assert!(seen[1].contains("authorization: Bearer t\r\n"));
        assert!(seen[1].ends_with("\r\n\r\nbody"));
    }
}

#[tokio::test]
async fn resolves_every_form_of_location_on_the_same_authority() {
    let cases = [("end", "/a/end"), ("?q=1", "/a/mcp?q=1"), ("/end#part", "/end")];
    for (location, path) in cases {
        let (server, seen) = redirecting(307, location).await;
        let upstream = to(&format!("http://{}/a/mcp", server.addr));
        drop(upstream.call(post("body")).await);
        let line = format!("POST {path} HTTP/1.1");
        assert!(seen.lock().unwrap()[1].starts_with(&line), "{location}: {}", seen.lock().unwrap()[1]);
    }
}

#[tokio::test]
async fn refuses_another_authority_and_sends_it_nothing() {
    let other = Server::start(|_, _| async {}).await;
    let places = [
        format!("http://{}/end", other.addr),
        format!("//{}/end", other.addr),
        "http://localhost/end".to_owned(),
        "https://127.0.0.1/end".to_owned(),
    ];
    for place in places {
        let (server, _) = redirecting(307, place.clone().leak()).await;
        let refused = to(&format!("http://{}/mcp", server.addr)).call(post("body")).await.unwrap_err();
        assert!(
            matches!(&refused, UpstreamError::Redirect(why) if why.contains("another authority")),
            "{refused}"
        );
        assert!(!refused.to_string().contains("/end"), "a path may hold secrets: {refused}");
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn refuses_a_redirect_without_a_place() {
    for location in ["", "mailto:a", "http://", ":"] {
        let (server, _) = redirecting(308, location).await;
        let refused = to(&format!("http://{}/mcp", server.addr)).call(post("body")).await.unwrap_err();
        assert!(matches!(refused, UpstreamError::Redirect(_)), "{location:?}: {refused}");
    }
}

#[tokio::test]
async fn gives_up_on_a_circle() {
    let (server, seen) = redirecting(307, "/mcp").await;
    let refused = to(&format!("http://{}/mcp", server.addr)).call(post("body")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Redirect(_)), "{refused}");
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn see_other_is_followed_for_a_get_and_refused_for_a_post() {
    let (server, _) = redirecting(303, "/end").await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let refused = upstream.call(post("body")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Redirect(_)), "{refused}");
    let mut get = post("");
    *get.method_mut() = Method::GET;
    assert_eq!(read(upstream.call(get).await.unwrap()).await.unwrap(), "done");
}

#[tokio::test]
async fn forwards_another_path_on_the_configured_authority() {
    let (server, seen) = redirecting(307, "/end").await;
    let upstream = to(&format!("http://{}/mcp?fixed=1", server.addr));
    let path = ForwardPath(PathAndQuery::from_static("/end/well-known?a=b"));
    let call = Request::get("http://elsewhere/").extension(path).body(bytes::Bytes::new()).unwrap();
    assert_eq!(read(upstream.call(call).await.unwrap()).await.unwrap(), "done");
    let head = seen.lock().unwrap()[0].clone();
    assert!(head.starts_with("GET /end/well-known?a=b HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", server.addr)), "{head}");
}
