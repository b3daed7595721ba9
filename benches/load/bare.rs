//! The baseline: a pass-through of the crates that the gateway is built from, and nothing else. It points
//! each request at the upstream and streams both bodies; no parsing, no policy, no record.

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, uri::Authority};
use http_body_util::{Either, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};

use crate::{Res, serve};

type Pool = Client<HttpConnector, Incoming>;
type Answer = Response<Either<Incoming, Empty<Bytes>>>;

/// Serves until standard input closes; `upstream` is `HOST:PORT`.
pub(crate) fn run(upstream: &str) -> Res<()> {
    let authority: Authority = upstream.parse()?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
    serve::run(move |stream| {
        let (pool, authority) = (pool.clone(), authority.clone());
        async move {
            let service = service_fn(|request| forward(&pool, &authority, request));
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        }
    })
}

async fn forward(pool: &Pool, to: &Authority, mut request: Request<Incoming>) -> Result<Answer, http::Error> {
    let path =
        request.uri().path_and_query().cloned().unwrap_or_else(|| "/".parse().expect("a slash is a path"));
    *request.uri_mut() = Uri::builder().scheme("http").authority(to.clone()).path_and_query(path).build()?;
    match pool.request(request).await {
        Ok(response) => Ok(response.map(Either::Left)),
        Err(_) => Response::builder().status(StatusCode::BAD_GATEWAY).body(Either::Right(Empty::new())),
    }
}
