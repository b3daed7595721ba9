//! The form that asks for the admin key.

use maud::{Markup, html};

use super::{Here, layout};

/// `next` is a place of ours; `why` says why the last try failed.
pub(in crate::pages) fn page(next: &str, why: Option<&str>) -> Markup {
    let content = html! {
        section.card.login aria-labelledby="login" {
            h1 #login { "Log in" }
            form method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="key" { "Admin key" }
                input #key type="password" name="key" required autocomplete="current-password"
                    aria-describedby=[why.map(|_| "why")] aria-invalid=[why.map(|_| "true")];
                @if let Some(why) = why {
                    p.error #why role="alert" { (why) }
                }
                button.main { "Log in" }
            }
            p.hint { "The key is what " code { "admin.key" } " in the configuration names." }
        }
    };
    layout("Log in", Here::Login, None, &content)
}
