//! Noticing a member name that comes twice in one object, however many members there are.
//!
//! Invariant: linear in the members; names are compared as decoded text.

use std::{borrow::Cow, collections::HashSet};

use super::{Raw, hash::FoldState, scan::is_space, skip};

/// Up to this many names, comparing each with each is quicker than hashing.
const FEW: usize = 12;

/// The names of one object so far.
#[derive(Debug)]
pub struct Keys<'a> {
    few: [&'a str; FEW],
    len: usize,
    many: Option<HashSet<Cow<'a, str>, FoldState>>,
}

impl Default for Keys<'_> {
    fn default() -> Self {
        Self { few: [""; FEW], len: 0, many: None }
    }
}

impl<'a> Keys<'a> {
    /// Adds a name (a string token); false if it was there already.
    pub fn insert(&mut self, name: &Raw<'a>) -> bool {
        let token = name.text();
        let inner = &token[1..token.len() - 1];
        if self.many.is_none() && self.len < FEW && memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            if self.few[..self.len].contains(&inner) {
                return false;
            }
            self.few[self.len] = inner;
            self.len += 1;
            return true;
        }
        let few = &self.few[..self.len];
        let many = self.many.get_or_insert_with(|| few.iter().map(|k| Cow::Borrowed(*k)).collect());
        many.insert(super::text::decode_lossy(token))
    }
}

/// Whether an object has a member twice, at any depth of `value`. One pass.
#[must_use]
pub fn any_duplicates(value: Raw<'_>) -> bool {
    let (text, b) = (value.text(), value.text().as_bytes());
    let mut open: Vec<Option<Keys<'_>>> = Vec::new();
    let (mut at, mut name_follows) = (0, false);
    while let Some(byte) = b.get(at) {
        match byte {
            b'{' => open.push(Some(Keys::default())),
            b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = skip::string(b, at);
                if let (true, Some(Some(keys)), Some(token)) =
                    (name_follows, open.last_mut(), text.get(at..end))
                    && !keys.insert(&Raw::new(token, at))
                {
                    return true;
                }
                (at, name_follows) = (end, false);
                continue;
            }
            _ => {}
        }
        name_follows = match byte {
            b'{' => true,
            b',' => matches!(open.last(), Some(Some(_))),
            _ => name_follows && is_space(*byte),
        };
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Keys, any_duplicates};
    use crate::mcp::json::parse;

    #[test]
    fn a_name_that_comes_twice_is_noticed_however_it_is_spelt() {
        for text in
            [r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"b":1, "c":2 , "b" :3}}]"#, r#"{"a":[{},{"k":1,"k":1}]}"#]
        {
            assert!(any_duplicates(parse(text.as_bytes()).unwrap()), "{text}");
        }
        for text in
            [r#"{"a":{"a":"a"},"b":["a","a"]}"#, r#"[{"a":1},{"a":1}]"#, r#"{"a":"b","b":"a"}"#, "1", "[]"]
        {
            assert!(!any_duplicates(parse(text.as_bytes()).unwrap()), "{text}");
        }
    }

    #[test]
    fn many_names_are_compared_as_well_as_few() {
        let object: Vec<String> = (0..500).map(|n| format!("\"k{n}\":0")).collect();
        let text = format!("{{{}}}", object.join(","));
        assert!(!any_duplicates(parse(text.as_bytes()).unwrap()));
        let text = format!("{{{},\"k7\":1}}", object.join(","));
        let value = parse(text.as_bytes()).unwrap();
        assert!(any_duplicates(value));
        let mut keys = Keys::default();
        assert_eq!(value.members().filter(|m| !keys.insert(&m.name)).count(), 1);
    }
}
