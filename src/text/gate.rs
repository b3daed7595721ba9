//! Cuts a text to a number of tokens: first without losing anything, then by leaving out the units that matter
//! least. Owns the order of the steps and the promises of the result.
//!
//! Invariants: what is kept is verbatim and in its order, and a mark stands for each gap; the result has at most
//! `target` tokens and never more than the text; equal input gives an equal result.

mod fill;
mod score;

#[cfg(test)]
mod quality;
#[cfg(test)]
mod tests;

use std::thread;

use self::fill::{MARK, Selection};
use super::{
    lossless::{Squeezed, squeeze},
    tokens::Offsets,
    units::{self, Unit},
};

pub use super::units::Kind;

/// No target is smaller than this, in tokens: a mark alone takes half of it.
pub const MIN_TARGET: usize = 16;
/// Gaps that are reported.
const GAPS: usize = 50;

/// What may be done to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Both, the second only if the first is not enough.
    Auto,
    /// Only what loses nothing, even if the result is over the target.
    Lossless,
    /// Only leaving out.
    Extract,
}

/// How a text is to be cut.
#[derive(Debug, Clone)]
pub struct Options {
    /// The question that the result must answer.
    pub purpose: Option<String>,
    /// Target as a part of the text's tokens.
    pub ratio: f64,
    /// Target in tokens; the smaller of the two applies.
    pub max_tokens: Option<usize>,
    /// What may be done.
    pub mode: Mode,
    /// Units with any of these strings are kept first.
    pub keep: Vec<String>,
    /// What the text is; `None` to find out.
    pub kind: Option<Kind>,
}

impl Options {
    /// Cuts to `max_tokens` for `purpose`.
    #[must_use]
    pub fn to_fit(max_tokens: usize, purpose: Option<&str>) -> Self {
        Self {
            purpose: purpose.map(str::to_owned),
            ratio: 1.0,
            max_tokens: Some(max_tokens),
            mode: Mode::Auto,
            keep: Vec::new(),
            kind: None,
        }
    }
}

/// A text after cutting.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// What is left of it.
    pub text: String,
    /// What was done: `none`, `lossless` or `extract`.
    pub mode_used: &'static str,
    /// What the text was taken for.
    pub kind: Kind,
    /// Tokens of the whole text.
    pub tokens_in: usize,
    /// Tokens of what is left.
    pub tokens_out: usize,
    /// The most tokens that it was to have.
    pub target: usize,
    /// Whether anything is missing that cannot be told from the result.
    pub lossy: bool,
    /// Units of the text; 0 if it was not divided.
    pub units_total: usize,
    /// Units that are left.
    pub units_kept: usize,
    /// What is missing, at most 50 of them.
    pub omitted: Vec<Gap>,
    /// What the caller should know, for example `no_purpose`.
    pub warnings: Vec<&'static str>,
}

/// Units that were left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The unit before it; `None` at the beginning.
    pub after_unit: Option<usize>,
    /// How many.
    pub units: usize,
    /// Their tokens.
    pub tokens: usize,
}

/// Why a text was not cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// There is nothing in it.
    Empty,
    /// The units with the strings to keep have more tokens than the target.
    KeepExceedsBudget {
        /// Tokens of those units, with their marks.
        needed: usize,
        /// The target.
        target: usize,
    },
}

