//! Lines of the OpenMetrics text format, as far as this program writes them. Invariant: what is not understood is no
//! sample, and nothing panics on it.

/// Names and values, in order.
pub(super) type Labels<'a> = Vec<(&'a str, String)>;

/// One number.
#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Labels<'a>,
    pub(super) value: &'a str,
    pub(super) exemplar: Option<Exemplar<'a>>,
}

/// A call that is an example of a number.
#[derive(Debug, PartialEq)]
pub(super) struct Exemplar<'a> {
    pub(super) labels: Labels<'a>,
    pub(super) value: f64,
    /// Nanoseconds since 1970.
    pub(super) time: Option<u64>,
}

/// Reads a line; `None` for a comment or what is no sample.
pub(super) fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    let (value, exemplar) = match rest.split_once(" # {") {
        Some((value, example)) => (value, exemplar(example)),
        None => (rest, None),
    };
    Some(Sample { name, labels, value: value.trim(), exemplar })
}

fn exemplar(text: &str) -> Option<Exemplar<'_>> {
    let (labels, rest) = labels(text)?;
    let mut numbers = rest.split_ascii_whitespace();
    let value = numbers.next()?.parse().ok()?;
    let seconds = numbers.next().and_then(|time| time.parse::<f64>().ok());
    let time = seconds.and_then(|s| std::time::Duration::try_from_secs_f64(s).ok());
    Some(Exemplar { labels, value, time: time.and_then(|t| u64::try_from(t.as_nanos()).ok()) })
}

/// Labels up to the closing brace, and what comes after it.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut all = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((all, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = unquoted(quoted)?;
        all.push((name.trim_start_matches(','), value));
        rest = after;
    }
}

fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_come_with_labels_and_exemplars() {
        let line = r#"d_bucket{a="x\"y\\\n",le="0.1"} 3 # {trace_id="ab",span_id="cd"} 0.05 1.5"#;
        let found = sample(line).unwrap();
        assert_eq!((found.name, found.value), ("d_bucket", "3"));
        assert_eq!(found.labels, [("a", "x\"y\\\n".to_owned()), ("le", "0.1".to_owned())]);
        let labels = vec![("trace_id", "ab".to_owned()), ("span_id", "cd".to_owned())];
        assert_eq!(found.exemplar, Some(Exemplar { labels, value: 0.05, time: Some(1_500_000_000) }));
        assert_eq!(sample("up 1"), Some(Sample { name: "up", labels: vec![], value: "1", exemplar: None }));
        assert_eq!(sample("# EOF"), None);
    }

    proptest! {
        #[test]
        fn anything_is_read_to_its_end(line in ".{0,120}") {
            drop(sample(&line));
        }
    }
}
