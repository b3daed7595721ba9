//! `[audit]`: journal and capture.

use std::collections::BTreeMap;

use super::{Checker, word};
use crate::config::{
    Audit, Capture, Globs, Journal, Secret,
    file::{self, CAPTURE, CHECKPOINT, FSYNC, JOURNAL, KEEP, ON_ERROR, REDACT, ROTATE},
    text::{self, At, SecretText},
};

/// Smallest segment: below it, segments would hold a handful of records.
const MIN_ROTATE: u64 = 4 * 1024;

impl Checker<'_> {
    pub(super) fn audit(&mut self, audit: file::Audit) -> Audit {
        Audit {
            journal: self.journal(audit.journal),
            capture: word(audit.capture.as_ref(), CAPTURE).into(),
            capture_tools: self.capture_tools(audit.capture_tools),
            redact: match audit.redact {
                Some(globs) => self.globs("audit.redact", Some(globs)),
                None => Globs::new(REDACT),
            },
            signing_key: audit.signing_key.and_then(|key| self.signing_key(&key)),
            checkpoint: self.value("audit.checkpoint", audit.checkpoint.as_ref(), CHECKPOINT, text::duration),
        }
    }

    fn signing_key(&mut self, written: &At<SecretText>) -> Option<Secret> {
        let key = self.secret(&written.value.0).and_then(|text| {
            crate::signing::check_signing_key(&text)?;
            Ok(Secret::new(&text))
        });
        key.map_err(|why| self.findings.problem(written.at, format!("`audit.signing_key`: {why}"))).ok()
    }

    fn capture_tools(&mut self, written: BTreeMap<String, At<file::Capture>>) -> Vec<(Globs, Capture)> {
        let mut tools: Vec<_> = written.into_iter().collect();
        tools.sort_by_key(|(_, capture)| capture.at);
        for (glob, capture) in tools.iter().filter(|(glob, _)| glob.is_empty() || glob.starts_with('!')) {
            let message = format!("`audit.capture_tools`: the glob \"{glob}\" matches nothing");
            self.findings.problem(capture.at, message);
        }
        tools.into_iter().map(|(glob, capture)| (Globs::new([glob]), capture.value.into())).collect()
    }

    fn journal(&mut self, journal: file::Journal) -> Journal {
        let of = |key: &str| format!("audit.journal.{key}");
        let path = self.value(&of("path"), journal.path.as_ref(), JOURNAL, |text| {
            if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
        });
        Journal {
            path: self.resolve(&path),
            fsync: self.value(&of("fsync"), journal.fsync.as_ref(), FSYNC, text::duration),
            rotate: self.value(&of("rotate"), journal.rotate.as_ref(), ROTATE, rotate),
            keep: journal.keep.map_or(KEEP, |k| k.value) as usize,
            keep_age: journal.keep_age.and_then(|a| self.parsed(&of("keep_age"), &a, text::age)),
            keep_bytes: journal.keep_bytes.and_then(|b| self.parsed(&of("keep_bytes"), &b, text::size)),
            deny_on_error: word(journal.on_error.as_ref(), ON_ERROR) == file::OnError::Deny,
        }
    }
}

impl From<file::Capture> for Capture {
    fn from(capture: file::Capture) -> Self {
        match capture {
            file::Capture::None => Self::None,
            file::Capture::Hash => Self::Hash,
            file::Capture::Redacted => Self::Redacted,
            file::Capture::Full => Self::Full,
        }
    }
}

fn rotate(text: &str) -> Result<u64, String> {
    match text::size(text)? {
        bytes if bytes < MIN_ROTATE => Err("must be at least 4KiB".into()),
        bytes => Ok(bytes),
    }
}
