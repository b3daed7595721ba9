//! What is wrong with a configuration, where. Owns how a problem reads: `file:line:col: message`.
//! A message names keys and what is expected, and never the value of a secret.

use std::{collections::BTreeSet, fmt, sync::Arc};

/// One problem, or one warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file as the user named it, or what else the text came from.
    pub file: Arc<str>,
    /// Line and column, from 1; the column counts characters. `None` where no place in the file is meant.
    pub at: Option<(usize, usize)>,
    /// What is wrong and, where it is known, what to do.
    pub message: String,
}

impl Problem {
    /// How it reads as a warning: `file:line:col: warning: message`.
    #[must_use]
    pub fn as_warning(&self) -> String {
        Self { message: format!("warning: {}", self.message), ..self.clone() }.to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// All problems of one configuration, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Turns byte offsets of one text into problems and warnings, and keeps them.
pub(super) struct Findings<'a> {
    file: Arc<str>,
    text: &'a str,
    problems: BTreeSet<(usize, String)>,
    warnings: BTreeSet<(usize, String)>,
    maimed: BTreeSet<usize>,
}

/// Sorts after every place in the file.
const NOWHERE: usize = usize::MAX;

impl<'a> Findings<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        let (problems, warnings, maimed) = Default::default();
        Self { file: file.into(), text, problems, warnings, maimed }
    }

    /// Notes what is wrong at a byte offset.
    pub(super) fn problem(&mut self, at: Option<usize>, message: impl Into<String>) {
        self.problems.insert((at.unwrap_or(NOWHERE), message.into()));
    }

    /// Notes what works, but probably not as meant.
    pub(super) fn warn(&mut self, at: Option<usize>, message: impl Into<String>) {
        self.warnings.insert((at.unwrap_or(NOWHERE), message.into()));
    }

    /// Notes that something in the table which starts here was refused and taken out, so that its absence
    /// is no further problem.
    pub(super) fn maim(&mut self, table: usize) {
        self.maimed.insert(table);
    }

    /// Whether something was taken out of the table which starts here.
    pub(super) fn maimed(&self, table: Option<usize>) -> bool {
        table.is_some_and(|t| self.maimed.contains(&t))
    }

    /// Whether there is no problem so far.
    pub(super) fn clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The warnings, or else the problems, in the order of the text.
    pub(super) fn finish(self) -> Result<Vec<Problem>, Problems> {
        let lines: Vec<usize> = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', self.text.as_bytes()).map(|n| n + 1))
            .collect();
        let place = |(at, message): (usize, String)| {
            let at = (at != NOWHERE).then(|| self.place(&lines, at));
            Problem { file: self.file.clone(), at, message }
        };
        if self.problems.is_empty() {
            Ok(self.warnings.iter().cloned().map(place).collect())
        } else {
            Err(Problems(self.problems.iter().cloned().map(place).collect()))
        }
    }

    fn place(&self, lines: &[usize], at: usize) -> (usize, usize) {
        let line = lines.partition_point(|start| *start <= at).max(1);
        let start = lines[line - 1];
        let before = self.text.as_bytes().get(start..at).unwrap_or_default();
        // Bytes that begin a character: all but UTF-8 continuation bytes.
        let column = before.iter().filter(|b| **b & 0xC0 != 0x80).count();
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "é=1\nbb = \"ü\" x\n";
        let mut findings = Findings::new("f.toml", text);
        findings.problem(Some(text.find('x').unwrap()), "second");
        findings.problem(Some(0), "first");
        findings.problem(Some(text.find('=').unwrap()), "after a wide character");
        findings.problem(Some(text.len()), "end");
        findings.problem(None, "nowhere");
        let shown = findings.finish().unwrap_err().to_string();
        assert_eq!(
            shown,
            "f.toml:1:1: first\nf.toml:1:2: after a wide character\nf.toml:2:10: second\n\
             f.toml:3:1: end\nf.toml: nowhere"
        );
    }

    #[test]
    fn same_finding_is_told_once() {
        let mut findings = Findings::new("f", "");
        findings.problem(Some(0), "x");
        findings.problem(Some(0), "x");
        assert_eq!(findings.finish().unwrap_err().0.len(), 1);
    }
}
