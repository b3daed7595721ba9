//! The process group of a child: the program, and all that it has started and that did not leave the group.
//!
//! Invariant: while there is a [`Group`] its processes are known to the warden, and none outlives it. Its number is
//! forgotten as soon as it has ended: it may be another's then.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::{
    process,
    time::{sleep, timeout},
};

use super::warden;

/// Between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How often a group is looked at while it ends.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A process group, by its leader. Dropping it kills it, unless it was ended before.
#[derive(Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    /// The group that `leader` leads.
    pub(super) fn of(leader: Pid) -> Self {
        warden::knows(leader);
        Self(Some(leader))
    }

    /// Kills what a leader that is gone has left behind.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// Asks it to end, and kills it if it does not in time.
    pub(super) async fn end(mut self, leader: &mut process::Child) {
        let Some(id) = self.0 else { return };
        send(id, Signal::TERM);
        let tidy = async {
            drop(leader.wait().await);
            while is_there(id) {
                sleep(LOOK).await;
            }
        };
        if timeout(GRACE, tidy).await.is_err() {
            send(id, Signal::KILL);
            drop(leader.wait().await);
        }
        self.0 = None;
        warden::forgets(id);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.take() {
            send(id, Signal::KILL);
            warden::forgets(id);
        }
    }
}

/// That the group is empty is no failure: it is what is wanted.
pub(super) fn send(group: Pid, signal: Signal) {
    if let Err(e) = kill_process_group(group, signal) {
        tracing::trace!("no signal sent: {e}");
    }
}

/// Whether the group has a process.
pub(super) fn is_there(group: Pid) -> bool {
    test_kill_process_group(group).is_ok()
}
