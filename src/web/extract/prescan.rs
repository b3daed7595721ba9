//! The guard before any DOM parser: what tree would this document become? Owns the limits and a model of the HTML
//! tree builder that is linear in the document.
//!
//! Invariant: the model may think a tree deeper than it is, never much shallower. Where the standard ignores an end
//! tag, so does the model; where it is unsure it keeps elements open. Real pages are nowhere near the limits (over 311
//! of them at most depth 51, 70 attributes, 9,888 tags), so a wrong guess costs nothing but Markdown.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    names::{Kind, ends_paragraph, kind, replaces},
    tags::{Piece, attributes, pieces},
};

const MAX_DEPTH: usize = 256;
const MAX_ATTRIBUTES: usize = 128;
/// Elements that a parser would make, those it repeats included.
const MAX_ELEMENTS: usize = 100_000;
const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Bytes that writing the tree out again may look at: html5ever's serializer (0.40) searches a whole text anew for
/// each character that it escapes.
const MAX_ESCAPING: usize = 1_000_000_000;

/// Whether the document may be given to a DOM parser.
pub(super) fn is_harmless(html: &str) -> bool {
    if html.len() > MAX_BYTES || !Model::default().read(html) {
        return false;
    }
    // One of the parsers behind the guard takes the content of `noscript` for text, the other for markup.
    let divided = memchr::memmem::find(html.to_ascii_lowercase().as_bytes(), b"<noscript").is_some();
    !divided || Model { scripting: true, ..Model::default() }.read(html)
}

#[derive(Debug)]
struct Open {
    name: String,
    kind: Kind,
    /// Where its part of the formatting list begins.
    marker: Option<usize>,
    /// Of a formatting element: which one.
    formatting: Option<u64>,
}

#[derive(Debug)]
struct Formatting {
    id: u64,
    name: String,
    attributes: u64,
    open: bool,
}

#[derive(Debug, Default)]
struct Model {
    open: Vec<Open>,
    formatting: Vec<Formatting>,
    elements: usize,
    escaping: usize,
    /// Of the text node that is growing: its bytes, and those to escape.
    text: (usize, usize),
    /// Whether `noscript` is raw.
    scripting: bool,
}

