//! A server's refusal, looked into before somebody gets it. Owns the one rule by which a server says that it does not know
//! a session although its status is not 404.

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};

use super::{ResponseBody, UpstreamError};
use crate::mcp::{
    json::Type,
    message::{self, Body, Message},
};

/// Largest refusal that is looked into, in bytes.
const LARGEST: usize = 64 * 1024;

/// The refusal again, and its body.
///
/// # Errors
/// It broke off, or is too large.
pub(super) async fn read(
    refusal: Response<ResponseBody>,
) -> Result<(Response<ResponseBody>, Bytes), UpstreamError> {
    let (head, mut body) = refusal.into_parts();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(UpstreamError::Protocol)?;
        whole.extend_from_slice(frame.data_ref().map_or(&b""[..], |data| data));
        if whole.len() > LARGEST {
            return Err(UpstreamError::Protocol("its refusal is larger than 64 KiB".into()));
        }
    }
    let whole = whole.freeze();
    let body = Full::new(whole.clone()).map_err(|never| match never {}).boxed_unsync();
    Ok((Response::from_parts(head, body), whole))
}

/// Whether a server says with 400 that it does not know the session of a request, as some do. That the request did not
/// run is certain all the same, since the message is about the session and not about the request.
pub(super) fn is_about_session(status: StatusCode, message: &Message<'_>) -> bool {
    let error = message.envelope.get("error").filter(|e| e.kind() == Type::Object && !message.has_result);
    let said = error.and_then(|e| e.get("message")).and_then(|m| m.as_str());
    status == StatusCode::BAD_REQUEST && said.is_some_and(|m| m.to_ascii_lowercase().contains("session"))
}

/// Whether a server says of a request in a session that it does not know the session; and the answer again.
///
/// # Errors
/// As [`read`].
pub(super) async fn disowned(
    answer: Response<ResponseBody>,
) -> Result<(Response<ResponseBody>, bool), UpstreamError> {
    match answer.status() {
        StatusCode::NOT_FOUND => return Ok((answer, true)),
        StatusCode::BAD_REQUEST => {}
        _ => return Ok((answer, false)),
    }
    let (answer, body) = read(answer).await?;
    let is_disowned = match message::parse(&body) {
        Ok(Body::Object(message)) => is_about_session(answer.status(), &message),
        _ => false,
    };
    Ok((answer, is_disowned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::{self, Body};

    #[test]
    fn only_a_400_whose_error_is_about_the_session_is_one() {
        let of = |status: u16, text: &str| {
            let Ok(Body::Object(message)) = message::parse(text.as_bytes()) else { panic!("{text}") };
            is_about_session(StatusCode::from_u16(status).unwrap(), &message)
        };
        let everything = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":1}"#;
        assert!(of(400, everything));
        assert!(!of(422, everything) && !of(200, everything));
        assert!(!of(400, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"q is missing"},"id":1}"#));
        assert!(!of(400, r#"{"jsonrpc":"2.0","id":1,"result":{"message":"session"}}"#));
        assert!(!of(400, r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"session"},"result":{}}"#));
    }
}
