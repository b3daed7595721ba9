//! How the gateway's parts are: what `/readyz` says, as a table.

use maud::{Markup, html};

use super::tone;
use crate::server::admin::{Part, Readiness, UpstreamPart};

/// Upstreams first, then the gateway's own parts.
pub(super) fn table(gateway: &Readiness) -> Markup {
    let own = [
        ("configuration", &gateway.configuration),
        ("journal", &gateway.journal),
        ("exporter", &gateway.exporter),
    ];
    html! {
        section.card #health data-panel aria-labelledby="health-title" {
            h2 #health-title { "Health" }
            ul.parts {
                @for (name, part) in &gateway.upstreams { (upstream(name, part)) }
                @for (name, part) in own { (line(name, "of the gateway", part, html! {})) }
            }
            @if !gateway.collisions.is_empty() {
                p.hint { (gateway.collisions.len()) " names that more than one upstream has are shown of none; see " code { "/readyz" } "." }
            }
        }
    }
}

fn upstream(name: &str, part: &UpstreamPart) -> Markup {
    let more = html! {
        @if let Some(breaker) = part.breaker {
            span { "breaker " span.state.(tone(breaker)) { (breaker) } }
        }
        @if let Some(calls) = part.in_flight {
            span { (calls) " in flight" }
        }
        @for replica in &part.replicas {
            span { code { (replica.server) } " " span.state.(tone(replica.breaker)) { (replica.breaker) } " " (replica.in_flight) " in flight" }
        }
    };
    line(name, "upstream", &part.part, more)
}

fn line(name: &str, kind: &str, part: &Part, more: Markup) -> Markup {
    html! {
        li {
            p.line {
                strong { (name) }
                span.hint { (kind) }
                span.state.(tone(part.state)) { (part.state) }
                (more)
            }
            @if let Some(detail) = &part.detail { p.small { (detail) } }
        }
    }
}
