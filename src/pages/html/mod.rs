//! What pages look like. Owns markup alone: every text from outside goes through `maud`, which escapes it.

pub(super) mod activity;
mod budgets;
pub(super) mod call;
pub(super) mod connect;
mod diff;
mod health;
pub(super) mod login;
mod plot;
mod tables;

use maud::{DOCTYPE, Markup, html};

use super::door::Pass;

/// Pages of the navigation.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Here {
    Activity,
    Connect,
    Login,
}

/// A whole page around its content. `pass` is `None` for who is not in.
pub(super) fn layout(title: &str, here: Here, pass: Option<Pass>, content: &Markup) -> Markup {
    let link = |place: &str, name: &str, is: Here| {
        html! { a href=(place) aria-current=[(here == is).then_some("page")] { (name) } }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · SmartGate" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/pages.css";
                script src="/assets/pages.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    span.brand { "SmartGate" }
                    @if pass.is_some() {
                        nav aria-label="Pages" {
                            (link("/activity", "Activity", Here::Activity))
                            (link("/connect", "Connect", Here::Connect))
                        }
                    }
                    @if matches!(pass, Some(Pass::Login(_))) {
                        form method="post" action="/logout" { button.quiet { "Log out" } }
                    }
                }
                main #main tabindex="-1" { (content) }
                footer { "Version " (env!("CARGO_PKG_VERSION")) " · times are UTC" }
            }
        }
    }
}

/// How a call ended, as a word with a colour.
pub(super) fn outcome(name: &str) -> Markup {
    html! { span.state.(tone(name)) { (name) } }
}

/// Which colour a state has: good, doubtful or bad.
pub(in crate::pages) fn tone(state: &str) -> &'static str {
    match state {
        "ok" | "closed" | "serving" => "good",
        "panicked" | "upstream_failed" | "rpc_error" | "unreachable" | "failing" | "open" => "bad",
        "off" => "plain",
        _ => "fair",
    }
}

/// Digits in groups of three.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_threes() {
        assert_eq!(number(7), "7");
        assert_eq!(number(2_000_000).replace('\u{202f}', " "), "2 000 000");
        assert_eq!(number(123_456).replace('\u{202f}', " "), "123 456");
    }
}
