//! An OTLP collector that counts spans: gRPC over HTTP/2 in, `GET /count` over HTTP/1.1 out. It walks the
//! protobuf only as far as the spans, because it runs on the machine that is being measured.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, combinators::WithTrailers};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};

use crate::{Res, serve};

static SPANS: AtomicU64 = AtomicU64::new(0);

/// Serves until standard input closes.
pub(crate) fn run() -> Res<()> {
    serve::run(|stream| async {
        let builder = auto::Builder::new(TokioExecutor::new());
        drop(builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await);
    })
}

type Trailers = std::future::Ready<Option<Result<HeaderMap, Infallible>>>;

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<WithTrailers<Full<Bytes>, Trailers>>, Infallible> {
    let (body, trailers) = if request.method() == Method::GET {
        (SPANS.load(Ordering::Relaxed).to_string().into(), None)
    } else {
        // Logs and metrics are taken as well, and have the same shape.
        let spans = request.uri().path().contains("trace.v1");
        let status = match request.into_body().collect().await {
            Ok(body) => {
                let number = if spans { count(&body.to_bytes()) } else { 0 };
                SPANS.fetch_add(number, Ordering::Relaxed);
                "0"
            }
            Err(_) => "13",
        };
        let trailers = HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            HeaderValue::from_static(status),
        )]);
        (Bytes::from_static(&[0; 5]), Some(Ok(trailers))) // an empty message in its five-byte frame
    };
    let mut response = Response::new(Full::new(body).with_trailers(std::future::ready(trailers)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Spans in a framed `ExportTraceServiceRequest`: `resource_spans` (1) / `scope_spans` (2) / `spans` (2).
fn count(framed: &[u8]) -> u64 {
    let message = framed.get(5..).unwrap_or_default();
    children(message, 1)
        .flat_map(|resource| children(resource, 2))
        .map(|scope| children(scope, 2).count() as u64)
        .sum()
}

/// The length-delimited fields of `message` that have this number. Stops at anything malformed.
fn children(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut rest)?;
            let skip = match tag & 7 {
                0 => {
                    varint(&mut rest)?;
                    0
                }
                1 => 8,
                2 => varint(&mut rest)? as usize,
                5 => 4,
                _ => return None,
            };
            let (field, after) = rest.split_at_checked(skip)?;
            rest = after;
            if tag == number << 3 | 2 {
                return Some(field);
            }
        }
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
