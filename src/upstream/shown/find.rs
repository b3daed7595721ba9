//! Which session a request means, and what its sender is told if there is none. The sessions live in this process: their
//! ids say in which, so that another one can tell why it does not have them. Invariant: ids cannot be guessed.

use std::sync::LazyLock;

use http::{HeaderMap, Response, StatusCode};

use super::answer::{not_found, refusal};
use crate::{bridge::hops::Recipient, mcp::era::SESSION_HEADER, upstream::ResponseBody};

/// The session id that a request brings.
pub(in crate::upstream) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER).and_then(|v| v.to_str().ok())
}

/// What `get` has under this id, or the refusal of `request`, an id's JSON text.
pub(in crate::upstream) fn find<S>(
    id: Option<&str>,
    request: Option<&str>,
    to: &Recipient,
    get: impl FnOnce(&str) -> Option<S>,
) -> Result<S, Box<Response<ResponseBody>>> {
    let Some(id) = id else {
        let why = "the Mcp-Session-Id header is missing: begin with initialize";
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, request, why)));
    };
    get(id).ok_or_else(|| match is_of_another_process(id) {
        true => Box::new(not_found(
            request,
            to,
            "this session lives in another process of the gateway, or the gateway was restarted since: begin with initialize",
        )),
        false => Box::new(gone(request, to)),
    })
}

pub(in crate::upstream) fn gone(request: Option<&str>, to: &Recipient) -> Response<ResponseBody> {
    not_found(request, to, "there is no such session, or it has ended: begin with initialize")
}

/// Tells this process from others, and from itself before a restart.
static PROCESS: LazyLock<Option<String>> = LazyLock::new(random::<4>);

/// An id that cannot be guessed: that of the process, and 128 random bits.
pub(in crate::upstream) fn new_id() -> Option<String> {
    Some(format!("{}-{}", PROCESS.as_ref()?, random::<16>()?))
}

fn is_of_another_process(id: &str) -> bool {
    let hex =
        |text: &str, bytes: usize| text.len() == 2 * bytes && text.bytes().all(|b| b.is_ascii_hexdigit());
    id.split_once('-').is_some_and(|(process, rest)| {
        hex(process, 4) && hex(rest, 16) && PROCESS.as_deref() != Some(process)
    })
}

fn random<const N: usize>() -> Option<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn told(id: &str) -> serde_json::Value {
        let refusal = *find::<()>(Some(id), Some("1"), &Recipient::default(), |_| None).unwrap_err();
        assert_eq!(refusal.status(), StatusCode::NOT_FOUND);
        serde_json::from_slice(&refusal.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn who_asks_another_process_is_told_so() {
        let own = new_id().unwrap();
        let (process, rest) = own.split_once('-').unwrap();
        let other = if process == "00000000" { "00000001" } else { "00000000" };
        for (id, elsewhere) in [
            (format!("{other}-{rest}"), true),
            (own.clone(), false),
            (rest.to_owned(), false),
            (format!("{other}-x"), false),
            (String::new(), false),
        ] {
            let error = &told(&id).await["error"];
            assert_eq!(
                (&error["code"], &error["data"]["reason"]),
                (&404.into(), &"session_not_found".into())
            );
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("begin with initialize"), "{message}");
            assert_eq!(message.contains("another process"), elsewhere, "{id}: {message}");
        }
    }
}
