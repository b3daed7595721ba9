//! Which URIs a resource template stands for (RFC 6570, as far as matching needs it). Owns no values: whether a URI
//! fits is all that is asked. Time is bounded by template times URI.

/// A compiled template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
    /// Bytes that are not up to a variable: the more, the more specific.
    pub(super) literal: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<[u8]>),
    /// A variable.
    Any {
        /// May stand for text with `/`, `?` and `#` in it.
        reserved: bool,
        /// May stand for nothing.
        empty: bool,
    },
}

impl Template {
    /// Reads a template; a brace without its other is literal text.
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, inside, after)) = expression(rest) {
            literal(&mut parts, before);
            let reserved = inside.starts_with(['+', '#', '/', '?', '&', ';', '.']);
            parts.push(Part::Any { reserved, empty: reserved });
            rest = after;
        }
        literal(&mut parts, rest);
        let count = |part: &Part| if let Part::Literal(text) = part { text.len() } else { 0 };
        Self { literal: parts.iter().map(count).sum(), parts }
    }

    /// Whether `uri` may be an expansion of it.
    pub(super) fn fits(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        // Places in the URI up to which the parts so far can reach.
        let mut reached = vec![false; uri.len() + 1];
        reached[0] = true;
        for part in &self.parts {
            reached = part.step(uri, &reached);
        }
        reached[uri.len()]
    }
}

impl Part {
    fn step(&self, uri: &[u8], from: &[bool]) -> Vec<bool> {
        let mut to = vec![false; from.len()];
        match self {
            Self::Literal(text) => {
                for at in from.iter().enumerate().filter(|(_, yes)| **yes).map(|(at, _)| at) {
                    if uri[at..].starts_with(text) {
                        to[at + text.len()] = true;
                    }
                }
            }
            Self::Any { reserved, empty } => {
                let mut open = false;
                for at in 0..from.len() {
                    to[at] = open || (*empty && from[at]);
                    let goes_on = uri.get(at).is_some_and(|b| *reserved || !matches!(b, b'/' | b'?' | b'#'));
                    open = (open || from[at]) && goes_on;
                }
            }
        }
        to
    }
}

/// The first expression: what is before it, in it and after it.
fn expression(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    Some((before, inside, after))
}

fn literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_fit_what_they_expand_to() {
        let fits = |template: &str, uri: &str| Template::new(template).fits(uri);
        assert!(fits("db://{table}/row/{id}", "db://a/row/7"));
        assert!(!fits("db://{table}/row/{id}", "db://a/b/row/7"));
        assert!(!fits("db://{table}/row/{id}", "db:///row/7"));
        assert!(fits("file:///{+path}", "file:///a/b?c"));
        assert!(fits("file:///{+path}", "file:///"));
        assert!(fits("x://s{?q,page}", "x://s?q=1&page=2"));
        assert!(fits("x://s{?q}", "x://s"));
        assert!(fits("plain://x", "plain://x") && !fits("plain://x", "plain://xy"));
        assert!(fits("open{brace", "open{brace"));
        assert!(!fits(&"{a}".repeat(200), &"/".repeat(2_000)));
        assert!(Template::new("db://{t}/row/{id}").literal > Template::new("db://{+all}").literal);
    }
}