impl Model {
    fn read(mut self, html: &str) -> bool {
        let mut pieces = pieces(html);
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Text(text) => {
                    self.text = (self.text.0 + text.len(), self.text.1 + escapes(text));
                    if !text.trim_ascii().is_empty() {
                        self.reopen();
                    }
                }
                Piece::Start(name, rest) => {
                    if attributes(rest) > MAX_ATTRIBUTES {
                        return false;
                    }
                    let name = short(name);
                    let kind = if self.scripting && name == "noscript" { Kind::Raw } else { kind(&name) };
                    self.elements += 1;
                    self.escaping += rest.len() * escapes(rest);
                    if self.splits_text(&name, kind) {
                        self.end_text();
                    }
                    if kind == Kind::Raw && !self.reads_as_markup() {
                        pieces.skip_raw(&name);
                        continue;
                    }
                    // In foreign content, and only there, a tag can end itself.
                    if kind != Kind::Void
                        && !(rest.ends_with('/') && (self.in_foreign() || kind == Kind::Foreign))
                    {
                        self.start(name, kind, rest);
                    }
                }
                Piece::End(name) => self.end(&short(name)),
                Piece::Other => {}
            }
            if self.escaping + self.text.0 * self.text.1 > MAX_ESCAPING
                || self.open.len() > MAX_DEPTH
                || self.formatting.len() > MAX_DEPTH
                || self.elements > MAX_ELEMENTS
            {
                return false;
            }
        }
        true
    }

    /// Whether text before and after such a tag lies in two nodes for certain.
    fn splits_text(&self, name: &str, kind: Kind) -> bool {
        let cell = matches!(name, "td" | "th") && self.open.iter().any(|open| open.name == "table");
        let other = matches!(kind, Kind::Formatting | Kind::Special | Kind::Ordinary)
            || matches!(name, "br" | "img" | "hr" | "wbr");
        (cell || other) && !self.reads_as_markup()
    }

    fn end_text(&mut self) {
        self.escaping += self.text.0 * self.text.1;
        self.text = (0, 0);
    }

    fn in_foreign(&self) -> bool {
        self.open.iter().any(|open| open.kind == Kind::Foreign)
    }

    /// Where a parser takes the content of raw elements for markup.
    fn reads_as_markup(&self) -> bool {
        self.open
            .iter()
            .any(|open| open.kind == Kind::Foreign || matches!(&*open.name, "select" | "frameset"))
    }

    fn start(&mut self, name: String, kind: Kind, rest: &str) {
        let foreign = self.in_foreign();
        let mut marker = None;
        if !foreign {
            if ends_paragraph(&name) {
                self.pop_within(&["p"], |open| {
                    matches!(open.kind, Kind::Boundary | Kind::Table | Kind::Foreign)
                });
            }
            match &*name {
                "li" => self.pop_item(&["li"]),
                "dd" | "dt" => self.pop_item(&["dd", "dt"]),
                "option" | "optgroup" if self.open.last().is_some_and(|open| open.name == "option") => {
                    self.pop()
                }
                _ => {}
            }
        }
        match kind {
            Kind::Frame => return,
            Kind::Table if !foreign && name != "table" => {
                if !self.open.iter().any(|open| open.name == "table") {
                    // Outside of tables these tags mean nothing.
                    return;
                }
                self.pop_within(replaces(&name), |open| matches!(&*open.name, "table" | "template"));
                marker = matches!(&*name, "td" | "th" | "caption").then_some(self.formatting.len());
            }
            Kind::Boundary if matches!(&*name, "applet" | "marquee" | "object" | "template") => {
                marker = Some(self.formatting.len());
            }
            Kind::Formatting if !foreign => return self.start_formatting(name, rest),
            _ => {}
        }
        if matches!(kind, Kind::Ordinary | Kind::Boundary | Kind::Foreign) {
            self.reopen();
        }
        self.open.push(Open { name, kind, marker, formatting: None });
    }

    fn start_formatting(&mut self, name: String, rest: &str) {
        if matches!(&*name, "a" | "nobr") {
            self.end_formatting(&name);
        }
        self.reopen();
        let mut hasher = DefaultHasher::new();
        rest.hash(&mut hasher);
        let attributes = hasher.finish();
        let from = self.marker();
        // Of equal ones the standard keeps three ("Noah's Ark clause").
        let mut same = (from..self.formatting.len())
            .filter(|&at| self.formatting[at].name == name && self.formatting[at].attributes == attributes);
        if let (Some(first), true) = (same.next(), same.count() >= 2) {
            self.formatting.remove(first);
        }
        let id = self.elements as u64;
        self.formatting.push(Formatting { id, name: name.clone(), attributes, open: true });
        self.open.push(Open { name, kind: Kind::Formatting, marker: None, formatting: Some(id) });
    }

    /// Makes the formatting elements again that ended with what enclosed them.
    fn reopen(&mut self) {
        for at in self.marker()..self.formatting.len() {
            let entry = &mut self.formatting[at];
            if !entry.open {
                entry.open = true;
                self.elements += 1;
                let (name, id) = (entry.name.clone(), entry.id);
                self.open.push(Open { name, kind: Kind::Formatting, marker: None, formatting: Some(id) });
            }
        }
    }

    fn marker(&self) -> usize {
        let found = self.open.iter().rev().find_map(|open| open.marker);
        found.unwrap_or_default().min(self.formatting.len())
    }

    fn end(&mut self, name: &str) {
        match kind(name) {
            Kind::Formatting if !self.in_foreign() => self.end_formatting(name),
            Kind::Void | Kind::Frame => {}
            // Ends alone: what it encloses stays open.
            _ if name == "form" => {
                if let Some(at) = self.open.iter().rposition(|open| open.name == "form") {
                    self.open.remove(at);
                }
            }
            Kind::Table => self.pop_within(&[name], |open| matches!(&*open.name, "table" | "template")),
            Kind::Ordinary | Kind::Raw | Kind::Formatting => {
                self.pop_within(&[name], |open| !matches!(open.kind, Kind::Ordinary | Kind::Formatting))
            }
            Kind::Boundary | Kind::Foreign | Kind::Special => self.pop_within(&[name], |open| {
                matches!(open.kind, Kind::Boundary | Kind::Foreign)
                    || matches!(&*open.name, "td" | "th" | "caption" | "table")
            }),
        }
    }

    fn end_formatting(&mut self, name: &str) {
        let from = self.marker();
        let Some(at) = self.formatting[from..].iter().rposition(|entry| entry.name == name) else { return };
        let entry = self.formatting.remove(from + at);
        // The copies that the standard's "adoption agency" makes.
        self.elements += 4;
        self.open.retain(|open| open.formatting != Some(entry.id));
    }

    /// A list item ends the one before it in the same list.
    fn pop_item(&mut self, names: &[&str]) {
        self.pop_within(names, |open| {
            !matches!(open.kind, Kind::Ordinary | Kind::Formatting)
                && !matches!(&*open.name, "address" | "div" | "p")
        });
    }

    /// Ends the nearest of `names` and all in it, unless a boundary comes first.
    fn pop_within(&mut self, names: &[&str], boundary: impl Fn(&Open) -> bool) {
        for at in (0..self.open.len()).rev() {
            if names.contains(&&*self.open[at].name) {
                while self.open.len() > at {
                    self.pop();
                }
                return;
            }
            if boundary(&self.open[at]) {
                return;
            }
        }
    }

    fn pop(&mut self) {
        let Some(last) = self.open.pop() else { return };
        if let Some(marker) = last.marker {
            self.formatting.truncate(marker);
        }
        if let Some(id) = last.formatting
            && let Some(entry) = self.formatting.iter_mut().find(|entry| entry.id == id)
        {
            entry.open = false;
        }
    }
}

/// Bytes at which the serializer stops; 0xC2 may begin a no-break space.
fn escapes(text: &str) -> usize {
    memchr::memchr2_iter(b'&', 0xc2, text.as_bytes()).count()
}

/// A name in lower case. Long ones are made up, and differ enough by their beginning.
fn short(name: &str) -> String {
    name[..name.floor_char_boundary(24)].to_ascii_lowercase()
}
