//! Objects and arrays written anew from slices of the old text.
//!
//! Invariant: what is kept keeps its bytes; only white space between members goes.

use crate::mcp::json::{Raw, Type};

/// What becomes of a member or an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// It stays as it is.
    Keep,
    /// It goes.
    Drop,
    /// This text stands in its place.
    With(String),
}

/// An object, each member as `edit` wants it. Other values stay as they are.
pub(super) fn object(value: Raw<'_>, edit: impl FnMut(&str, Raw<'_>) -> Edit) -> String {
    object_and(value, edit, "")
}

/// As [`object`], with more members behind: JSON text, without a comma at either end.
pub(super) fn object_and(value: Raw<'_>, mut edit: impl FnMut(&str, Raw<'_>) -> Edit, more: &str) -> String {
    if !value.is_object() {
        return value.text().to_owned();
    }
    let mut out = String::with_capacity(value.text().len() + more.len() + 1);
    out.push('{');
    for member in value.members() {
        let name = member.name.as_str().unwrap_or_default();
        let made;
        let text = match edit(&name, member.value) {
            Edit::Keep => member.value.text(),
            Edit::Drop => continue,
            Edit::With(new) => {
                made = new;
                &made
            }
        };
        comma(&mut out);
        out.push_str(member.name.text());
        out.push(':');
        out.push_str(text);
    }
    if !more.is_empty() {
        comma(&mut out);
        out.push_str(more);
    }
    out.push('}');
    out
}

/// An array, each element as `edit` wants it. Other values stay as they are.
pub(super) fn array(value: Raw<'_>, mut edit: impl FnMut(Raw<'_>) -> Edit) -> String {
    if value.kind() != Type::Array {
        return value.text().to_owned();
    }
    let mut out = String::with_capacity(value.text().len());
    out.push('[');
    for element in value.elements() {
        let made;
        let text = match edit(element) {
            Edit::Keep => element.text(),
            Edit::Drop => continue,
            Edit::With(new) => {
                made = new;
                &made
            }
        };
        comma(&mut out);
        out.push_str(text);
    }
    out.push(']');
    out
}

/// JSON text of a string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn comma(out: &mut String) {
    if out.len() > 1 {
        out.push(',');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::mcp::json::parse;

    /// JSON values, three levels deep.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn keeping_everything_changes_nothing_and_dropping_takes_that_alone(value in value(), gone in ".{0,4}") {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let raw = parse(text.as_bytes()).unwrap();
                for kept in [object(raw, |_, _| Edit::Keep), array(raw, |_| Edit::Keep)] {
                    prop_assert_eq!(&serde_json::from_str::<Value>(&kept).unwrap(), &value);
                }
                let less = object(raw, |name, _| if name == gone { Edit::Drop } else { Edit::Keep });
                let mut expect = value.clone();
                if let Some(members) = expect.as_object_mut() {
                    members.shift_remove(&gone);
                }
                prop_assert_eq!(serde_json::from_str::<Value>(&less).unwrap(), expect);
            }
        }
    }

    #[test]
    fn what_is_kept_keeps_its_bytes() {
        let value = parse(br#"{ "a" : 1.0e2, "\u0062":2, "c":[1 , 2] }"#).unwrap();
        let edited = object_and(
            value,
            |name, value| match name {
                "b" => Edit::Drop,
                "c" => Edit::With(array(value, |e| if e.text() == "1" { Edit::Drop } else { Edit::Keep })),
                _ => Edit::Keep,
            },
            r#""d":{}"#,
        );
        assert_eq!(edited, r#"{"a":1.0e2,"c":[2],"d":{}}"#);
        assert_eq!(object_and(parse(b"{}").unwrap(), |_, _| Edit::Keep, "\"d\":1"), r#"{"d":1}"#);
        assert_eq!(object(parse(b"7").unwrap(), |_, _| Edit::Drop), "7");
    }
}
