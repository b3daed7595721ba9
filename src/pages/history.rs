//! Calls that the window no longer has, out of the journal. Invariant: one look at a time, on a thread of its own; whoever
//! comes meanwhile is told to come again, so that no number of readers takes the processors from the calls.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use tokio::{sync::Semaphore, task::spawn_blocking};

use super::call::Call;
use crate::audit::query::{Filter, Journals, Order};

/// See the module.
#[derive(Debug)]
pub(super) struct History {
    journal: PathBuf,
    turn: Arc<Semaphore>,
}

/// Somebody else is looking.
pub(super) struct Busy;

impl History {
    pub(super) fn new(journal: PathBuf) -> Self {
        Self { journal, turn: Arc::new(Semaphore::new(1)) }
    }

    /// The call with this number, if the journal has it.
    pub(super) async fn find(&self, boot: &str, seq: u64) -> Result<Option<Arc<Call>>, Busy> {
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| Busy)?;
        let (journal, boot) = (self.journal.clone(), boot.to_owned());
        let found = spawn_blocking(move || {
            let _turn = turn;
            look(journal, boot, seq)
        });
        Ok(found.await.ok().flatten())
    }
}

fn look(journal: PathBuf, boot: String, seq: u64) -> Option<Arc<Call>> {
    // Reading a pipe would take from it what is meant for somebody else.
    if !std::fs::metadata(&journal).is_ok_and(|about| about.is_file()) {
        return None;
    }
    let filter = Filter { boot: Some(boot), seq: Some((seq, seq)), ..Filter::default() };
    let mut found = None;
    let asked = Journals::open(&[journal]).and_then(|journals| {
        journals.find(&filter, Order::NewestFirst, Some(1), |row| {
            found = Call::read(&Arc::from(row.line), 0);
            ControlFlow::Break(())
        })
    });
    if let Err(error) = asked {
        tracing::warn!(%error, "the journal cannot be read for the pages");
    }
    found.map(Arc::new)
}
