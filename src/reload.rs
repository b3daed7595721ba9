//! Reloads the configuration file while calls go on: bytes changed, or SIGHUP -> load, check, build, swap;
//! or say why not and keep the old one.
//!
//! Bytes are compared, not inodes or times: Kubernetes swaps a symlink two levels up. Files of secrets that
//! the configuration names count too.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::task::block_in_place;

use crate::{
    app::File,
    config::{self, AuthMode, Config, Loaded, Source},
    proxy::Gateway,
    signal,
    snapshot::Snapshot,
    systemd,
};

/// How often the bytes are compared: with the load itself a revoked key lives for less than two seconds.
const PERIOD: Duration = Duration::from_secs(1);

/// How long bytes must stay the same to be loaded: longer than it takes to write a file.
const SETTLE: Duration = Duration::from_millis(100);

/// What `/readyz` tells of the configuration: `None` while the file is the one in force.
pub type Trouble = Arc<Mutex<Option<String>>>;

/// Watches one configuration file.
#[derive(Debug)]
pub struct Reloader {
    gateway: Arc<Gateway>,
    file: File,
    /// The bytes that the configuration in force was made of.
    sources: Vec<Source>,
    /// What was last tried in vain, so that a broken file is reported once.
    tried: Option<[u8; 32]>,
    trouble: Trouble,
}

impl Reloader {
    /// `loaded` is what the file gave at the start.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>, file: File, loaded: &Loaded, trouble: Trouble) -> Self {
        Self { gateway, file, sources: loaded.sources.clone(), tried: None, trouble }
    }

    /// Looks once a second and at every signal, for ever.
    pub async fn run(mut self, mut asked: signal::Reload) {
        loop {
            let by_signal = tokio::select! {
                () = tokio::time::sleep(PERIOD) => false,
                () = asked.next() => true,
            };
            // Between the two steps of a swap there may be no file for a moment: look again then.
            let new = by_signal || block_in_place(|| self.file.path.exists() && self.is_new());
            if by_signal || (new && self.stays().await) {
                // A large file takes a while; calls go on meanwhile.
                block_in_place(|| self.apply());
            }
        }
    }

    /// Whether the files differ from those in force and from those last tried.
    fn is_new(&mut self) -> bool {
        if !self.sources.iter().any(Source::changed) {
            self.tried = None;
            self.settle();
            return false;
        }
        let now = fingerprint(&self.sources);
        self.tried.replace(now) != Some(now)
    }

    /// Whether the bytes are the same a moment later: a file may be looked at while it is being written.
    async fn stays(&mut self) -> bool {
        tokio::time::sleep(SETTLE).await;
        let same = self.tried == Some(fingerprint(&self.sources));
        if !same {
            self.tried = None;
        }
        same
    }

    /// A file that was broken is again the one in force.
    fn settle(&self) {
        if self.trouble().take().is_some() {
            tracing::info!(file = %self.file.path.display(), "the configuration file is the one in force again");
        }
    }

    fn apply(&mut self) {
        systemd::reloading();
        self.take();
        systemd::ready();
    }

    fn take(&mut self) {
        let before = self.gateway.snapshot.load_full();
        match self.build(&before) {
            Ok((after, sources)) => {
                self.gateway.desk.recorder.reconfigure(&after.config.audit);
                self.gateway.take_over(&before, &after);
                let after = Arc::new(after);
                self.gateway.snapshot.store(Arc::clone(&after));
                // Whoever comes again because something ends here finds the new one.
                before.retire(Some(&after));
                (self.sources, self.tried) = (sources, None);
                self.report(None);
                tracing::info!(file = %self.file.path.display(), "configuration reloaded");
            }
            Err(why) => {
                tracing::error!(problems = why, "configuration not reloaded; the one in force stays");
                self.report(Some(why));
            }
        }
    }

    fn build(&self, before: &Snapshot) -> Result<(Snapshot, Vec<Source>), String> {
        let loaded = config::load_with(&self.file.path, &self.file.overrides).map_err(|p| p.to_string())?;
        loaded.warnings.iter().for_each(|w| tracing::warn!("{w}"));
        warn_of_startup_fields(&before.config, &loaded.config);
        let config = with_startup_fields(&before.config, loaded.config);
        Ok((Snapshot::build(config, Some(before), &self.gateway.tasks)?, loaded.sources))
    }

    fn report(&self, trouble: Option<String>) {
        self.gateway.metrics.reloaded(trouble.is_none());
        *self.trouble() = trouble;
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fingerprint(sources: &[Source]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for source in sources {
        // A file that is gone differs from an empty one.
        let bytes = std::fs::read(&source.path).ok();
        hash.update([u8::from(bytes.is_some())]);
        hash.update(Sha256::digest(bytes.unwrap_or_default()));
    }
    hash.finalize().into()
}

/// Listeners, TLS files, the journal and the exporter are opened once; the rest of a new file is taken. Taking
/// the last key out must lock everybody out, and not let everybody in, as a start without keys would.
fn with_startup_fields(before: &Config, mut after: Config) -> Config {
    if loosens(before, &after) {
        after.auth = AuthMode::Keys;
    }
    after.server.listen = before.server.listen;
    after.server.tls.clone_from(&before.server.tls);
    after.server.header_timeout = before.server.header_timeout;
    after.admin.clone_from(&before.admin);
    after.audit.journal.clone_from(&before.audit.journal);
    after.audit.signing_key.clone_from(&before.audit.signing_key);
    after.audit.checkpoint = before.audit.checkpoint;
    after.telemetry.clone_from(&before.telemetry);
    after.storage.clone_from(&before.storage);
    after
}

fn warn_of_startup_fields(before: &Config, after: &Config) {
    let fields = [
        ("auth.mode", loosens(before, after)),
        ("server.listen", before.server.listen != after.server.listen),
        ("server.tls", before.server.tls != after.server.tls),
        ("server.header_timeout", before.server.header_timeout != after.server.header_timeout),
        ("admin", before.admin != after.admin),
        ("audit.journal", before.audit.journal != after.audit.journal),
        ("audit.signing_key", before.audit.signing_key != after.audit.signing_key),
        ("audit.checkpoint", before.audit.checkpoint != after.audit.checkpoint),
        ("telemetry", before.telemetry != after.telemetry),
        ("storage", before.storage != after.storage),
    ];
    for (field, _) in fields.iter().filter(|(_, changed)| *changed) {
        tracing::warn!(field, "this setting takes effect at the next start");
    }
}

fn loosens(before: &Config, after: &Config) -> bool {
    before.auth == AuthMode::Keys && after.auth == AuthMode::None
}
