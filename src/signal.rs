//! Signals of the operating system as futures. Owns their registration; what they cause is the caller's.
//!
//! Invariant: a signal that arrives after registration is never lost, even while nobody waits.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the program listens to, registered from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    /// Asks for the end.
    pub stop: Stop,
    /// Asks for the files to be read again.
    pub reload: Reload,
}

impl Signals {
    /// Registers SIGTERM, SIGINT and SIGHUP. Needs a running runtime.
    ///
    /// # Errors
    /// If the system refuses the registration.
    pub fn register() -> io::Result<Self> {
        Ok(Self {
            stop: Stop {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            reload: Reload(signal(SignalKind::hangup())?),
        })
    }
}

/// SIGTERM or SIGINT.
#[derive(Debug)]
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Resolves at the next of either. The first means drain, a second means now.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// SIGHUP.
#[derive(Debug)]
pub struct Reload(Signal);

impl Reload {
    /// Resolves at the next one; several that arrive meanwhile count as one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}
