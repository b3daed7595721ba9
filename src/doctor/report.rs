//! Findings as people and as programs read them. Owns the wording.

use std::fmt;

use serde_json::{Value, json};

use super::{Findings, Reached, Shape, Verdict};
use crate::mcp::{era::MODERN, version::KNOWN};

/// Findings about the server at a URL.
#[derive(Debug)]
pub struct Report {
    /// The URL as it was given.
    pub url: String,
    /// What was found.
    pub findings: Findings,
}

impl Report {
    /// As one JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        let f = &self.findings;
        let millis = |d: std::time::Duration| (d.as_secs_f64() * 1e5).round() / 1e2;
        json!({
            "url": self.url,
            "usable": f.is_usable(),
            "failure": f.failure,
            "server": f.server,
            "versions": f.versions,
            "capabilities": f.capabilities,
            "transports": {
                "streamable_http": f.streamable.map(reached),
                "get_stream": f.get_stream,
                "http_sse": f.http_sse,
            },
            "sessions": f.sessions,
            "tools": f.tools,
            "unauthorized": f.unauthorized,
            "oauth": f.oauth,
            "latency_ms": f.latency.map(|(median, worst)| json!({
                "median": millis(median), "worst": millis(worst),
            })),
            "eras": eras(f),
            "called": f.called.as_ref().map(|(tool, plain)| json!({
                "tool": tool.name, "arguments": tool.arguments, "plain": plain.to_string(),
            })),
            "shapes": f.shapes.iter().map(shape_json).collect::<Vec<_>>(),
        })
    }
}

/// The eras that it speaks: all revisions before 2026-07-28 are the legacy one.
fn eras(f: &Findings) -> Vec<&'static str> {
    let modern = f.versions.iter().any(|v| v == MODERN);
    let legacy = f.versions.iter().any(|v| v != MODERN) || f.http_sse.is_some();
    [(modern, "modern"), (legacy, "legacy")].into_iter().filter_map(|(is, era)| is.then_some(era)).collect()
}

fn reached(how: Reached) -> &'static str {
    match how {
        Reached::Json => "json",
        Reached::EventStream => "event-stream",
    }
}

fn shape_json(shape: &Shape) -> Value {
    json!({
        "request": shape.name,
        "direct": shape.direct.to_string(),
        "rules": shape.rules,
        "repaired": shape.repaired.as_ref().map(ToString::to_string),
    })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Refused(how) => write!(f, "refused ({how})"),
            Self::Untried(why) => write!(f, "not tried: {why}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &self.findings;
        let mut row = |name: &str, value: &str| writeln!(out, "{name:<14} {value}");
        row("server", &format!("{} at {}", f.server.as_deref().unwrap_or("unknown"), self.url))?;
        if let Some(failure) = &f.failure {
            row("trouble", failure)?;
        }
        let speaks = |v: &str| if f.versions.iter().any(|known| known == v) { "yes" } else { "no" };
        let versions: Vec<_> = KNOWN.iter().map(|v| format!("{v} {}", speaks(v))).collect();
        row("revisions", &versions.join(", "))?;
        row("eras", &if f.is_usable() { eras(f).join(", ") } else { "none".to_owned() })?;
        row("transports", &transports(f))?;
        if f.is_usable() {
            row("sessions", if f.sessions { "yes" } else { "no" })?;
            row("tools", &f.tools.map_or_else(|| "not listed".into(), |n| n.to_string()))?;
            row("capabilities", &capabilities(&f.capabilities))?;
        }
        row("OAuth", &if f.oauth.is_empty() { "no metadata".to_owned() } else { f.oauth.join(", ") })?;
        if let Some((median, worst)) = f.latency {
            let millis = |d: std::time::Duration| format!("{:.1} ms", d.as_secs_f64() * 1e3);
            row("latency", &format!("median {}, worst {}", millis(median), millis(worst)))?;
        }
        if let Some((tool, plain)) = &f.called {
            row("called", &format!("{} {}: {plain}", tool.name, tool.arguments))?;
        }
        if !f.shapes.is_empty() {
            table(out, &f.shapes)?;
            let refused = f.shapes.iter().filter(|s| matches!(s.direct, Verdict::Refused(_))).count();
            writeln!(
                out,
                "\n{refused} odd requests refused by the server; {} of them work through the gateway",
                f.helped()
            )?;
        }
        Ok(())
    }
}

fn transports(f: &Findings) -> String {
    let mut text = match f.streamable {
        Some(Reached::Json) => "streamable HTTP (answers as JSON)".to_owned(),
        Some(Reached::EventStream) => "streamable HTTP (answers as event streams)".to_owned(),
        None => "no streamable HTTP".to_owned(),
    };
    match f.get_stream {
        Some(true) => text.push_str(", GET stream"),
        Some(false) => text.push_str(", no GET stream"),
        None => {}
    }
    if let Some(endpoint) = &f.http_sse {
        text.push_str(", HTTP+SSE (2024-11-05) with messages to ");
        text.push_str(endpoint);
    }
    text
}

fn capabilities(value: &Value) -> String {
    let names: Vec<_> = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn table(out: &mut fmt::Formatter<'_>, shapes: &[Shape]) -> fmt::Result {
    let direct: Vec<_> = shapes.iter().map(|s| s.direct.to_string()).collect();
    let wide = direct.iter().map(String::len).max().unwrap_or_default();
    writeln!(out, "\n{:<26} {:<wide$}  through the gateway", "odd request", "direct")?;
    for (shape, direct) in shapes.iter().zip(&direct) {
        let through = match (&shape.direct, &shape.repaired) {
            (Verdict::Untried(_), _) => String::new(),
            (_, Some(verdict)) => format!("{verdict}: {}", shape.rules.join(", ")),
            (_, None) => "as it came".to_owned(),
        };
        let line = format!("{:<26} {direct:<wide$}  {through}", shape.name);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
