//! The activity page: what happens now, and sums of what has happened since not long ago.

use std::{collections::BTreeSet, sync::Arc};

use maud::{Markup, html};

use super::{
    Here, budgets, health, layout, outcome,
    plot::{self, Kind},
    tables::{self, By, time},
};
use crate::{
    config::Config,
    pages::{
        budgets::Bar,
        call::{Call, moment},
        door::Pass,
        filter::{FAILED, Filter, NOBODY, OUTCOMES},
        stats::Stats,
    },
    server::admin::Readiness,
};

/// Most names that a list offers.
const CHOICES: usize = 200;

/// What is shown.
pub(in crate::pages) struct View<'a> {
    pub(in crate::pages) filter: &'a Filter,
    pub(in crate::pages) choices: Choices,
    /// The newest first.
    pub(in crate::pages) calls: Vec<&'a Call>,
    pub(in crate::pages) stats: Stats,
    pub(in crate::pages) budgets: Vec<Bar>,
    pub(in crate::pages) gateway: Readiness,
    /// Where live calls go on.
    pub(in crate::pages) place: String,
    pub(in crate::pages) pass: Pass,
}

/// What can be chosen in the form: what the configuration names, and what was seen.
pub(in crate::pages) struct Choices {
    keys: BTreeSet<String>,
    tools: BTreeSet<String>,
    upstreams: BTreeSet<String>,
}

impl Choices {
    pub(in crate::pages) fn of(calls: &[Arc<Call>], config: &Config) -> Self {
        let seen = |name: fn(&Call) -> Option<&str>| {
            calls.iter().filter_map(move |call| name(call)).map(str::to_owned)
        };
        let keys = config.keys.iter().map(|key| key.name.to_string());
        let upstreams = config.upstreams.iter().map(|upstream| upstream.name.to_string());
        Self {
            keys: keys.chain(seen(|call| call.principal.as_deref())).take(CHOICES).collect(),
            tools: seen(|call| Some(call.what()))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .take(CHOICES)
                .collect(),
            upstreams: upstreams.chain(seen(|call| call.upstream.as_deref())).collect(),
        }
    }
}

pub(in crate::pages) fn page(view: &View<'_>) -> Markup {
    let stats = &view.stats;
    let content = html! {
        h1.hidden { "Activity" }
        (form(view))
        (sums(view))
        div.plots #plots data-panel {
            section.card { (plot::large("Calls", Kind::Rate, &stats.series)) }
            section.card { (plot::large("Latency", Kind::Latency, &stats.series)) }
        }
        div.columns {
            div.column {
                (live(view))
                (tables::wrong(&stats.wrong))
            }
            div.column.side {
                (health::table(&view.gateway))
                (budgets::bars(&view.budgets))
            }
        }
        div.pair {
            (tables::groups(By::Tool, &stats.by_tool, view.filter))
            (tables::groups(By::Key, &stats.by_key, view.filter))
        }
    };
    layout("Activity", Here::Activity, Some(view.pass), &content)
}

fn form(view: &View<'_>) -> Markup {
    let filter = view.filter;
    let choose = |id: &str,
                  label: &str,
                  chosen: &str,
                  any: &str,
                  more: &[(&str, &str)],
                  names: &BTreeSet<String>| {
        let known =
            chosen.is_empty() || names.contains(chosen) || more.iter().any(|(value, _)| *value == chosen);
        html! {
            div.field {
                label for=(id) { (label) }
                select #(id) name=(id) {
                    option value="" selected[chosen.is_empty()] { (any) }
                    @for (value, name) in more { option value=(value) selected[*value == chosen] { (name) } }
                    @for name in names { option value=(name) selected[name == chosen] { (name) } }
                    @if !known { option value=(chosen) selected { (chosen) } }
                }
            }
        }
    };
    let outcomes = OUTCOMES.iter().map(|name| (*name).to_owned()).collect();
    html! {
        search {
            form.filter action="/activity" aria-label="Filter of calls" {
                (choose("key", "Key", &filter.key, "all keys", &[(NOBODY, "without a key")], &view.choices.keys))
                div.field {
                    label for="tool" { "Tool or method" }
                    input #tool name="tool" value=(filter.tool) list="tools" placeholder="all, or a glob: files__*" autocomplete="off" spellcheck="false";
                    datalist #tools { @for name in &view.choices.tools { option value=(name) {} } }
                }
                (choose("upstream", "Upstream", &filter.upstream, "all upstreams", &[], &view.choices.upstreams))
                (choose("outcome", "Outcome", &filter.outcome, "all outcomes", &[(FAILED, "all but ok")], &outcomes))
                @if !filter.client.is_empty() { input type="hidden" name="client" value=(filter.client); }
                div.buttons {
                    button.main { "Filter" }
                    @if !filter.query().is_empty() { a.button href="/activity" { "Show all" } }
                }
            }
        }
    }
}

