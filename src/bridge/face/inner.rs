//! The way to the modern side: sends a request, judges the head of its answer, folds statuses.
//!
//! Invariant: an error of the method reaches a legacy client as status 200, a refusal of the door (401, 403, 429, 5xx)
//! as what it is, and nothing that is not MCP as a 404, which would end the client's session.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header, response::Parts};

use super::{
    Core, body,
    messages::{self, Framing, Messages},
};
use crate::{
    mcp::era::{SESSION_HEADER, VERSION_HEADER},
    upstream::{ResponseBody, UpstreamError},
};

/// An answer of which the head and, if it is one message, the body is there.
pub(super) enum Opened {
    /// Not for translation: it passes as it is.
    Foreign(Response<ResponseBody>),
    /// One message.
    Whole(Parts, Vec<u8>),
    /// Messages that come one by one.
    Stream(Parts, Messages),
}

impl Core {
    /// An id of our own.
    pub(super) fn number(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }

    /// Sends a modern request and waits for the head of its answer.
    ///
    /// # Errors
    /// The upstream's, and answers that are not MCP.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Opened, UpstreamError> {
        let (mut head, rest) = self.inner.call(request).await?.into_parts();
        let framing = Framing::of(&head.headers);
        let status = head.status;
        let about_the_call = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND);
        clean(&mut head.headers);
        match framing {
            Some(Framing::Events) if status.is_success() => Ok(Opened::Stream(head, Messages::new(rest))),
            Some(Framing::Json) => {
                let whole = messages::whole(rest).await.map_err(broken)?;
                if about_the_call {
                    head.status = StatusCode::OK;
                }
                Ok(Opened::Whole(head, whole))
            }
            _ if status.is_success() || about_the_call || status == StatusCode::METHOD_NOT_ALLOWED => {
                Err(broken(&format!("HTTP {} without an MCP message", status.as_u16())))
            }
            _ => Ok(Opened::Foreign(Response::from_parts(head, rest))),
        }
    }
}

/// An answer that is not MCP.
pub(super) fn broken(why: &str) -> UpstreamError {
    UpstreamError::Protocol(why.into())
}

/// What is of the inner exchange only. What else the server says in headers passes.
fn clean(headers: &mut HeaderMap) {
    for name in [SESSION_HEADER, VERSION_HEADER] {
        headers.remove(name);
    }
}

/// The head of an inner answer with a body of ours.
pub(super) fn with_json(mut head: Parts, text: impl Into<Bytes>) -> Response<ResponseBody> {
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::ETAG);
    Response::from_parts(head, body::whole(text))
}
