//! Plots as SVG, drawn here so that they are there without scripts. Owns shapes and scales; colours are the style sheet's.
//!
//! A plot is an image with a text that says what it shows; the figures stand in tables beside it.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::pages::{
    call::{clock, took},
    stats::{Column, Series},
};

/// Width of a column in the units of a plot; its height is 100 of them.
const STEP: f64 = 10.0;

/// What a plot shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// How many calls, the failed ones on top.
    Rate,
    /// How long they took: half of them, and all but one in twenty.
    Latency,
}

impl Kind {
    fn top(self, column: &Column) -> f64 {
        match self {
            Self::Rate => count(column.ok + column.failed),
            Self::Latency => column.p95_ms.unwrap_or(0.0),
        }
    }

    fn of(self, series: &Series) -> f64 {
        series.columns.iter().map(|column| self.top(column)).fold(0.0, f64::max)
    }
}

/// A plot with its scale.
pub(super) fn large(title: &str, kind: Kind, series: &Series) -> Markup {
    let top = kind.of(series);
    let legend = match kind {
        Kind::Rate => [("ok", "ok"), ("failed", "failed")],
        Kind::Latency => [("p50", "median"), ("p95", "95th percentile")],
    };
    let scale = match kind {
        Kind::Rate => format!("{top} in {}", width(series.step)),
        Kind::Latency => took(top),
    };
    html! {
        figure.plot {
            figcaption {
                span.name { (title) }
                span.legend { @for (class, name) in legend { span.(class) { (name) } } }
                span.scale { "max " (scale) }
            }
            (drawing(kind, series, &format!("{title}: at most {scale}"), "large"))
            div.axis aria-hidden="true" {
                span { (time(series.from)) }
                span { (time(series.from + series.step * columns(series) / 2)) }
                span { "now" }
            }
        }
    }
}

/// A plot in a row of a table.
pub(super) fn small(kind: Kind, series: &Series, of: &str) -> Markup {
    let label = match kind {
        Kind::Rate => format!("Rate of {of} over time"),
        Kind::Latency => format!("Latency of {of} over time"),
    };
    drawing(kind, series, &label, "small")
}

fn drawing(kind: Kind, series: &Series, label: &str, class: &str) -> Markup {
    let top = kind.of(series).max(f64::MIN_POSITIVE);
    let width = STEP * count(series.columns.len());
    html! {
        svg.(class) viewBox=(format!("0 0 {width} 100")) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (at, column) in series.columns.iter().enumerate() {
                (self::column(kind, column, count(at) * STEP, top, || tip(series, at, column)))
            }
        }
    }
}

fn column(kind: Kind, column: &Column, x: f64, top: f64, tip: impl Fn() -> String) -> Markup {
    let high = |value: f64| (value / top * 100.0).clamp(0.0, 100.0);
    // Something that is there is seen, however small.
    let seen = |value: f64| if value > 0.0 { high(value).max(2.0) } else { 0.0 };
    let bar = |class: &str, low: f64, height: f64| {
        html! {
            @if height > 0.0 {
                rect.(class) x=(short(x + 1.0)) width=(short(STEP - 2.0)) y=(short(100.0 - low - height)) height=(short(height)) {}
            }
        }
    };
    match kind {
        _ if column.ok + column.failed == 0 => html! {},
        Kind::Rate => {
            let ok = seen(count(column.ok));
            let failed = seen(count(column.failed)).min(100.0);
            html! { g { title { (tip()) } (bar("ok", 0.0, ok.min(100.0 - failed))) (bar("failed", ok.min(100.0 - failed), failed)) } }
        }
        Kind::Latency => {
            let (half, most) = (column.p50_ms.unwrap_or(0.0), column.p95_ms.unwrap_or(0.0));
            html! { g { title { (tip()) } (bar("p95", 0.0, seen(most))) (bar("p50", 0.0, seen(half))) } }
        }
    }
}

fn tip(series: &Series, at: usize, column: &Column) -> String {
    let from = series.from + series.step * i64::try_from(at).unwrap_or(0);
    let mut text = format!("{}: {} calls, {} failed", time(from), column.ok + column.failed, column.failed);
    if let (Some(half), Some(most)) = (column.p50_ms, column.p95_ms) {
        text.push_str(&format!(", median {}, 95 % within {}", took(half), took(most)));
    }
    text
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map(clock).unwrap_or_default()
}

fn columns(series: &Series) -> i64 {
    i64::try_from(series.columns.len()).unwrap_or(0)
}

/// A column's width in words.
fn width(seconds: i64) -> String {
    match seconds {
        s if s % 3_600 == 0 => format!("{} h", s / 3_600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

fn count(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::MAX, f64::from)
}

fn short(n: f64) -> String {
    format!("{n:.1}")
}
