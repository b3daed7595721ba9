//! Every text in a record that comes from outside. Owns that list, and nothing of what is done with the texts.
//! Invariant: a text that is added to a record and may hold what somebody sent is in it.

use std::sync::Arc;

use super::record::Record;

impl Record {
    /// Shows each text from outside to `change`, and takes what it makes of it.
    pub fn each_text(&mut self, change: impl Fn(&str) -> Option<String>) {
        let texts = [
            &mut self.protocol_version,
            &mut self.upstream_version,
            &mut self.method,
            &mut self.tool,
            &mut self.prompt,
            &mut self.resource,
            &mut self.original_method,
        ];
        let errors = self.attempts.iter_mut().map(|attempt| &mut attempt.error_type);
        for text in texts.into_iter().chain(errors).flatten() {
            replace(text, &change);
        }
        // JSON text, in which a secret may be written with escapes.
        if let Some(id) = &mut self.request_id {
            let inner = serde_json::from_str::<String>(id).ok();
            match inner.as_deref().map(&change) {
                Some(Some(changed)) => *id = serde_json::Value::from(changed).to_string(),
                Some(None) => {}
                None => replace(id, &change),
            }
        }
        for edit in &mut self.edits {
            replace(&mut edit.path, &change);
        }
        if let Some(failure) = &mut self.error {
            replace(&mut failure.message, &change);
        }
        for text in [&mut self.client.name, &mut self.client.version].into_iter().flatten() {
            if let Some(changed) = change(text) {
                *text = Arc::from(changed);
            }
        }
        // What is left of a changed one would be none.
        if self.trace_state.as_deref().is_some_and(|state| change(state).is_some()) {
            self.trace_state = None;
        }
    }
}

fn replace(text: &mut String, change: &impl Fn(&str) -> Option<String>) {
    if let Some(changed) = change(text) {
        *text = changed;
    }
}
