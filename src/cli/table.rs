//! Tables on a terminal: columns as wide as their content, cut where the terminal is too narrow. Owns how texts from
//! outside are shown. Invariant: what is printed holds no control character of such a text, and no cell breaks a line.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

/// Where a table goes to a file or a pipe, nothing is cut.
const FREE: usize = usize::MAX;
/// Least that is left of a column.
const LEAST: usize = 8;

/// A column's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Numbers stand to the right, and are never cut.
    pub(crate) is_number: bool,
}

/// A text with a colour.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text from outside, or of our own.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: shown(text), style: Style::new() }
    }

    pub(crate) fn coloured(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

pub(crate) const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

/// A table that may come in parts, whose columns then only get wider.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    widths: Vec<usize>,
    room: usize,
    is_begun: bool,
}

impl Table {
    /// A table for stdout.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self::within(columns, width_of_stdout().unwrap_or(FREE))
    }

    fn within(columns: &[Column], room: usize) -> Self {
        let widths = columns.iter().map(|c| c.name.len()).collect();
        Self { columns: columns.to_vec(), widths, room, is_begun: false }
    }

    /// The next rows as text with colours; the head before the first.
    pub(crate) fn rows(&mut self, rows: &[Vec<Cell>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        self.fit();
        let mut out = String::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            let head = |c: &Column| Cell { text: c.name.to_owned(), style: BOLD };
            self.row(&mut out, &self.columns.iter().map(head).collect::<Vec<_>>());
        }
        rows.iter().for_each(|row| self.row(&mut out, row));
        out
    }

    /// Takes from the widest texts what does not fit.
    fn fit(&mut self) {
        let gaps = 2 * self.columns.len().saturating_sub(1);
        while self.room != FREE && self.widths.iter().sum::<usize>() + gaps > self.room {
            let texts = self.widths.iter_mut().zip(&self.columns).filter(|(_, c)| !c.is_number);
            match texts.map(|(width, _)| width).max_by_key(|width| **width) {
                Some(widest) if *widest > LEAST => *widest -= 1,
                _ => return,
            }
        }
    }

    fn row(&self, out: &mut String, cells: &[Cell]) {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(&self.widths) {
            let length = cell.text.chars().count();
            let gap = " ".repeat(width.saturating_sub(length));
            let text = if length > *width { cut(&cell.text, *width) } else { cell.text.clone() };
            let (before, after) = if column.is_number { (gap.as_str(), "") } else { ("", gap.as_str()) };
            let Cell { style, .. } = cell;
            write!(line, "{before}{style}{text}{style:#}{after}  ").expect("a String takes every write");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A text without characters that a terminal obeys or that turn the text's direction around.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || turns { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn width_of_stdout() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] =
        [Column { name: "NAME", is_number: false }, Column { name: "N", is_number: true }];

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_line_up_and_only_texts_are_cut() {
        let row = |name: &str, n: &str| vec![Cell::new(name), Cell::new(n).coloured(BOLD)];
        let rows = [row("short", "1"), row("a name that is long", "123456")];
        let wide = Table::within(&COLUMNS, FREE).rows(&rows);
        assert_eq!(
            plain(&wide),
            "NAME                      N\nshort                     1\na name that is long  123456\n"
        );
        let narrow = Table::within(&COLUMNS, 20).rows(&rows);
        assert_eq!(plain(&narrow), "NAME               N\nshort              1\na name that…  123456\n");
        assert!(plain(&Table::within(&COLUMNS, 3).rows(&rows)).contains("a name …  123456"));
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(shown("a\u{1b}[31m\nb\u{202e}é"), "a\\u{1b}[31m\\u{a}b\\u{202e}é");
    }
}