fn sums(view: &View<'_>) -> Markup {
    let sum = &view.stats.all;
    let share = |part: usize| {
        if sum.calls == 0 {
            "–".to_owned()
        } else {
            format!("{:.1} %", 100.0 * part as f64 / sum.calls as f64)
        }
    };
    let since = view.calls.last().map_or_else(|| "–".to_owned(), |_| from(view));
    html! {
        dl.sums #sums data-panel {
            div { dt { "Gateway" } dd { span.state.(super::tone(view.gateway.state)) { (view.gateway.state) } } }
            div { dt { "Calls" } dd { (sum.calls) } }
            div { dt { "Failed" } dd { (sum.failed) " " small { (share(sum.failed)) } } }
            div { dt { "Repaired" } dd { (sum.repaired) " " small { (share(sum.repaired)) } } }
            div { dt { "Median" } dd { (time(sum.p50_ms)) } }
            div { dt { "95 % within" } dd { (time(sum.p95_ms)) } }
            div { dt { "Since" } dd { (since) } }
        }
    }
}

fn from(view: &View<'_>) -> String {
    jiff::Timestamp::from_second(view.stats.oldest).map(moment).unwrap_or_default()
}

fn live(view: &View<'_>) -> Markup {
    html! {
        section.card #live aria-labelledby="live-title" data-events=(format!("/api/events?{}", view.filter.query())) data-place=(view.place) {
            div.head {
                h2 #live-title { "Calls" }
                p.status role="status" { "The newest " (view.calls.len()) " of " (view.stats.all.calls) "." }
                button.quiet type="button" data-pause hidden { "Pause" }
            }
            div.scroll.tall tabindex="0" role="region" aria-label="Calls, table" {
                table.calls {
                    thead { tr {
                        th scope="col" { "Time" }
                        th scope="col" { "Tool or method" }
                        th.wide scope="col" { "Key" }
                        th.wide scope="col" { "Client" }
                        th.wide scope="col" { "Upstream" }
                        th scope="col" { "Outcome" }
                        th.n scope="col" { "Took" }
                        th.wide scope="col" { "Repaired" }
                    } }
                    tbody {
                        @for call in &view.calls { (row(Some(call))) }
                    }
                }
            }
            @if view.calls.is_empty() { p.empty { "No calls yet. " a href="/connect" { "Connect a host" } "." } }
            template { (row(None)) }
        }
    }
}

/// A row, or the form of one that the script fills with a live call: the names in `data-text` are those of the API.
fn row(call: Option<&Call>) -> Markup {
    let call = call.map(Call::row);
    let call = call.as_ref();
    html! {
        tr {
            td.time data-text="clock" { @if let Some(c) = call { (c.clock) } }
            th.name scope="row" {
                a data-text="what" data-link href=[call.map(|c| &c.link)] { @if let Some(c) = call { (c.what) } }
                small.narrow data-text="key" { @if let Some(c) = call { (c.key.unwrap_or("–")) } }
            }
            td.wide data-text="key" { @if let Some(c) = call { (c.key.unwrap_or("–")) } }
            td.wide data-text="agent" { @if let Some(c) = call { (c.agent) } }
            td.wide data-text="upstream" { @if let Some(c) = call { (c.upstream.unwrap_or("–")) } }
            td data-state="outcome" { @if let Some(c) = call { (outcome(c.outcome)) @if let Some(why) = c.reason { " " small.wide { (why) } } } }
            td.n data-text="took" { @if let Some(c) = call { (c.took) } }
            td.wide data-text="repairs" { @if let Some(c) = call { (c.repairs) } }
        }
    }
}
