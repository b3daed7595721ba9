//! How records are printed: as they are, or as a table.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::{
    audit::query::{Broken, Entry, NONE, Row},
    cli::table::{Cell, Column, DIM, Table, colour},
};

/// Rows of a table that are laid out together.
const TOGETHER: usize = 1_000;

const COLUMNS: [Column; 8] = [
    Column { name: "TIME", is_number: true },
    Column { name: "OUTCOME", is_number: false },
    Column { name: "MS", is_number: true },
    Column { name: "KEY", is_number: false },
    Column { name: "CLIENT", is_number: false },
    Column { name: "CALL", is_number: false },
    Column { name: "UPSTREAM", is_number: false },
    Column { name: "NOTE", is_number: false },
];

/// Prints records as they come.
pub(super) struct Printer {
    table: Option<Table>,
    waiting: Vec<Vec<Cell>>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { table: (!json).then(|| Table::new(&COLUMNS)), waiting: Vec::new() }
    }

    pub(super) fn row(&mut self, row: &Row) -> io::Result<()> {
        if self.table.is_none() {
            let mut out = io::stdout().lock();
            return out.write_all(&row.line).and_then(|()| out.write_all(b"\n"));
        }
        self.waiting.extend(row.entry().map(|entry| cells(&entry)));
        if self.waiting.len() >= TOGETHER { self.flush() } else { Ok(()) }
    }

    /// Prints what waits.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(table) = &mut self.table
            && !self.waiting.is_empty()
        {
            anstream::stdout().write_all(table.rows(&self.waiting).as_bytes())?;
            self.waiting.clear();
        }
        io::stdout().flush()
    }
}

/// Tells of lines that were left out.
pub(in crate::cli) fn tell(broken: &Broken) {
    if let Some((file, offset)) = &broken.one {
        let lines = broken.lines;
        let (are, line) =
            if lines == 1 { ("is", "line that is no record") } else { ("are", "lines that are no records") };
        eprintln!(
            "smartgate: {lines} {line} {are} left out, one of them at byte {offset} of {}; see smartgate audit verify",
            file.display()
        );
    }
}

/// Says that there is nothing to list, on stderr: silence would leave it open whether anything was looked at.
pub(super) fn nothing() {
    eprintln!("smartgate: no record of the journal fits");
}

fn cells(entry: &Entry<'_>) -> Vec<Cell> {
    let text = |t: Option<&str>| Cell::new(t.unwrap_or(NONE));
    let outcome = entry.outcome.as_deref();
    let is_call = &*entry.kind == "call";
    let call = entry.tool.as_deref().or(entry.method.as_deref());
    vec![
        Cell::new(&time(&entry.time)).coloured(DIM),
        if is_call { text(outcome).coloured(style(outcome)) } else { Cell::new(&entry.kind).coloured(DIM) },
        Cell::new(&entry.duration_ms.map_or_else(|| NONE.to_owned(), ms)),
        text(entry.principal.as_deref()),
        text(entry.client_name().as_deref()),
        text(call),
        text(entry.upstream.as_deref()),
        Cell::new(&note(entry)),
    ]
}

/// `2026-11-30 08:00:00.123`: the record's time without what nobody reads.
pub(in crate::cli) fn time(time: &str) -> String {
    time.get(..23).unwrap_or(time).replacen('T', " ", 1)
}

/// Milliseconds with as many decimals as mean something.
pub(super) fn ms(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.2}")
    } else if ms < 100.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

fn note(entry: &Entry<'_>) -> String {
    let error = entry.error.as_ref();
    let code = error.filter(|e| e.reason.is_none()).and_then(|e| e.code).map(|c| format!("code {c}"));
    let repaired = entry.rules().map(|rules| format!("repaired: {}", rules.replace(',', ", ")));
    let notes = [entry.reason().map(str::to_owned), code, repaired];
    notes.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

pub(super) fn style(outcome: Option<&str>) -> Style {
    colour(match outcome {
        Some("ok") => AnsiColor::Green,
        Some("rejected" | "client_closed" | "drained") => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    })
}
