//! What of a payload is shown in records and spans. Owns which strings of it are masked; what a secret looks like is
//! `secrets`'. Invariants: where masking is asked for and cannot be done, nothing but the hash is shown; what is masked
//! is still JSON, and what is not keeps its bytes.

use std::borrow::Cow;

use super::{line::is_plain, record::Payload, text};
use crate::{
    config::{Audit, Globs},
    secrets,
};

/// Stands for a masked value.
const MASK: &[u8] = b"\"***\"";
/// Texts within texts that are looked into as JSON.
const LEVELS: u8 = 4;
/// Levels around a value in a line.
const VALUE_DEPTH: usize = 2;

/// Which members of kept payloads are masked by their names.
#[derive(Debug)]
pub(super) struct Masks(Globs);

impl Masks {
    /// For records that nobody writes.
    pub(super) fn none() -> Self {
        Self(Globs::default())
    }

    pub(super) fn of(audit: &Audit) -> Self {
        Self(audit.redact.clone())
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
        /// JSON text on one line, as a string where it does not fit into one; `None` where it could not be masked.
        value: Option<Cow<'a, [u8]>>,
        truncated: bool,
    },
}

/// Masks what must be masked.
pub(super) fn show<'a>(payload: &'a Payload, masks: &Masks) -> Shown<'a> {
    match payload {
        Payload::None => Shown::None,
        Payload::Hash(sha256) => Shown::Hash(sha256),
        Payload::Kept { sha256, bytes, truncated, full } => {
            let value = if !truncated && is_json(bytes) {
                let json = if *full { one_line(bytes) } else { Cow::Owned(mask(bytes, &masks.0, LEVELS)) };
                Some(if fits(&json) { json } else { Cow::Owned(as_string(&json)) })
            } else {
                full.then(|| Cow::Owned(as_string(bytes)))
            };
            Shown::Kept { sha256, value, truncated: *truncated }
        }
    }
}

/// Whether valid JSON can be a value in a line: readers differ about what has a member twice.
fn fits(json: &[u8]) -> bool {
    std::str::from_utf8(json).is_ok_and(|text| is_plain(text, VALUE_DEPTH))
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
    let mut out = Vec::with_capacity(bytes.len() + 2);
    text::whole_string(&mut out, &String::from_utf8_lossy(bytes));
    out
}

