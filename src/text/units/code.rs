//! Source code: what stands between blank lines is a unit, and what begins at the margin a paragraph.

use super::{Parts, Role, lines};

/// Lines that are looked at to tell code from text.
const SAMPLE: usize = 200;
const STARTS: [&str; 16] = [
    "use ",
    "import ",
    "from ",
    "fn ",
    "pub ",
    "def ",
    "class ",
    "func ",
    "function ",
    "const ",
    "let ",
    "var ",
    "#include",
    "package ",
    "return ",
    "//",
];

/// Whether most lines look like code.
pub(super) fn is_code(text: &str) -> bool {
    let sample = || text.lines().map(str::trim).filter(|line| !line.is_empty()).take(SAMPLE);
    let like_code = sample().filter(|line| {
        line.ends_with(['{', '}', ';'])
            || line.ends_with("):")
            || STARTS.iter().any(|start| line.starts_with(start))
    });
    let (like_code, all) = (like_code.count(), sample().count());
    all > 2 && like_code * 2 > all
}

pub(super) fn split(text: &str, parts: &mut Parts) {
    let mut after_blank = false;
    for (at, line) in lines(text) {
        let blank = line.trim().is_empty();
        if after_blank && !blank {
            parts.until(at, Role::Body);
            if !line.starts_with([' ', '\t', '}', ')', ']']) {
                parts.next_paragraph();
            }
        }
        after_blank = blank;
    }
    parts.until(text.len(), Role::Body);
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, split, tests::shown};

    #[test]
    fn blank_lines_divide_and_the_margin_begins_a_paragraph() {
        let text = "fn a() {\n    x();\n\n    y();\n}\n\nfn b() {}\n";
        assert_eq!(shown(text, Kind::Code), ["fn a() {\n    x();", "y();\n}", "fn b() {}"]);
        let paragraphs: Vec<_> = split(text, Kind::Code).iter().map(|unit| unit.paragraph).collect();
        assert_eq!(paragraphs, [0, 0, 1]);
    }
}
