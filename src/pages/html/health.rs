//! How the gateway's parts are: what `/readyz` says, as a table.

use maud::{Markup, html};

use super::tone;
use crate::server::admin::{Part, Readiness, UpstreamPart};

/// Upstreams first, then the gateway's own parts.
pub(super) fn table(gateway: &Readiness) -> Markup {
    let own = [
        ("Configuration", &gateway.configuration),
        ("Journal", &gateway.journal),
        ("Exporter", &gateway.exporter),
    ];
    html! {
        section.card #health data-panel aria-labelledby="health-title" {
            h2 #health-title { "Health" }
            ul.parts {
                @for (name, part) in &gateway.upstreams { (upstream(name, part)) }
                @for (name, part) in own { (line(name, part, &html! {})) }
            }
            @if !gateway.collisions.is_empty() {
                p.hint { (gateway.collisions.len()) " names that more than one upstream has are shown of none; see " code { "/readyz" } "." }
            }
        }
    }
}

fn upstream(name: &str, part: &UpstreamPart) -> Markup {
    let more = html! {
        @if let (Some(breaker), Some(calls)) = (part.breaker, part.in_flight) {
            p.small { "Breaker " span.state.(tone(breaker)) { (breaker) } ", " (calls) " in flight" }
        }
        @for replica in &part.replicas {
            p.small { code { (replica.server) } " " span.state.(tone(replica.breaker)) { (replica.breaker) } ", " (replica.in_flight) " in flight" }
        }
    };
    line(name, &part.part, &more)
}

fn line(name: &str, part: &Part, more: &Markup) -> Markup {
    html! {
        li {
            p.line {
                strong { (name) }
                span.state.(tone(part.state)) { (part.state) }
            }
            @if let Some(detail) = &part.detail { p.small { (detail) } }
            (more)
        }
    }
}
