//! JSON by key path: small values whole, larger ones opened, long strings by sentence. What is left of a text when
//! units go is JSON again, if a mark in the right form stands for them.

use serde::de::IgnoredAny;

use super::{Container, Parts, Role, markdown, sentences};

/// Values up to this many bytes, with their key, are one unit.
const WHOLE: usize = 240;
/// What the first two and the last elements of an array weigh: they show what the others are like.
const END_WEIGHT: f64 = 0.3;

/// Whether `text` is one object or array.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The same JSON without the space between its tokens; `None` if there is none.
#[must_use]
pub fn minify(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => string_end(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => at + bytes[at..].iter().take_while(|b| !b" \t\n\r\"".contains(b)).count(),
        };
        out.push_str(&text[at..end]);
        at = end;
    }
    (out.len() < text.len()).then_some(out)
}

pub(super) fn split(text: &str, parts: &mut Parts) {
    if !is_json(text) {
        return markdown::paragraphs(text, parts);
    }
    let start = text.len() - text.trim_start().len();
    let mut scanner =
        Scanner { text, bytes: text.as_bytes(), closings: closings(text.as_bytes()), parts, paragraphs: 0 };
    scanner.value(start, text.len());
}

/// Just after the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Where each container begins and ends, by beginning.
fn closings(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'[' | b'{' => {
                open.push(found.len());
                found.push((at, bytes.len()));
            }
            b']' | b'}' => {
                if let Some(index) = open.pop() {
                    found[index].1 = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Goes through JSON that has been found valid, and no deeper than its parser does.
struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    closings: Vec<(usize, usize)>,
    parts: &'a mut Parts,
    paragraphs: usize,
}

impl Scanner<'_> {
    /// Adds the value at `at`, with its key before it and everything before `until`.
    fn value(&mut self, at: usize, until: usize) {
        let start = self.parts.units.last().map_or(0, |unit| unit.span.end);
        if until - start <= WHOLE {
            return self.parts.until(until, Role::Body);
        }
        match self.bytes[at] {
            b'[' => self.container(Container::Array, at, until, Self::elements),
            b'{' => self.container(Container::Object, at, until, Self::elements),
            b'"' => self.container(Container::Text, at, until, Self::sentences),
            _ => self.parts.until(until, Role::Body),
        }
    }

    fn container(&mut self, kind: Container, at: usize, until: usize, inner: fn(&mut Self, usize, usize)) {
        let (context, paragraph) = (self.parts.context, self.parts.paragraph);
        let open = self.parts.units.len();
        self.parts.until(at + 1, Role::Open(kind, 0));
        self.parts.context = Some(open);
        self.new_paragraph();
        inner(self, at + 1, self.end(at) - 1);
        self.parts.context = context;
        self.parts.paragraph = paragraph;
        self.parts.units[open].role = Role::Open(kind, self.parts.units.len());
        self.parts.until(until, Role::Close);
    }

    fn new_paragraph(&mut self) {
        self.paragraphs += 1;
        self.parts.paragraph = self.paragraphs;
    }

    /// What an object or array holds, from `at` to its closing bracket.
    fn elements(&mut self, at: usize, close: usize) {
        let (mut at, mut count, mut last) = (self.skip_space(at), 0, 0);
        let in_array = self.bytes[close] == b']';
        while at < close {
            last = self.parts.units.len();
            if in_array {
                self.new_paragraph();
            } else {
                at = self.skip_space(string_end(self.bytes, at));
                at = self.skip_space(at + 1);
            }
            let mut next = self.skip_space(self.end(at));
            if self.bytes[next] == b',' {
                next = self.skip_space(next + 1);
            }
            self.value(at, next);
            if in_array && count < 2 {
                self.weigh(last);
            }
            (at, count) = (next, count + 1);
        }
        if in_array {
            self.weigh(last);
        }
    }

    fn weigh(&mut self, from: usize) {
        self.parts.units.iter_mut().skip(from).for_each(|unit| unit.weight = END_WEIGHT);
    }

    /// What a string holds: sentences, and lines that are escaped.
    fn sentences(&mut self, at: usize, close: usize) {
        let text = &self.text[at..close];
        let escapes: Vec<(usize, usize)> = escapes(text.as_bytes());
        let breaks = escapes.iter().filter(|(from, _)| text[*from..].starts_with("\\n")).map(|(_, to)| *to);
        let within = |end: usize| {
            let before = escapes.partition_point(|(from, _)| *from < end);
            before.checked_sub(1).is_some_and(|escape| escapes[escape].1 > end)
        };
        let mut ends: Vec<usize> =
            sentences::ends(text).into_iter().filter(|end| !within(*end)).chain(breaks).collect();
        ends.sort_unstable();
        for end in ends {
            self.parts.until(at + end, Role::Body);
        }
        self.parts.until(close, Role::Body);
    }

    /// Just after the value at `at`.
    fn end(&self, at: usize) -> usize {
        match self.bytes[at] {
            b'"' => string_end(self.bytes, at),
            b'[' | b'{' => {
                let index = self.closings.partition_point(|(from, _)| *from < at);
                self.closings.get(index).map_or(self.bytes.len(), |found| found.1)
            }
            _ => at + self.bytes[at..].iter().take_while(|b| !b",]} \t\n\r".contains(b)).count(),
        }
    }

    fn skip_space(&self, at: usize) -> usize {
        at + self.bytes[at..].iter().take_while(|b| b" \t\n\r".contains(b)).count()
    }
}

/// Where escapes begin and end.
fn escapes(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(slash) = memchr::memchr(b'\\', &bytes[at..]) {
        let from = at + slash;
        at = (from + if bytes.get(from + 1) == Some(&b'u') { 6 } else { 2 }).min(bytes.len());
        found.push((from, at));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Container, Kind, Role, split, tests::shown},
        minify,
    };

    #[test]
    fn space_between_tokens_goes_and_within_strings_stays() {
        assert_eq!(
            minify("{ \"a b\" : [ 1 ,\n 2.5e3 ], \"c\": \"x \\\" y\" }").unwrap(),
            r#"{"a b":[1,2.5e3],"c":"x \" y"}"#
        );
        assert_eq!(minify("[1,2]"), None);
    }

    #[test]
    fn small_values_are_whole_and_large_ones_opened() {
        let filler = "x".repeat(150);
        let text = format!(
            r#"{{"a":{{"n":1,"m":[1,2]}},"list":[{{"id":1,"s":"{filler}"}},{{"id":2,"s":"{filler}"}}],"z":null}}"#
        );
        let found = shown(&text, Kind::Json);
        let element = |id: u8| format!(r#"{{"id":{id},"s":"{filler}"}}"#);
        assert_eq!(
            found,
            [
                "{",
                r#""a":{"n":1,"m":[1,2]},"#,
                r#""list":["#,
                &format!("{},", element(1)),
                &element(2),
                "],",
                r#""z":null"#,
                "}"
            ]
        );
        let units = split(&text, Kind::Json);
        assert_eq!(
            (units[0].role, units[2].role),
            (Role::Open(Container::Object, 7), Role::Open(Container::Array, 5))
        );
        assert_eq!((units[3].context, units[6].context), (Some(2), Some(0)));
        assert!(units[3].weight > 0.0);
    }

    #[test]
    fn long_strings_are_divided_but_not_within_escapes() {
        let text = format!(r#"["{}"]"#, r"One sentence here. A \u0041\nline \\ x. Last.".repeat(9));
        let found = shown(&text, Kind::Json);
        assert_eq!((found[0], found[1], found[2]), ("[", "\"", "One sentence here."));
        for piece in &found[2..found.len() - 2] {
            assert!(serde_json::from_str::<String>(&format!("\"{}\"", piece)).is_ok(), "{piece}");
        }
    }
}
