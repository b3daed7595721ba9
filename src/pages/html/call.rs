//! One call's page: where its time went, what was repaired, and the rest of its record.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    Here,
    diff::{self, Edit},
    layout, number, outcome,
};
use crate::pages::{
    call::{Call, moment, took},
    door::Pass,
};

/// Members that have a place of their own on the page.
const SHOWN: [&str; 11] = [
    "received",
    "v",
    "kind",
    "edits",
    "normalized",
    "arguments",
    "result",
    "client",
    "error",
    "tries",
    "outcome",
];

pub(in crate::pages) fn page(call: &Call, pass: Pass) -> Markup {
    let record = call.value();
    let edits = diff::edits(&record);
    let content = html! {
        p.back { a href="/activity" { "Activity" } }
        div.head {
            h1 { (call.what()) }
            (outcome(&call.outcome))
            @if let Some(status) = call.status { span.hint { "HTTP " (status) } }
        }
        p.line {
            span { time datetime=(call.time.to_string()) { (moment(call.time)) } }
            @if let Some(key) = &call.principal { span { "key " strong { (key) } } }
            @if !call.agent().is_empty() { span { "client " strong { (call.agent()) } } }
            @if let Some(upstream) = &call.upstream { span { "upstream " strong { (upstream) } } }
        }
        @if let Some(message) = record["error"]["message"].as_str() {
            p.error { @if let Some(reason) = call.reason() { code { (reason) } ": " } (message) }
        }
        (waterfall(call, &record))
        (repairs(call, &record, &edits))
        div.pair {
            (payload("Arguments, as forwarded", "arguments", &record, edits.is_empty()))
            (payload("Result", "result", &record, true))
        }
        (received(&record["received"]))
        (rest(&record))
    };
    layout(call.what(), Here::Activity, Some(pass), &content)
}

pub(in crate::pages) fn missing(boot: &str, seq: &str, pass: Pass) -> Markup {
    let content = html! {
        p.back { a href="/activity" { "Activity" } }
        h1 { "This call is not here" }
        p { "Neither the newest calls nor the journal have it. An older segment may:" }
        pre { "smartgate audit query --json --boot " (boot) " --seq " (seq) " FILE..." }
    };
    layout("Not here", Here::Activity, Some(pass), &content)
}

