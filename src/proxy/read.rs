//! Reads a request's body whole, under a limit of size and time.

use std::{io::ErrorKind, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::error::Cause;

/// Why there is no body.
#[derive(Debug)]
pub(super) enum Unread {
    /// The gateway refuses it.
    Refused(Cause),
    /// The client left: nobody to answer.
    Gone,
}

/// A request's body and how it is read.
#[derive(Debug)]
pub(super) struct Reading {
    /// The body.
    pub body: Incoming,
    /// Most that is read, in bytes.
    pub limit: usize,
    /// Time for all of it.
    pub time: Duration,
    /// Whether the client sends it only when it is asked to (`Expect: 100-continue`).
    pub on_demand: bool,
}

impl Reading {
    /// Reads all of it. One frame is passed on without a copy.
    ///
    /// # Errors
    /// Too long, too slow, or the client left.
    pub(super) async fn whole(mut self) -> Result<Bytes, Unread> {
        if self.body.size_hint().lower() > self.limit as u64 {
            let limit = self.limit;
            self.discard().await;
            return Err(Unread::Refused(Cause::BodyTooLarge(limit)));
        }
        match tokio::time::timeout(self.time, collect(&mut self.body, self.limit)).await {
            Ok(Err(refused @ Unread::Refused(_))) => {
                // It has begun to send, so it is past asking.
                swallow(&mut self.body, self.limit).await;
                Err(refused)
            }
            Ok(result) => result,
            Err(_) => Err(Unread::Refused(Cause::RequestTimeout(self.time))),
        }
    }

    /// Throws it away, so that a client that is still sending reads our refusal rather than a connection reset.
    /// A client that waits to be asked is not asked.
    pub(super) async fn discard(mut self) {
        if !self.on_demand {
            swallow(&mut self.body, self.limit).await;
        }
    }
}

async fn collect(body: &mut Incoming, limit: usize) -> Result<Bytes, Unread> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| broken(&e))?.into_data() else { continue };
        let size = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
        if size > limit {
            return Err(Unread::Refused(Cause::BodyTooLarge(limit)));
        }
        match &first {
            None => first = Some(data),
            Some(head) => {
                if rest.is_empty() {
                    rest.reserve(size.max(body.size_hint().lower().min(limit as u64) as usize));
                    rest.extend_from_slice(head);
                    first = Some(Bytes::new());
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// A body whose chunks make no sense can be answered; every other error is the client leaving.
fn broken(e: &hyper::Error) -> Unread {
    let io = std::error::Error::source(e).and_then(|s| s.downcast_ref::<std::io::Error>());
    match io.map(std::io::Error::kind) {
        Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
            Unread::Refused(Cause::InvalidRequest("the chunks of the body cannot be read".into()))
        }
        _ => Unread::Gone,
    }
}

/// Reads on for a moment and throws away.
async fn swallow(body: &mut Incoming, limit: usize) {
    const PATIENCE: Duration = Duration::from_millis(500);
    let mut left = limit.saturating_mul(2).max(64 * 1024);
    let swallow = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // Running out of patience is the expected end for a client that never stops.
    drop(tokio::time::timeout(PATIENCE, swallow).await);
}
