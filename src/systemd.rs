//! What systemd is told, where it is the parent (`Type=notify`): ready, reloading, stopping. Elsewhere nothing happens.
//!
//! Source: sd_notify(3). Invariant: a message that cannot be sent never fails the program.

use sd_notify::NotifyState;

/// The listeners are open and calls are taken.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The configuration is being read again; [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic clock"),
    }
}

/// No more calls are taken.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told of the state");
    }
}
