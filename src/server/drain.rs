//! The two stages in which a server stops. Owns the order of the two tokens and nothing else: what a
//! connection or a call does when one of them fires is theirs.
//!
//! Invariant: `force` never fires before `graceful`.

use std::{future::Future, time::Duration};

use tokio_util::sync::CancellationToken;

/// Tells everything that serves when to stop. Clones share the same tokens.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// Stop accepting, finish the calls in flight, start none on an idle connection.
    pub graceful: CancellationToken,
    /// Calls still waiting answer now, streams end now.
    pub force: CancellationToken,
}

impl Drain {
    /// Begins to drain, and forces it after `grace` or as soon as `now` resolves.
    pub async fn run(&self, grace: Duration, now: impl Future<Output = ()>) {
        self.graceful.cancel();
        tokio::select! {
            () = tokio::time::sleep(grace) => {}
            () = now => {}
        }
        self.force.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_signal_forces_at_once() {
        let drain = Drain::default();
        drain.run(Duration::from_secs(3600), async {}).await;
        assert!(drain.graceful.is_cancelled());
        assert!(drain.force.is_cancelled());
    }

    #[tokio::test]
    async fn force_waits_for_the_grace() {
        let drain = Drain::default();
        let run = drain.run(Duration::from_secs(3600), std::future::pending());
        tokio::pin!(run);
        assert!(futures_poll(run.as_mut()).await.is_none());
        assert!(drain.graceful.is_cancelled());
        assert!(!drain.force.is_cancelled());
    }

    async fn futures_poll<F: Future>(mut f: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match f.as_mut().poll(cx) {
                std::task::Poll::Ready(v) => Some(v),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