fn waterfall(call: &Call, record: &Value) -> Markup {
    let whole = call.duration_ms;
    let tries = record["tries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let upstream = call.upstream.as_deref().unwrap_or("upstream");
    html! {
        section.card aria-labelledby="time-title" {
            h2 #time-title { "Where the time went" }
            ol.fall {
                (bar("Gateway", "whole", 0.0, whole, whole, "from the request's head to the end of the answer"))
                @for (at, one) in tries.iter().enumerate() {
                    @let name = if tries.len() > 1 { format!("{upstream}, try {}", at + 1) } else { upstream.to_owned() };
                    (bar(&name, if one["error"].is_null() { "try" } else { "bad" }, one["after_ms"].as_f64().unwrap_or(0.0),
                         one["duration_ms"].as_f64().unwrap_or(0.0), whole, &ending(one)))
                }
                @if let (true, Some(ms)) = (tries.is_empty(), record["upstream_ms"].as_f64()) {
                    (bar(upstream, "try", (whole - ms).max(0.0), ms, whole, &format!("tries: {}; drawn at the end", record["attempts"])))
                }
            }
            @if record["attempts"].as_u64() == Some(0) { p.hint { "No upstream was asked." } }
        }
    }
}

fn ending(one: &Value) -> String {
    let server = one["server"].as_str().unwrap_or_default();
    let place = match one["port"].as_u64() {
        Some(port) if port > 0 => format!("{server}:{port}"),
        _ => server.to_owned(),
    };
    let status = one["status"].as_u64().map(|status| format!("HTTP {status}"));
    let error = one["error"].as_str().map(str::to_owned);
    [Some(place), status, error]
        .into_iter()
        .flatten()
        .filter(|s| !s.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

fn bar(name: &str, class: &str, from: f64, took_ms: f64, whole: f64, what: &str) -> Markup {
    let share = |ms: f64| (1000.0 * ms / whole.max(0.001)).clamp(0.0, 1000.0);
    let (from, width) = (share(from), share(took_ms).max(2.0));
    html! {
        li {
            span.who { (name) }
            svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" {
                rect.(class) x=(format!("{:.1}", from.min(1000.0 - width))) width=(format!("{width:.1}")) height="12" {}
            }
            span.n { (took(took_ms)) }
            span.what { (what) }
        }
    }
}

fn repairs(call: &Call, record: &Value, edits: &[Edit]) -> Markup {
    let shadow = call.shadow.as_deref().unwrap_or_default();
    if call.normalized.is_empty() && shadow.is_empty() {
        return html! {};
    }
    let value = &record["arguments"]["value"];
    let method = [&record["original_method"], &record["method"]];
    html! {
        section.card aria-labelledby="repairs-title" {
            h2 #repairs-title { "What was repaired" }
            ul.rules {
                @for rule in &call.normalized { li { code { (rule) } " " (diff::meaning(rule)) } }
                @for rule in shadow { li { code { (rule) } " would have been applied; the message was forwarded as it came (shadow)" } }
            }
            @if record["lossy"] == true { p.error { "Values were thrown away." } }
            @if let [Value::String(before), Value::String(after)] = method && before != after {
                pre.diff tabindex="0" aria-label="Method" { del { "- method: " (before) } ins { "+ method: " (after) } }
            }
            @if !edits.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="Changes, table" {
                    table {
                        thead { tr { th scope="col" { "Path" } th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Rule" } } }
                        tbody {
                            @for edit in edits {
                                tr {
                                    th.name scope="row" { code { (edit.path) } }
                                    td { del { (edit.from) } }
                                    td { ins { (edit.to) } }
                                    td { code { (edit.rule) } }
                                }
                            }
                        }
                    }
                }
                @if let Some(omitted) = record["edits_omitted"].as_u64() { p.hint { (omitted) " more changes are not recorded." } }
                @if !value.is_null() {
                    (diff::diff(value, edits))
                    @if record["received"].is_null() {
                        p.hint { "Of what was there before, the record has the type: " code { "audit.capture" } " decides." }
                    }
                }
            }
        }
    }
}

fn payload(title: &str, name: &str, record: &Value, with_value: bool) -> Markup {
    let payload = &record[name];
    let value = &payload["value"];
    html! {
        section.card aria-label=(title) {
            h2 { (title) }
            @if payload.is_null() {
                p.empty { "Not recorded." }
            } @else {
                @if value.is_null() {
                    p.hint { "Only the hash is recorded: " code { "audit.capture" } " decides." }
                } @else if with_value {
                    pre tabindex="0" aria-label=(title) { (format!("{value:#}")) }
                } @else {
                    p.hint { "See the changes above." }
                }
                @if payload["truncated"] == true { p.hint { "Cut: there was more." } }
                p.small { "SHA-256 " code.long { (payload["sha256"].as_str().unwrap_or_default()) } }
            }
        }
    }
}

/// The message as it came, where it is kept.
fn received(message: &Value) -> Markup {
    let Some(body) = message["body"].as_str() else { return html! {} };
    let pretty =
        serde_json::from_str::<Value>(body).map_or_else(|_| body.to_owned(), |value| format!("{value:#}"));
    html! {
        section.card aria-labelledby="received-title" {
            h2 #received-title { "Message, as received" }
            pre tabindex="0" aria-labelledby="received-title" { (pretty) }
        }
    }
}

fn rest(record: &Value) -> Markup {
    let members = record.as_object().into_iter().flatten();
    let shown = members.filter(|(name, value)| !SHOWN.contains(&name.as_str()) && !value.is_null());
    html! {
        section.card aria-labelledby="rest-title" {
            h2 #rest-title { "Record" }
            dl.facts {
                @for (name, value) in shown {
                    div { dt { (name) } dd { (fact(value)) } }
                }
                @if let Some(address) = record["client"]["address"].as_str() { div { dt { "client address" } dd { (address) } } }
            }
        }
    }
}

fn fact(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string(), number),
        other => other.to_string(),
    }
}
