//! Responses of a server that are not 2xx: which mean that the session is gone, which are the client's to see, and which
//! would tell a modern client something else than they mean.

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body_util::BodyExt;

use super::{
    answer::same_id,
    reply::{self, Refusal},
};
use crate::{
    mcp::{
        era::SESSION_HEADER,
        json::Type,
        message::{self, Body},
    },
    upstream::{ResponseBody, refusal::is_about_session},
};

const METHOD_NOT_FOUND: &str = "-32601";
/// Most of a refusal that is read.
const LIMIT: usize = 64 * 1024;

/// What a refusal means.
pub(super) enum Refused {
    /// The server has forgotten the session; the request did not run.
    Lost,
    /// A JSON-RPC response to the request.
    Answer(StatusCode, Bytes),
    /// The client gets it as it came.
    AsItCame(Parts, Bytes),
    /// The client gets this instead.
    Instead(Refusal),
}

/// Whether a status is about the client and not about how the bridge speaks.
pub(super) fn is_for_the_client(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 429 | 500..)
}

/// Reads a refusal of request `own`.
pub(super) async fn read(response: Response<ResponseBody>, own: u64, in_session: bool) -> Refused {
    let (head, body) = response.into_parts();
    let body = beginning(body).await;
    let code = head.status.as_u16();
    let message = match message::parse(&body) {
        Ok(Body::Object(message)) if message.has_error || message.has_result => Some(message),
        _ => None,
    };
    let error = message.as_ref().and_then(|m| m.envelope.get("error")).filter(|e| e.kind() == Type::Object);
    let no_method = error.and_then(|e| e.get("code")).is_some_and(|c| c.text() == METHOD_NOT_FOUND);
    // Some servers name the request when they do not know its session.
    let unknown_session = in_session && code == 404 && !no_method;
    if !unknown_session && message.as_ref().is_some_and(|m| same_id(m.id_raw, own)) {
        return Refused::Answer(head.status, body);
    }
    let said = error.and_then(|e| e.get("message")).and_then(|m| m.as_str());
    let about_session = message.as_ref().is_some_and(|m| is_about_session(head.status, m));
    if in_session && (code == 404 || about_session) {
        return Refused::Lost;
    }
    if is_for_the_client(head.status) {
        return Refused::AsItCame(head, body);
    }
    let said = said.map(|m| format!(": {}", m.chars().take(200).collect::<String>())).unwrap_or_default();
    Refused::Instead(Refusal::upstream(format!("the server answered HTTP {code}{said}")))
}

/// The whole body if it is small, else what was read of it.
async fn beginning(mut body: ResponseBody) -> Bytes {
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(data);
        }
        if read.len() > LIMIT {
            break;
        }
    }
    read.freeze()
}

/// A refusal with the server's status and headers, except those of a body or a session that the client does not get.
pub(super) fn as_it_came(mut head: Parts, body: Bytes) -> Response<ResponseBody> {
    for not_theirs in
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, HeaderName::from_static(SESSION_HEADER)]
    {
        head.headers.remove(not_theirs);
    }
    if body.first() == Some(&b'{') {
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Response::from_parts(head, reply::with_body(StatusCode::OK, body).into_body())
}
