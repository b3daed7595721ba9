//! The answer of a member, given to the client: headers that still hold, and the body rewritten as it
//! passes.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use serde::{Deserialize, Serialize};

use super::{
    Core,
    rewrite::{Rewriter, TooLong, Wants},
    tasks::Asked,
};
use crate::{
    bridge::sealed::Purpose,
    mcp::{era::SESSION_HEADER, response::Format},
    upstream::{BodyError, ResponseBody, UpstreamError},
};

/// How long a client may take to answer what a server asks: its user may have to think.
const STATE_LIFETIME: Duration = Duration::from_secs(86_400);

/// A member's `requestState`, with what it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) upstream: String,
    pub(super) method: String,
    /// Name or URI at the member.
    pub(super) target: String,
    pub(super) state: String,
}

/// What one call puts back into its answer.
pub(super) struct Back {
    pub(super) core: Arc<Core>,
    pub(super) seat: usize,
    pub(super) id: Box<str>,
    pub(super) token: Option<Box<str>>,
    /// Whether the member has tasks.
    pub(super) tasks: bool,
    /// The task that the client asked about.
    pub(super) asked: Option<Asked>,
    pub(super) principal: Arc<str>,
    pub(super) method: String,
    pub(super) target: Arc<str>,
}

impl Wants for Back {
    fn id(&self) -> &[u8] {
        self.id.as_bytes()
    }

    fn progress_token(&self) -> Option<&[u8]> {
        self.token.as_deref().map(str::as_bytes)
    }

    fn seal(&self, state: &str) -> String {
        let state = State {
            upstream: self.core.members[self.seat].name.to_string(),
            method: self.method.clone(),
            target: self.target.to_string(),
            state: state.to_owned(),
        };
        self.core.sealer.seal(Purpose::RequestState, &self.principal, STATE_LIFETIME, &state)
    }

    fn has_tasks(&self) -> bool {
        self.tasks
    }

    fn task(&self, own: &str) -> String {
        match &self.asked {
            // The words of the client stay, also if an older key sealed them.
            Some(asked) if *asked.own == *own => asked.public.to_string(),
            _ => self.core.seal_task(&self.principal, self.seat, own),
        }
    }

    fn linked(&self, uri: &str) {
        self.core.links.note(uri, self.seat);
    }
}

/// The member's answer with `back` put in.
///
/// # Errors
/// It is encoded, so that nothing can be put in.
pub(super) fn give(
    answer: Response<ResponseBody>,
    back: Back,
) -> Result<Response<ResponseBody>, UpstreamError> {
    let (mut head, inner) = answer.into_parts();
    if head.headers.get(CONTENT_ENCODING).is_some_and(|e| e != "identity") {
        return Err(UpstreamError::Protocol("the answer is encoded, which was not asked for".into()));
    }
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(SESSION_HEADER);
    let events = Format::is_sse(&head.headers);
    let body = Passing { inner, rewriter: Rewriter::new(back, events) };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

struct Passing {
    inner: ResponseBody,
    rewriter: Rewriter<Back>,
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
            let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            };
            let mut out = Vec::with_capacity(data.len() + 64);
            if let Err(TooLong(what)) = self.rewriter.feed(&data, &mut out) {
                return Poll::Ready(Some(Err(what.into())));
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }

    /// Who sees that the last frame was the last one needs no further look, and can tell its length.
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
