//! DELETE: the end of a session here, and of those with servers that were opened for it.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, request::Parts};

use super::{Core, body, refusal::Refusal, request::prepare, session::Session};
use crate::{bridge::hops::Hops, upstream::ResponseBody};

impl Core {
    pub(super) async fn end(&self, head: &Parts) -> Response<ResponseBody> {
        let session = match self.session(head) {
            Ok(session) => session,
            Err(refusal) => return refusal.response(None, head),
        };
        let Some(nonce) = session.nonce else {
            return Refusal::invalid_request("DELETE needs Mcp-Session-Id").response(None, head);
        };
        self.memory.live.end(&nonce);
        if self.names_sessions {
            // The client has its answer by what ended here, whatever a server says.
            drop(self.inner.call(goodbye(&session, head)).await);
        }
        let mut response = body::accepted();
        *response.status_mut() = StatusCode::OK;
        response
    }
}

fn goodbye(session: &Session, head: &Parts) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::DELETE;
    *request.headers_mut() = head.headers.clone();
    prepare(request.headers_mut());
    *request.extensions_mut() = head.extensions.clone();
    request.extensions_mut().remove::<Hops>();
    session.mark(request.extensions_mut());
    request
}
