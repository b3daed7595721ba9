//! Reads a request's body whole, under a limit of size and time.

use std::time::Duration;

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
    /// The client left or broke the framing: nobody to answer.
    Gone,
}

/// Reads all of it. One frame is passed on without a copy.
///
/// # Errors
/// Too long, too slow, or the client left.
pub(super) async fn whole(body: Incoming, limit: usize, time: Duration) -> Result<Bytes, Unread> {
    if body.size_hint().lower() > limit as u64 {
        discard(body, limit).await;
        return Err(Unread::Refused(Cause::BodyTooLarge(limit)));
    }
    match tokio::time::timeout(time, collect(body, limit)).await {
        Ok(result) => result,
        Err(_) => Err(Unread::Refused(Cause::RequestTimeout(time))),
    }
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Unread> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Gone)?.into_data() else { continue };
        let size = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
        if size > limit {
            discard(body, limit).await;
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

/// Reads on for a moment and throws away, so that a client that is still sending reads our refusal rather
/// than a connection reset.
pub(super) async fn discard(mut body: Incoming, limit: usize) {
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