/// Copies valid JSON without what is hidden by its name or looks like a secret. Everything else keeps its bytes.
fn mask(json: &[u8], globs: &Globs, levels: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let end = string_end(json, at);
                let name = &json[at..end];
                string(&mut out, name, globs, levels);
                let colon = skip_space(json, end);
                at = end;
                if json.get(colon) == Some(&b':') {
                    let from = skip_space(json, colon + 1);
                    if is_hidden(name, globs) || is_named(name, json, from) {
                        out.push(b':');
                        out.extend_from_slice(MASK);
                        at = value_end(json, from);
                    }
                }
            }
            b'0'..=b'9' => {
                let end =
                    at + json[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'.').count();
                number(&mut out, &json[at..end]);
                at = end;
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

/// A string, which may be a text of JSON itself.
fn string(out: &mut Vec<u8>, token: &[u8], globs: &Globs, levels: u8) {
    let inner = &token[1..token.len() - 1];
    let decoded = match std::str::from_utf8(inner) {
        Ok(text) if !inner.contains(&b'\\') => Cow::Borrowed(text),
        // A lone surrogate is no text; what stands around it is looked at all the same.
        _ => serde_json::from_slice(token).unwrap_or_else(|_| String::from_utf8_lossy(inner)),
    };
    let nested = levels > 0
        && matches!(decoded.trim_start().as_bytes(), [b'{' | b'[', ..])
        && is_json(decoded.as_bytes());
    let changed = if nested {
        let masked = String::from_utf8_lossy(&mask(decoded.as_bytes(), globs, levels - 1)).into_owned();
        // Line breaks became blanks; where nothing else changed, the text stays as it was.
        (masked != String::from_utf8_lossy(&one_line(decoded.as_bytes()))).then_some(masked)
    } else {
        secrets::changed(&decoded)
    };
    match changed {
        Some(masked) => text::whole_string(out, &masked),
        None => out.extend_from_slice(token),
    }
}

/// A number that may be a card's.
fn number(out: &mut Vec<u8>, number: &[u8]) {
    let is_secret = std::str::from_utf8(number).is_ok_and(|n| n.len() > 12 && secrets::changed(n).is_some());
    out.extend_from_slice(if is_secret { MASK } else { number });
}

/// Whether a member's name says that its string is a secret.
fn is_named(name: &[u8], json: &[u8], value: usize) -> bool {
    if json.get(value) != Some(&b'"') {
        return false;
    }
    let decode = |token: &[u8]| serde_json::from_slice::<String>(token).ok();
    let (name, value) = (decode(name), decode(&json[value..string_end(json, value)]));
    name.zip(value).is_some_and(|(name, value)| secrets::is_named(&name, &value))
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
        Masks(Globs::new(["authorization", "password", "*token*", "*secret*"]))
    }

    fn kept(text: &str, truncated: bool) -> Payload {
        Payload::Kept { sha256: [1; 32], bytes: text.into(), truncated, full: false }
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
    fn what_is_kept_in_full_is_shown_on_one_line() {
        let full = |text: &str, truncated| Payload::Kept {
            sha256: [1; 32],
            bytes: text.into(),
            truncated,
            full: true,
        };
        let whole = full("{\"password\":\r\n1}", false);
        let Shown::Kept { value: Some(value), .. } = show(&whole, &masks()) else { panic!() };
        assert_eq!(&*value, b"{\"password\":  1}");
        let cut = full("{\"a\":\"\n", true);
        let Shown::Kept { value: Some(value), truncated: true, .. } = show(&cut, &masks()) else { panic!() };
        assert_eq!(&*value, br#""{\"a\":\"\n""#);
    }

    #[test]
    fn what_readers_differ_about_is_shown_as_a_text() {
        let twice = r#"{"a":{"password":1,"password":"x"},"b":"ada@example.org"}"#;
        let text = r#""{\"a\":{\"password\":\"***\",\"password\":\"***\"},\"b\":\"***\"}""#;
        assert_eq!(shown(twice, &masks()).unwrap(), text);
        // Two names that are different, until they are masked.
        let names = r#"{"ada@example.org":1,"bob@example.org":2}"#;
        assert_eq!(shown(names, &masks()).unwrap(), r#""{\"***\":1,\"***\":2}""#);
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(shown(&deep(510), &masks()).unwrap(), deep(510));
        assert_eq!(shown(&deep(511), &masks()).unwrap(), format!("\"{}\"", deep(511)));
        let full =
            Payload::Kept { sha256: [1; 32], bytes: r#"{"a":1,"a":2}"#.into(), truncated: false, full: true };
        let Shown::Kept { value: Some(value), .. } = show(&full, &masks()) else { panic!() };
        assert_eq!(&*value, br#""{\"a\":1,\"a\":2}""#);
    }

    #[test]
    fn secrets_are_masked_by_their_looks_and_inside_texts() {
        let text = r#"{"ada@example.org":1,"n":[4111111111111111,4111111111111112],"key":{"api_key":"9f8a7b6c5d4e3f2a1b0c"},"t":"{\"password\":\"x\\ny\",\"n\":1}","u":"\u0061da\u0040example.org"}"#;
        let masked = r#"{"***":1,"n":["***",4111111111111112],"key":{"api_key":"***"},"t":"{\"password\":\"***\",\"n\":1}","u":"***"}"#;
        assert_eq!(shown(text, &masks()).unwrap(), masked);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
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
