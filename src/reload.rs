//! Reloads the configuration file while calls go on: bytes changed, or SIGHUP -> load, check, build, swap;
//! or say why not and keep the old one.
//!
//! Bytes are compared, not inodes or times: Kubernetes swaps a symlink two levels up. Files of secrets that
//! the configuration names count too.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::{
    config::{self, CliOverrides, Config, Loaded},
    proxy::Gateway,
    signal,
    snapshot::Snapshot,
};

/// How often the bytes are compared: with the load itself a revoked key lives for less than two seconds.
const PERIOD: Duration = Duration::from_secs(1);

/// What `/readyz` tells of the configuration: `None` while the file is the one in force.
pub type Trouble = Arc<Mutex<Option<String>>>;

/// Watches one configuration file.
#[derive(Debug)]
pub struct Reloader {
    gateway: Arc<Gateway>,
    path: PathBuf,
    overrides: CliOverrides,
    files: Vec<PathBuf>,
    seen: [u8; 32],
    trouble: Trouble,
}

impl Reloader {
    /// `loaded` is what the file gave at the start.
    #[must_use]
    pub fn new(
        gateway: Arc<Gateway>,
        path: PathBuf,
        overrides: CliOverrides,
        loaded: &Loaded,
        trouble: Trouble,
    ) -> Self {
        let files = paths(loaded);
        Self { seen: fingerprint(&files), gateway, path, overrides, files, trouble }
    }

    /// Looks once a second and at every signal, for ever.
    pub async fn run(mut self, mut asked: signal::Reload) {
        loop {
            let by_signal = tokio::select! {
                () = tokio::time::sleep(PERIOD) => false,
                () = asked.next() => true,
            };
            // Between the two steps of a swap there may be no file for a moment: look again then.
            if !by_signal && !self.path.exists() {
                continue;
            }
            let now = fingerprint(&self.files);
            if by_signal || now != self.seen {
                self.seen = now;
                self.apply();
            }
        }
    }

    fn apply(&mut self) {
        let before = self.gateway.snapshot.load_full();
        match self.build(&before) {
            Ok((after, files)) => {
                self.gateway.desk.recorder.reconfigure(&after.config.audit);
                before.retire(Some(&after));
                self.gateway.snapshot.store(Arc::new(after));
                self.seen = fingerprint(&files);
                self.files = files;
                self.report(None);
                tracing::info!(file = %self.path.display(), "configuration reloaded");
            }
            Err(why) => {
                tracing::error!(problems = why, "configuration not reloaded; the one in force stays");
                self.report(Some(why));
            }
        }
    }

    fn build(&self, before: &Snapshot) -> Result<(Snapshot, Vec<PathBuf>), String> {
        let loaded = config::load_with(&self.path, &self.overrides).map_err(|p| p.to_string())?;
        loaded.warnings.iter().for_each(|w| tracing::warn!("{w}"));
        let files = paths(&loaded);
        warn_of_startup_fields(&before.config, &loaded.config);
        let config = with_startup_fields(&before.config, loaded.config);
        Ok((Snapshot::build(config, Some(before))?, files))
    }

    fn report(&self, trouble: Option<String>) {
        self.gateway.metrics.reloaded(trouble.is_none());
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

fn paths(loaded: &Loaded) -> Vec<PathBuf> {
    loaded.sources.iter().map(|s| s.path.clone()).collect()
}

fn fingerprint<P: AsRef<Path>>(files: &[P]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for file in files {
        // A file that is gone differs from an empty one.
        let bytes = std::fs::read(file).ok();
        hash.update([u8::from(bytes.is_some())]);
        hash.update(Sha256::digest(bytes.unwrap_or_default()));
    }
    hash.finalize().into()
}

/// Listeners, TLS files, the journal and the exporter are opened once; the rest of a new file is taken.
fn with_startup_fields(before: &Config, mut after: Config) -> Config {
    after.server.listen = before.server.listen;
    after.server.tls.clone_from(&before.server.tls);
    after.server.header_timeout = before.server.header_timeout;
    after.admin.clone_from(&before.admin);
    after.audit.journal.clone_from(&before.audit.journal);
    after.telemetry.clone_from(&before.telemetry);
    after
}

fn warn_of_startup_fields(before: &Config, after: &Config) {
    let fields = [
        ("server.listen", before.server.listen != after.server.listen),
        ("server.tls", before.server.tls != after.server.tls),
        ("server.header_timeout", before.server.header_timeout != after.server.header_timeout),
        ("admin", before.admin != after.admin),
        ("audit.journal", before.audit.journal != after.audit.journal),
        ("telemetry", before.telemetry != after.telemetry),
    ];
    for (field, _) in fields.iter().filter(|(_, changed)| *changed) {
        tracing::warn!(field, "this setting takes effect at the next start");
    }
}
