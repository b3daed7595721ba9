//! Ids of the client's side and of the child's side, put in each other's place. Pure; every other byte stays as it came.

use bytes::Bytes;

use super::framing::as_line;
use crate::mcp::{
    era::LOG_LEVEL,
    json::{
        self, Raw,
        edit::{Splice, apply},
    },
    message::{Body, Message, parse},
};

/// `_meta` key of everything on a modern listen stream (2026-07-28, subscriptions).
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A text without a byte-order mark, from which the offsets of a [`Message`] count.
pub(super) fn text(bytes: &Bytes) -> Bytes {
    if bytes.starts_with(BOM) { bytes.slice(BOM.len()..) } else { bytes.clone() }
}

/// The elements of a batch (2025-03-26), of which there is at least one.
pub(super) fn batch(text: &Bytes) -> Option<Vec<Bytes>> {
    let array = text.trim_ascii_start().starts_with(b"[").then(|| json::parse(text).ok()).flatten()?;
    let all: Vec<_> = array.elements().map(|message| text.slice_ref(message.bytes())).collect();
    (!all.is_empty()).then_some(all)
}

/// The message in a text, if it is one.
pub(super) fn read(text: &[u8]) -> Option<Box<Message<'_>>> {
    match parse(text) {
        Ok(Body::Object(message)) => Some(message),
        _ => None,
    }
}

/// A member of `params`.
pub(super) fn param<'a>(message: &Message<'a>, name: &str) -> Option<Raw<'a>> {
    message.params.filter(Raw::is_object)?.get(name)
}

/// The progress token that a request asks with.
pub(super) fn asked_token<'a>(message: &Message<'a>) -> Option<Raw<'a>> {
    message.meta.filter(Raw::is_object)?.get("progressToken").filter(Raw::is_scalar)
}

/// Whether a request asks for log lines while it runs (2026-07-28, logging).
pub(super) fn asks_for_logs(message: &Message<'_>) -> bool {
    let level = message.meta.filter(Raw::is_object).and_then(|m| m.get(LOG_LEVEL));
    level.is_some() && message.method.as_deref() != Some("subscriptions/listen")
}

/// Whether what a server says while it works on a request can be of its caller alone.
pub(super) fn is_personal(message: &Message<'_>) -> bool {
    !matches!(message.method.as_deref(), Some("server/discover" | "ping"))
        && !message.method.as_deref().is_some_and(|m| m.ends_with("/list"))
}

/// The subscription that a notification belongs to.
pub(super) fn subscription<'a>(message: &Message<'a>) -> Option<Raw<'a>> {
    message.meta.filter(Raw::is_object)?.get(SUBSCRIPTION)
}

/// The number that an id or a token of ours is; as text too, because some servers turn them into that.
pub(super) fn own(id: Raw<'_>) -> Option<u64> {
    id.text().trim_matches('"').parse().ok()
}

/// A client's request for the child: `own` as its id and as its progress token, if it has one.
pub(super) fn request(text: &[u8], message: &Message<'_>, own: u64) -> Bytes {
    let number = || own.to_string().into_bytes();
    let places = [message.id_raw, asked_token(message)];
    let splices = places.into_iter().flatten().map(|place| Splice::replace(place.range(), number()));
    as_line(apply(text, splices.collect()))
}

/// A client's `notifications/cancelled` for the child.
pub(super) fn cancelled(text: &[u8], request: Raw<'_>, own: u64) -> Bytes {
    as_line(apply(text, vec![Splice::replace(request.range(), own.to_string().into_bytes())]))
}

/// A text of the child with `with` in the place of one value.
pub(super) fn put(text: &[u8], place: Raw<'_>, with: &str) -> Bytes {
    apply(text, vec![Splice::replace(place.range(), with.as_bytes().to_vec())]).into()
}

/// The child's response with the client's id, also where the result names the request as its subscription.
pub(super) fn response(text: &[u8], message: &Message<'_>, id: &str) -> Bytes {
    let named = message.envelope.get("result").and_then(|r| r.get("_meta")).and_then(|m| m.get(SUBSCRIPTION));
    let theirs = message.id_raw.and_then(own);
    let named = named.filter(|n| theirs.is_some() && own(*n) == theirs);
    let splices = [message.id_raw, named].into_iter().flatten();
    let splices = splices.map(|place| Splice::replace(place.range(), id.as_bytes().to_vec()));
    apply(text, splices.collect()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, own: u64) -> String {
        let message = read(text.as_bytes()).unwrap();
        String::from_utf8(request(text.as_bytes(), &message, own).to_vec()).unwrap()
    }

    #[test]
    fn only_the_ids_change() {
        let sent = r#"{ "id":"a\u0062","params":{"_meta":{"progressToken":1.0,"x":1e5}},"method":"m" }"#;
        let expected = r#"{ "id":7,"params":{"_meta":{"progressToken":7,"x":1e5}},"method":"m" }"#;
        assert_eq!(line(sent, 7), format!("{expected}\n"));
        assert_eq!(line("{\n\"id\": 1,\r\n\"method\":\"m\"}", 7), "{ \"id\": 7,  \"method\":\"m\"}\n");
    }

    #[test]
    fn a_response_gets_the_client_s_id_back() {
        let text = r#"{"result":{"id":7,"_meta":{"io.modelcontextprotocol/subscriptionId":7}},"id":"7"}"#;
        let message = read(text.as_bytes()).unwrap();
        let back = response(text.as_bytes(), &message, r#""x""#);
        let expected =
            r#"{"result":{"id":7,"_meta":{"io.modelcontextprotocol/subscriptionId":"x"}},"id":"x"}"#;
        assert_eq!(back, expected.as_bytes());
        let odd = read(br#"{"result":null,"id":7}"#).unwrap();
        assert_eq!(&response(br#"{"result":null,"id":7}"#, &odd, "1")[..], br#"{"result":null,"id":1}"#);
    }
}
