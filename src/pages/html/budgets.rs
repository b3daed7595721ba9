//! Budgets as bars: used, held and free.

use maud::{Markup, html};

use super::number;
use crate::pages::budgets::Bar;

/// Nothing where no key has a budget.
pub(super) fn bars(bars: &[Bar]) -> Markup {
    html! {
        section.card #budgets data-panel aria-labelledby="budgets-title" {
            h2 #budgets-title { "Budgets" }
            @if bars.is_empty() {
                p.empty { "No key has a budget." }
            }
            @for bar in bars {
                div.budget {
                    p.line {
                        strong { (bar.key) }
                        span { (number(bar.limit)) " " (bar.unit) " a " (bar.window) }
                        @if bar.over_by > 0 { span.state.bad { "over by " (number(bar.over_by)) } }
                        @else if bar.warn { span.state.fair { "nearly used up" } }
                    }
                    (drawing(bar))
                    p.line.small {
                        span.key.used { (number(bar.used)) " used" }
                        span.key.held { (number(bar.held)) " held" }
                        span.key.free { (number(bar.remaining)) " left" }
                        @if let Some(at) = &bar.resets_at { span { "resets at " time datetime=(at) { (short(at)) } } }
                    }
                }
            }
        }
    }
}

fn drawing(bar: &Bar) -> Markup {
    let share = |n: u64| 1000.0 * n as f64 / bar.limit.max(1) as f64;
    let (used, held) = (share(bar.used), share(bar.held));
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.free width="1000" height="10" {}
            rect.used width=(format!("{used:.1}")) height="10" {}
            rect.held x=(format!("{used:.1}")) width=(format!("{held:.1}")) height="10" {}
        }
    }
}

/// A time to the minute.
fn short(at: &str) -> String {
    at.get(..16).unwrap_or(at).replace('T', " ")
}
