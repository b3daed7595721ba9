//! Listener and HTTP upstream, at the level of connections and bytes.

mod admin;
mod drain;
mod http1;
mod http2;
mod limits;
mod redirect;
mod smuggling;
mod stream;
mod tls;
mod upstream;
mod upstream_faults;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use smartgate::{
    config::{Globs, Target, Upstream as Config, UpstreamTls},
    server::Peer,
    upstream::{BodyError, ResponseBody, Upstream, UpstreamError, http::HttpUpstream},
};

/// Settings of an upstream at `url` with the defaults of the configuration file.
fn config(url: &str) -> Config {
    Config {
        smart: Default::default(),
        http_sse: false,
        name: "files".into(),
        target: Target::Http(url.parse().unwrap()),
        protocol: None,
        prefix: String::new(),
        tools: Globs::default(),
        headers: Default::default(),
        timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(300),
        max_total_timeout: Duration::from_secs(3_600),
        answer_within: Duration::from_secs(300),
        connect_timeout: Duration::from_secs(2),
        retries: 1,
        schema_coercion: None,
        tls: UpstreamTls::default(),
        show: Default::default(),
    }
}

fn to(url: &str) -> Arc<HttpUpstream> {
    Arc::new(HttpUpstream::new(&config(url)).unwrap())
}

fn post(body: &'static str) -> Request<Bytes> {
    Request::post("http://client.example/ignored").body(Bytes::from_static(body.as_bytes())).unwrap()
}

/// Reads a whole answer.
async fn read(answer: Response<ResponseBody>) -> Result<String, BodyError> {
    let body = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

/// A handler that forwards to `upstream` as the pipeline does: body read whole, framing dropped.
async fn forward(upstream: Arc<HttpUpstream>, req: Request<Incoming>, _peer: Peer) -> Response<ResponseBody> {
    let (head, body) = req.into_parts();
    let failed = |status: u16, why: String| {
        let mut answer = crate::support::gate::answer(why);
        *answer.status_mut() = status.try_into().unwrap();
        answer
    };
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(e) => return failed(400, e.to_string()),
    };
    match upstream.call(Request::from_parts(head, body)).await {
        Ok(answer) => answer,
        Err(UpstreamError::Connect(e)) => failed(502, e.to_string()),
        Err(e) => failed(502, e.to_string()),
    }
}
