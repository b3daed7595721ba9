//! What a child says beside the protocol, as log lines: its standard error, and lines of its output that are no
//! messages. Owns how much of it is logged. Invariant: no value of the configured environment is in a line.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use crate::config::{self, Secret};

/// Lines that may come at once, and then in every [`WINDOW`].
const LINES: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);
/// Shorter values of environment variables stand in too many words to be secrets.
const SHORTEST_SECRET: usize = 6;
/// Bytes shown of a line.
const SHOWN: usize = 1024;

/// The log of one child.
#[derive(Debug)]
pub(super) struct Noise {
    upstream: Arc<str>,
    secrets: Vec<Secret>,
    since: Instant,
    lines: u32,
}

impl Noise {
    pub(super) fn new(upstream: Arc<str>, command: &config::Command) -> Self {
        let long = |s: &&Secret| s.expose().len() >= SHORTEST_SECRET;
        let secrets = command.env.values().filter(long).cloned().collect();
        Self { upstream, secrets, since: Instant::now(), lines: 0 }
    }

    /// Logs a line of standard error, or leaves it out where there are too many.
    pub(super) fn log(&mut self, line: &[u8]) {
        if let Some(text) = self.take(line) {
            tracing::info!(upstream = &*self.upstream, "stderr: {text}");
        }
    }

    /// Logs a line of standard output that is no message.
    pub(super) fn stray(&mut self, line: &[u8]) {
        if let Some(text) = self.take(line) {
            tracing::warn!(
                upstream = &*self.upstream,
                "not a JSON-RPC message on its standard output: {text}"
            );
        }
    }

    fn take(&mut self, line: &[u8]) -> Option<String> {
        if self.since.elapsed() >= WINDOW {
            let left_out = self.lines.saturating_sub(LINES);
            if left_out > 0 {
                tracing::info!(
                    upstream = &*self.upstream,
                    left_out,
                    "the command says too much to log it all"
                );
            }
            (self.since, self.lines) = (Instant::now(), 0);
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= LINES).then(|| self.clean(line))
    }

    fn clean(&self, line: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(line).into_owned();
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "***");
            }
        }
        text.truncate(text.floor_char_boundary(SHOWN));
        text.replace(char::is_control, " ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn noise() -> Noise {
        let env = BTreeMap::from([("KEY".to_owned(), Secret::new("hunter22"))]);
        let command = config::Command {
            program: "x".into(),
            arguments: Vec::new(),
            env,
            cwd: None,
            at_once: false,
            idle_stop: None,
            shared: false,
        };
        Noise::new("files".into(), &command)
    }

    #[test]
    fn a_line_shows_neither_secrets_nor_control_characters() {
        assert_eq!(noise().take(b"key=hunter22\x1b[31m \xff").unwrap(), "key=*** [31m \u{fffd}");
        assert_eq!(noise().take(&[b'x'; 9999]).unwrap().len(), SHOWN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut() {
        let mut noise = noise();
        let logged = (0..10_000).filter(|_| noise.take(b"x").is_some()).count();
        assert_eq!(logged, 100);
        tokio::time::advance(WINDOW).await;
        assert!(noise.take(b"x").is_some());
    }
}
