//! The printed table: one line per figure, its goal beside it. Owns the layout only.

use std::fmt;

/// Rows in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    /// Adds one figure; `goal` is empty where the figure only explains another.
    pub(crate) fn row(&mut self, case: &str, what: impl Into<String>, figure: String, goal: &str) {
        self.rows.push([case.into(), what.into(), figure, goal.into()]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["case", "what", "figure", "goal"].map(String::from);
        let width =
            |column: usize| self.rows.iter().chain([&head]).map(|row| row[column].len()).max().unwrap_or(0);
        let (case, what, figure) = (width(0), width(1), width(2));
        for [a, b, c, d] in [&head].into_iter().chain(&self.rows) {
            writeln!(f, "{}", format!("{a:case$}  {b:what$}  {c:>figure$}  {d}").trim_end())?;
        }
        Ok(())
    }
}
