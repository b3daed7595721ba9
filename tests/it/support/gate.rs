//! A listener of ours with a handler made of a closure.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use smartgate::{
    server::{self, Drain, Handler, Options, Peer, Refused, tls},
    upstream::ResponseBody,
};
use tokio::task::JoinHandle;

/// A closure as a handler.
struct Closure<F>(F);

impl<F, R> Handler for Closure<F>
where
    F: Fn(Request<Incoming>, Peer) -> R + Send + Sync + 'static,
    R: Future<Output = Response<ResponseBody>> + Send,
{
    type Body = ResponseBody;

    async fn handle(&self, req: Request<Incoming>, peer: Peer) -> Response<ResponseBody> {
        (self.0)(req, peer).await
    }
}

/// A running listener.
pub(crate) struct Gate {
    pub(crate) addr: SocketAddr,
    pub(crate) drain: Drain,
    pub(crate) refused: Arc<Mutex<Vec<Refused>>>,
    pub(crate) served: JoinHandle<()>,
}

/// How to start one.
pub(crate) struct Setup {
    pub(crate) header_timeout: Duration,
    pub(crate) tls: Option<tls::Acceptor>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { header_timeout: super::HANG, tls: None }
    }
}

impl Gate {
    /// Serves with `handler`, without TLS and with a limit that no test reaches.
    pub(crate) fn start<F, R>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>, Peer) -> R + Send + Sync + 'static,
        R: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        Self::with(Setup::default(), handler)
    }

    pub(crate) fn with<F, R>(setup: Setup, handler: F) -> Self
    where
        F: Fn(Request<Incoming>, Peer) -> R + Send + Sync + 'static,
        R: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (drain, refused) = (Drain::default(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&refused);
        let options = Options {
            header_timeout: setup.header_timeout,
            tls: setup.tls,
            on_refused: Arc::new(move |what| seen.lock().unwrap().push(what)),
        };
        let served =
            tokio::spawn(server::serve(listener, options, Arc::new(Closure(handler)), drain.clone()));
        Self { addr, drain, refused, served }
    }

    pub(crate) fn refused(&self) -> Vec<Refused> {
        self.refused.lock().unwrap().clone()
    }
}

/// An answer with a whole body.
pub(crate) fn answer(body: impl Into<Bytes>) -> Response<ResponseBody> {
    Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync())
}

/// Answers with the method, the path and the body of the request.
pub(crate) async fn echo(req: Request<Incoming>, _peer: Peer) -> Response<ResponseBody> {
    let head = format!("{} {} ", req.method(), req.uri().path());
    match req.into_body().collect().await {
        Ok(body) => answer([head.into_bytes(), body.to_bytes().to_vec()].concat()),
        Err(e) => {
            let mut refusal = answer(e.to_string());
            *refusal.status_mut() = http::StatusCode::BAD_REQUEST;
            refusal
        }
    }
}
