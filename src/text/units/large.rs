//! Divides units that are larger than all there is room for, so that a part of them can be kept: by line, by word,
//! and where there are neither, anywhere between characters.

use super::{Container, Role, Unit};

/// Divides the units that are `too_large` into pieces of about `size` bytes; each has its unit's score. JSON is
/// divided within strings only.
#[must_use]
pub fn divide(
    text: &str,
    units: Vec<Unit>,
    scores: Vec<f64>,
    json: bool,
    size: usize,
    too_large: impl Fn(&Unit) -> bool,
) -> (Vec<Unit>, Vec<f64>) {
    if !units.iter().any(&too_large) {
        return (units, scores);
    }
    let may_divide = |unit: &Unit| {
        let in_text = unit.context.is_some_and(|at| matches!(units[at].role, Role::Open(Container::Text, _)));
        unit.role == Role::Body && (!json || in_text) && too_large(unit)
    };
    let (mut divided, mut moved) = (Vec::with_capacity(units.len() + 16), Vec::with_capacity(units.len()));
    let mut divided_scores = Vec::with_capacity(units.len() + 16);
    for (unit, score) in units.iter().zip(scores) {
        moved.push(divided.len());
        let mut from = unit.span.start;
        if may_divide(unit) {
            while let Some(cut) = cut(&text[from..unit.span.end], size, json) {
                divided.push(Unit { span: from..from + cut, ..unit.clone() });
                from += cut;
            }
        }
        divided.push(Unit { span: from..unit.span.end, ..unit.clone() });
        divided_scores.resize(divided.len(), score);
    }
    for unit in &mut divided {
        unit.context = unit.context.map(|at| moved[at]);
        if let Role::Open(container, close) = unit.role {
            unit.role = Role::Open(container, moved[close]);
        }
    }
    (divided, divided_scores)
}

/// The length of the first piece of `text`; `None` if all of it is one.
fn cut(text: &str, size: usize, at_space_only: bool) -> Option<usize> {
    if text.len() <= size {
        return None;
    }
    let window = &text[..text.ceil_char_boundary(size.max(1))];
    let space = window.rfind('\n').or_else(|| window.rfind(' ')).map(|at| at + 1);
    let cut = match space {
        Some(cut) => cut,
        None if at_space_only => window.len() + text[window.len()..].find(' ')? + 1,
        None => window.len(),
    };
    (cut < text.len()).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Kind, split},
        *,
    };

    fn divided(text: &str, kind: Kind, size: usize) -> Vec<Unit> {
        let units = split(text, kind);
        let scores = vec![1.0; units.len()];
        let (units, scores) =
            divide(text, units, scores, kind == Kind::Json, size, |unit| unit.span.len() > size);
        assert_eq!(scores, vec![1.0; units.len()]);
        units
    }

    #[test]
    fn pieces_are_the_whole_and_end_at_lines_or_words() {
        let text = format!(
            "# H\n\n```\n{}```\n\n{}\n\n漢字漢字漢字漢字",
            "let x = 1;\n".repeat(9),
            "word ".repeat(20)
        );
        let units = divided(&text, Kind::Markdown, 20);
        let pieces: Vec<_> = units.iter().map(|unit| &text[unit.span.clone()]).collect();
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| piece.len() <= 21), "{pieces:?}");
        assert!(pieces.contains(&"let x = 1;\n"));
        assert_eq!(units.last().map(|unit| unit.context), Some(Some(0)));
    }

    #[test]
    fn in_json_only_strings_are_divided() {
        let text = format!(r#"{{"n":{},"s":"{}"}}"#, "1".repeat(300), "word ".repeat(80));
        let units = divided(&text, Kind::Json, 50);
        assert!(units.iter().any(|unit| unit.span.len() > 300));
        assert!(units.len() > 8);
        let Role::Open(Container::Object, close) = units[0].role else { panic!("{units:?}") };
        assert_eq!(units[close].role, Role::Close);
    }
}
