//! What of a payload is shown in records and spans. Owns masking; not which payloads the pipeline keeps.
//! Invariant: where masking is asked for and cannot be done, nothing but the hash is shown.

use std::borrow::Cow;

use super::record::Payload;
use crate::config::{Audit, Capture, Globs};

/// Stands for a masked value.
const MASK: &[u8] = b"\"***\"";

/// Which members of kept payloads are masked; `None` masks nothing.
#[derive(Debug)]
pub(super) struct Masks(Option<Globs>);

impl Masks {
    /// For records that nobody writes.
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(audit: &Audit) -> Self {
        Self((audit.capture != Capture::Full).then(|| audit.redact.clone()))
    }

    /// Names are compared as they are and in lower case, so that `*token*` also covers `accessToken`.
    fn hides(globs: &Globs, name: &str) -> bool {
        globs.matches(name) || globs.matches(&name.to_lowercase())
    }
}

/// A payload, ready to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    None,
    Hash(&'a [u8; 32]),
    Kept {
        sha256: &'a [u8; 32],
        /// JSON text on one line; `None` where it could not be masked.
        value: Option<Cow<'a, [u8]>>,
        truncated: bool,
    },
}

/// Masks what must be masked.
pub(super) fn show<'a>(payload: &'a Payload, masks: &Masks) -> Shown<'a> {
    match payload {
        Payload::None => Shown::None,
        Payload::Hash(sha256) => Shown::Hash(sha256),
        Payload::Kept { sha256, bytes, truncated } => {
            let json = !truncated && is_json(bytes);
            let value = match &masks.0 {
                Some(globs) => json.then(|| Cow::Owned(mask(bytes, globs))),
                None if json => Some(one_line(bytes)),
                None => Some(Cow::Owned(as_string(bytes))),
            };
            Shown::Kept { sha256, value, truncated: *truncated }
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() && std::str::from_utf8(bytes).is_ok()
}

/// Line breaks of valid JSON lie between tokens, where a space means the same.
fn one_line(json: &[u8]) -> Cow<'_, [u8]> {
    let breaks = |b: &u8| matches!(b, b'\n' | b'\r');
    if json.iter().any(breaks) {
        json.iter().map(|b| if breaks(b) { b' ' } else { *b }).collect::<Vec<_>>().into()
    } else {
        json.into()
    }
}

fn as_string(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + 2);
    super::text::whole_string(&mut text, &String::from_utf8_lossy(bytes));
    text
}

/// Copies valid JSON, with the values of hidden members replaced. Everything else keeps its bytes. Linear.
fn mask(json: &[u8], globs: &Globs) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let end = string_end(json, at);
                out.extend_from_slice(&json[at..end]);
                let colon = skip_space(json, end);
                let hidden = json.get(colon) == Some(&b':') && is_hidden(&json[at..end], globs);
                at = if hidden {
                    out.push(b':');
                    out.extend_from_slice(MASK);
                    value_end(json, skip_space(json, colon + 1))
                } else {
                    end
                };
            }
            b'\n' | b'\r' => {
                out.push(b' ');
                at += 1;
            }
            other => {
                out.push(other);
                at += 1;
            }
        }
    }
    out
}

fn is_hidden(key: &[u8], globs: &Globs) -> bool {
    serde_json::from_slice::<Cow<'_, str>>(key).is_ok_and(|name| Masks::hides(globs, &name))
}

fn skip_space(json: &[u8], from: usize) -> usize {
    let space = json[from..].iter().take_while(|b| b.is_ascii_whitespace()).count();
    from + space
}

/// Where the string that starts at `from` has ended.
fn string_end(json: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

/// Where the value that starts at `from` has ended.
fn value_end(json: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0usize);
    while at < json.len() {
        match json[at] {
            b'"' => {
                at = string_end(json, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return at + depth,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn masks() -> Masks {
        Masks(Some(Globs::new(["authorization", "password", "*token*", "*secret*"])))
    }

    fn kept(text: &str, truncated: bool) -> Payload {
        Payload::Kept { sha256: [1; 32], bytes: text.into(), truncated }
    }

    fn shown(text: &str, masks: &Masks) -> Option<String> {
        let payload = kept(text, false);
        let Shown::Kept { value, .. } = show(&payload, masks) else { panic!("not kept") };
        value.map(|v| String::from_utf8(v.into_owned()).unwrap())
    }

    #[test]
    fn hidden_members_are_masked_at_any_depth() {
        let text = r#"{"a":1.0,"password" : {"x":["}"]} ,"l":[{"accessToken":[1,2]},{"my_secret":null}],"Authorization":7}"#;
        let masked = r#"{"a":1.0,"password":"***" ,"l":[{"accessToken":"***"},{"my_secret":"***"}],"Authorization":"***"}"#;
        assert_eq!(shown(text, &masks()).unwrap(), masked);
    }

    #[test]
    fn escaped_names_do_not_slip_through() {
        assert_eq!(shown(r#"{"pass\u0077ord":"x"}"#, &masks()).unwrap(), r#"{"pass\u0077ord":"***"}"#);
    }

    #[test]
    fn values_that_look_like_names_stay() {
        let text = r#"["password","x",{"v":"password"}]"#;
        assert_eq!(shown(text, &masks()).unwrap(), text);
    }

    #[test]
    fn what_cannot_be_masked_is_not_shown() {
        assert_eq!(shown(r#"{"password":"x""#, &masks()), None);
        let deep = "[".repeat(100_000);
        assert_eq!(shown(&deep, &masks()), None);
        let cut = kept(r#"{"password":"x","#, true);
        assert_eq!(show(&cut, &masks()), Shown::Kept { sha256: &[1; 32], value: None, truncated: true });
    }

    #[test]
    fn without_masks_text_is_shown_on_one_line() {
        let full = Masks(None);
        assert_eq!(shown("{\"password\":\r\n1}", &full).unwrap(), "{\"password\":  1}");
        let cut = kept("{\"a\":\"\n", true);
        let Shown::Kept { value: Some(value), truncated: true, .. } = show(&cut, &full) else { panic!() };
        assert_eq!(&*value, br#""{\"a\":\"\n""#);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\x00-\\x7fé\"\\\\{}:,]{0,8}".prop_map(Value::from),
        ];
        let key = prop_oneof!["[a-z\"\\\\:]{0,6}", Just("password".to_owned()), Just("aTokenb".to_owned())];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    fn masked_tree(value: Value) -> Value {
        match value {
            Value::Object(map) => map
                .into_iter()
                .map(|(k, v)| {
                    let hidden = k.to_lowercase().contains("token") || k == "password";
                    (k, if hidden { json!("***") } else { masked_tree(v) })
                })
                .collect(),
            Value::Array(items) => items.into_iter().map(masked_tree).collect(),
            other => other,
        }
    }

    proptest! {
        #[test]
        fn masking_bytes_equals_masking_the_tree(value in any_json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let out = shown(&text.unwrap(), &masks()).unwrap();
            prop_assert!(!out.contains(['\n', '\r']));
            prop_assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), masked_tree(value));
        }
    }
}