/// Cuts `text`. Takes about 0.1 s for each MB.
///
/// # Errors
/// The text is empty, or what must be kept does not fit.
pub fn cut(text: &str, options: &Options) -> Result<Cut, Error> {
    if text.trim().is_empty() {
        return Err(Error::Empty);
    }
    let kind = options.kind.unwrap_or_else(|| Kind::of(text));
    // Counting takes as long as all the rest, so the two run side by side.
    let (offsets, prepared) = thread::scope(|scope| {
        let counting = scope.spawn(|| Offsets::of(text));
        let prepared = Prepared::new(text, kind, options);
        (counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), prepared)
    });
    let tokens_in = offsets.total();
    let share = (tokens_in as f64 * options.ratio.clamp(0.0, 1.0)).ceil() as usize;
    let target = share.min(options.max_tokens.unwrap_or(usize::MAX)).max(MIN_TARGET);
    let whole = Cut {
        text: String::new(),
        mode_used: "none",
        kind,
        tokens_in,
        tokens_out: tokens_in,
        target,
        lossy: false,
        units_total: 0,
        units_kept: 0,
        omitted: Vec::new(),
        warnings: Vec::new(),
    };
    let unchanged = |whole: Cut| Ok(Cut { text: text.to_owned(), ..whole });
    if tokens_in <= target && options.mode != Mode::Lossless {
        return unchanged(whole);
    }
    let Prepared { squeezed, units, scores, mut warnings } = prepared;
    let (source, offsets, lossy) = match &squeezed {
        Some(squeezed) => (squeezed.text.as_str(), Offsets::of(&squeezed.text), squeezed.lossy),
        None => (text, offsets, false),
    };
    let smaller = offsets.total();
    if smaller <= target || options.mode == Mode::Lossless {
        if smaller >= tokens_in {
            return unchanged(whole);
        }
        if smaller > target {
            warnings.push("target_not_reached");
        }
        let text = source.to_owned();
        return Ok(Cut { text, mode_used: "lossless", tokens_out: smaller, lossy, warnings, ..whole });
    }
    let extracted =
        extract(source, &offsets, Parts { units, scores, kind, target }, &options.keep, &mut warnings)?;
    if extracted.tokens_out >= tokens_in {
        return unchanged(whole);
    }
    Ok(Cut { mode_used: "extract", lossy: true, warnings, ..whole }.with(extracted))
}

/// What can be found out before the target is known.
struct Prepared {
    squeezed: Option<Squeezed>,
    units: Vec<Unit>,
    scores: Vec<f64>,
    warnings: Vec<&'static str>,
}

impl Prepared {
    fn new(text: &str, kind: Kind, options: &Options) -> Self {
        let squeezed = if options.mode == Mode::Extract { None } else { squeeze(text, kind) };
        if options.mode == Mode::Lossless {
            return Self { squeezed, units: Vec::new(), scores: Vec::new(), warnings: Vec::new() };
        }
        let source = squeezed.as_ref().map_or(text, |squeezed| &squeezed.text);
        let units = units::split(source, kind);
        let (scores, warning) = score::scores(source, &units, options.purpose.as_deref());
        Self { squeezed, units, scores, warnings: warning.into_iter().collect() }
    }
}

/// A text divided and judged.
struct Parts {
    units: Vec<Unit>,
    scores: Vec<f64>,
    kind: Kind,
    target: usize,
}

struct Extracted {
    text: String,
    tokens_out: usize,
    units_total: usize,
    units_kept: usize,
    omitted: Vec<Gap>,
}

impl Cut {
    fn with(self, extracted: Extracted) -> Self {
        let Extracted { text, tokens_out, units_total, units_kept, omitted } = extracted;
        Self { text, tokens_out, units_total, units_kept, omitted, ..self }
    }
}

fn extract(
    text: &str,
    offsets: &Offsets,
    parts: Parts,
    keep: &[String],
    warnings: &mut Vec<&'static str>,
) -> Result<Extracted, Error> {
    let Parts { units, scores, kind, target } = parts;
    let size = |unit: &Unit| offsets.before(unit.span.end) - offsets.before(unit.span.start);
    let (units, scores) = {
        let room = target.saturating_sub(2 * MARK);
        let piece = (text.len() / offsets.total().max(1)).max(1) * (room / 4).max(4);
        units::divide(text, units, scores, kind == Kind::Json, piece, |unit| size(unit) > room)
    };
    let sizes = units.iter().map(size).collect();
    let mut selection = Selection::new(text, &units, sizes, target, kind);
    let mut missing = false;
    for phrase in keep.iter().filter(|phrase| !phrase.is_empty()) {
        missing |= !selection.force(phrase);
    }
    if missing {
        warnings.push("keep_not_found");
    }
    if selection.used() > target {
        return Err(Error::KeepExceedsBudget { needed: selection.used(), target });
    }
    selection.fill(&scores);
    // The sizes of units do not quite add up to the size of the whole, so the whole decides.
    loop {
        let text = selection.render(offsets);
        let tokens_out = Offsets::of(&text).total();
        if tokens_out <= target || !selection.shrink(&scores, tokens_out - target) {
            if tokens_out > target {
                return Err(Error::KeepExceedsBudget { needed: tokens_out, target });
            }
            if selection.kept() == 0 {
                warnings.push("nothing_fits");
            }
            let omitted = selection.gaps(offsets).take(GAPS).collect();
            return Ok(Extracted {
                text,
                tokens_out,
                units_total: units.len(),
                units_kept: selection.kept(),
                omitted,
            });
        }
    }
}
