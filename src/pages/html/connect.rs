//! The connect page: what to paste into a host, and whether its first call has come.

use std::sync::Arc;

use maud::{Markup, html};

use super::{Here, layout};
use crate::{
    hosts::{Endpoints, HOSTS, Host, YOUR_KEY},
    pages::{
        call::{Call, moment},
        door::Pass,
        filter::Filter,
    },
};

/// What is shown.
pub(in crate::pages) struct View<'a> {
    pub(in crate::pages) host: &'static Host,
    pub(in crate::pages) filter: &'a Filter,
    pub(in crate::pages) to: Endpoints,
    /// Names of keys.
    pub(in crate::pages) keys: Vec<String>,
    /// The first call that is wanted, if it has come.
    pub(in crate::pages) first: Option<Arc<Call>>,
    /// The query of the calls that are waited for.
    pub(in crate::pages) query: String,
    /// Where live calls go on.
    pub(in crate::pages) place: String,
    pub(in crate::pages) pass: Pass,
}

pub(in crate::pages) fn page(view: &View<'_>) -> Markup {
    let content = html! {
        h1 { "Connect a host" }
        div.connect {
            nav.hosts aria-label="Hosts" {
                ul {
                    @for host in HOSTS {
                        li {
                            a href=(format!("/connect?{}", view.filter.with("host", host.name).query()))
                                aria-current=[(host.name == view.host.name).then_some("true")] { (host.title) }
                        }
                    }
                }
            }
            div {
                (block(view))
                (check(view))
            }
        }
    };
    layout("Connect", Here::Connect, Some(view.pass), &content)
}

fn block(view: &View<'_>) -> Markup {
    let text = view.host.block(&view.to);
    let parts: Vec<&str> = text.split(YOUR_KEY).collect();
    html! {
        section.card aria-labelledby="block-title" {
            div.head {
                h2 #block-title { "1. Paste this" }
                button.quiet type="button" data-copy="block" hidden { "Copy" }
                span.status role="status" data-copied {}
            }
            p { "For " (view.host.title) ", into " strong { (view.host.place) } "." }
            pre #block tabindex="0" aria-labelledby="block-title" {
                @for (at, part) in parts.iter().enumerate() {
                    @if at > 0 { mark { (YOUR_KEY) } }
                    (part)
                }
            }
            @if view.to.key {
                p.hint {
                    @if parts.len() > 1 { mark { (YOUR_KEY) } " is the place of your key. " }
                    @else { "The host asks for your key once. " }
                    code { "smartgate key new NAME" } " makes one and prints it once."
                }
            } @else {
                p.hint { "This gateway asks callers for no key." }
            }
            @if let Some(note) = view.to.note().filter(|note| !text.contains(note)) { p.small { (note) } }
        }
    }
}

fn check(view: &View<'_>) -> Markup {
    let who = if view.filter.key.is_empty() { view.host.title } else { &view.filter.key };
    html! {
        section.card aria-labelledby="check-title" {
            h2 #check-title { "2. Wait for the first call" }
            @if !view.keys.is_empty() {
                form.filter action="/connect" {
                    input type="hidden" name="host" value=(view.host.name);
                    div.field {
                        label for="key" { "Recognise it by" }
                        select #key name="key" {
                            option value="" selected[view.filter.key.is_empty()] { "the client's name" }
                            @for name in &view.keys { option value=(name) selected[*name == view.filter.key] { "key " (name) } }
                        }
                    }
                    div.buttons { button { "Use" } }
                }
            }
            div.light.(if view.first.is_some() { "good" } else { "waiting" }) #light
                data-events=(format!("/api/events?{}", view.query)) data-place=(view.place) {
                span.lamp aria-hidden="true" {}
                p role="status" {
                    @match &view.first {
                        Some(call) => {
                            strong { "Connected." } " First call: " (call.what())
                            @if !call.agent().is_empty() { " by " (call.agent()) }
                            " at " (moment(call.time)) "."
                        }
                        None => { "Waiting for a call of " (who) ". Start the host, or ask it to list its tools." }
                    }
                }
            }
            p.hint {
                noscript { "Reload this page to look again. " }
                a href=(format!("/activity?{}", view.query)) { "Its calls" } "."
            }
            p.hint #refused hidden {}
        }
    }
}
