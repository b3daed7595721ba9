//! Tables about many calls: by tool, by key, and who sends what wrong.

use maud::{Markup, html};

use super::plot::{self, Kind};
use crate::pages::{
    call::took,
    filter::{Filter, NOBODY},
    stats::{Groups, Wrong},
};

/// What a table groups by.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum By {
    Tool,
    Key,
}

/// Calls in groups, each with its rate and times. A name leads to its calls.
pub(super) fn groups(by: By, groups: &Groups, filter: &Filter) -> Markup {
    let (id, title, field) = match by {
        By::Tool => ("by-tool", "By tool", "tool"),
        By::Key => ("by-key", "By key", "key"),
    };
    html! {
        section.card #(id) data-panel aria-labelledby=(format!("{id}-title")) {
            h2 #(format!("{id}-title")) { (title) }
            @if groups.groups.is_empty() {
                p.empty { "No calls." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label=(format!("{title}, table")) {
                    table {
                        thead { tr {
                            th scope="col" { (match by { By::Tool => "Tool or method", By::Key => "Key" }) }
                            th.n scope="col" { "Calls" }
                            th.n scope="col" { "Failed" }
                            th.n scope="col" { "Median" }
                            th.n scope="col" { "95 %" }
                            th.wide scope="col" { "Rate" }
                            th.wide scope="col" { "Latency" }
                        } }
                        tbody {
                            @for group in &groups.groups {
                                @let name = group.name.as_deref().unwrap_or("calls without a key");
                                @let query = filter.with(field, group.name.as_deref().unwrap_or(NOBODY)).query();
                                tr {
                                    th.name scope="row" { a href=(format!("/activity?{query}")) { (name) } }
                                    td.n { (group.sum.calls) }
                                    td.n { @if group.sum.failed > 0 { span.bad { (group.sum.failed) } } @else { "0" } }
                                    td.n { (time(group.sum.p50_ms)) }
                                    td.n { (time(group.sum.p95_ms)) }
                                    td.wide { (plot::small(Kind::Rate, &group.series, name)) }
                                    td.wide { (plot::small(Kind::Latency, &group.series, name)) }
                                }
                            }
                        }
                    }
                }
                @if groups.more > 0 { p.hint { (groups.more) " more are not shown." } }
            }
        }
    }
}

/// Who sends what wrong.
pub(super) fn wrong(wrong: &[Wrong]) -> Markup {
    html! {
        section.card #wrong data-panel aria-labelledby="wrong-title" {
            h2 #wrong-title { "Who sends what wrong" }
            @if wrong.is_empty() {
                p.empty { "Every message was well-formed." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Who sends what wrong, table" {
                    table {
                        thead { tr {
                            th scope="col" { "Client" }
                            th scope="col" { "What" }
                            th.wide scope="col" { "Then" }
                            th.n scope="col" { "Calls" }
                            th.wide scope="col" { "Last" }
                            th.wide scope="col" { "Newest" }
                        } }
                        tbody {
                            @for row in wrong {
                                @let then = match row.done { "refused" => "bad", "repaired" => "good", _ => "fair" };
                                tr {
                                    th.name scope="row" {
                                        (row.client.as_deref().unwrap_or("unknown"))
                                        @if let Some(version) = &row.version { " " span.hint { (version) } }
                                    }
                                    td { code { (row.rule) } span.state.narrow.(then) { (row.done) } }
                                    td.wide { span.state.(then) { (row.done) } }
                                    td.n { (row.calls) }
                                    td.wide { (row.last) }
                                    td.wide { a href=(row.example) { (row.what) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| "–".to_owned(), took)
}
