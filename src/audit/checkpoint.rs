//! When a checkpoint is due, and its one log line. Owns that timing; what a checkpoint says is the chain's. Invariant:
//! nothing is told of a checkpoint that is not on the disk.

use std::time::{Duration, Instant};

use super::chain::{Chain, Place, Reason};
use crate::{config, signing::Signer};

/// Lines after which a checkpoint is due, whatever the time.
const MOST_LINES: u64 = 100_000;

/// Makes the checkpoints of a boot.
#[derive(Debug)]
pub(super) struct Checkpoints {
    signer: Option<Signer>,
    every: Duration,
    /// Lines since the last one, and when the next is due; none is while there are no lines.
    lines: u64,
    due: Option<Instant>,
    /// Written or waiting to be, and not yet told.
    made: Vec<Published>,
}

impl Checkpoints {
    /// With an interval of zero there are none.
    ///
    /// # Errors
    /// The key is none.
    pub(super) fn of(audit: &config::Audit) -> Result<Self, String> {
        let signer = audit.signing_key.as_ref().map(|key| Signer::read(key.expose())).transpose()?;
        Ok(Self { signer, every: audit.checkpoint, lines: 0, due: None, made: Vec::new() })
    }

    /// A line was appended.
    pub(super) fn line(&mut self) {
        if self.every.is_zero() {
            return;
        }
        self.lines += 1;
        if self.due.is_none() {
            self.due = Instant::now().checked_add(self.every);
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self) -> bool {
        self.lines >= MOST_LINES || self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Appends one, unless nothing was added since the last. The one at the end is always there: it says that nothing
    /// comes after it.
    pub(super) fn make(&mut self, chain: &mut Chain, out: &mut Vec<u8>, reason: Reason) -> bool {
        if self.every.is_zero() || (self.lines == 0 && reason != Reason::Stop) {
            return false;
        }
        let place = chain.checkpoint(out, reason, self.signer.as_ref());
        let key = self.signer.as_ref().map(|s| s.id().to_owned());
        self.made.push(Published { boot: chain.boot().to_owned(), place, key });
        (self.lines, self.due) = (0, None);
        true
    }

    /// Those that are in the file now.
    pub(super) fn written(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.made)
    }
}

/// A checkpoint as others are to keep it.
#[derive(Debug)]
pub(super) struct Published {
    boot: String,
    place: Place,
    key: Option<String>,
}

impl Published {
    /// Logs it. A collector of logs then holds what the journal can be checked against.
    pub(super) fn tell(&self) {
        let Place { seq, hash } = self.place;
        let checkpoint = format!("{}:{seq}:{}", self.boot, String::from_utf8_lossy(&hash));
        match &self.key {
            Some(key) => tracing::info!(checkpoint, key, "audit checkpoint, signed"),
            None => tracing::info!(checkpoint, "audit checkpoint"),
        }
    }
}
