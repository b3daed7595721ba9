//! What is known of an upstream, in a file of its own, so that a restart lists at once and speaks as the upstream does.
//! Owns the file's form: a line with what is needed before the first call, and a line with the rest.
//!
//! Invariants: what is read back belongs to the same server; whether the file can be read or written makes no
//! difference to anything else.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Found,
    offers::{About, Definition, Kind, List, Offers},
};
use crate::{mcp::json as slices, store};

/// Largest file, in bytes: more than that is not worth the write.
const LARGEST: u64 = 32 * 1024 * 1024;
/// Longest first line.
const LONGEST_HEAD: u64 = 4 * 1024;

/// Where the knowledge of one upstream is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    file: PathBuf,
    /// What stands behind the name: knowledge of another server is not taken over.
    origin: Box<str>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    origin: Box<str>,
    found: Option<Found>,
}

/// The second line.
#[derive(Serialize, Deserialize)]
struct Record {
    about: About,
    lists: [KeptList; 4],
}

#[derive(Serialize, Deserialize)]
struct KeptList {
    items: Vec<Box<RawValue>>,
    ttl_ms: Option<u64>,
    public: bool,
}

impl Kept {
    pub(super) fn new(folder: &Path, name: &str, origin: &str) -> Self {
        Self { file: folder.join(format!("{name}.json")), origin: origin.into() }
    }

    /// Era and revision, if they were kept. Reads no more than that.
    pub(super) fn found(&self) -> Option<Found> {
        let mut line = Vec::new();
        let head = File::open(&self.file).ok()?.take(LONGEST_HEAD);
        BufReader::new(head).read_until(b'\n', &mut line).ok()?;
        self.head(&line)?.found
    }

    /// All that was kept. What cannot be read is nothing.
    pub(super) async fn load(&self) -> Option<(Offers, Option<Found>)> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read()).await.ok()?
    }

    /// Keeps this; whoever waits for it keeps the order of what is kept.
    pub(super) async fn save(&self, offers: Arc<Offers>, found: Option<Arc<Found>>) {
        let this = self.clone();
        let written = tokio::task::spawn_blocking(move || this.write(&offers, found.as_deref())).await;
        if let Ok(Err(error)) = written {
            tracing::info!(
                file = %self.file.display(),
                %error,
                "what is known of an upstream does not outlive a restart: it cannot be written, see `storage.path`"
            );
        }
    }

    fn read(&self) -> Option<(Offers, Option<Found>)> {
        let mut bytes = Vec::new();
        File::open(&self.file).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let (head, rest) = bytes.split_at(memchr::memchr(b'\n', &bytes)?);
        let found = self.head(head)?.found;
        Some((serde_json::from_slice::<Record>(rest).ok()?.read(), found))
    }

    fn head(&self, line: &[u8]) -> Option<Head> {
        serde_json::from_slice::<Head>(line).ok().filter(|head| head.origin == self.origin)
    }

    /// Whole or not at all.
    fn write(&self, offers: &Offers, found: Option<&Found>) -> io::Result<()> {
        let head = Head { origin: self.origin.clone(), found: found.cloned() };
        let mut text = serde_json::to_vec(&head)?;
        text.push(b'\n');
        serde_json::to_writer(&mut text, &Record::of(offers))?;
        if text.len() as u64 > LARGEST {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            store::private_folder(folder)?;
        }
        // Another gateway of the same user may write the same file.
        // Another gateway may write the same file, also one in another container.
        let random = getrandom::u64().map_err(|_| io::ErrorKind::Other)?;
        let beside = self.file.with_extension(format!("{random:016x}.new"));
        let written = private().open(&beside).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&beside, &self.file)).inspect_err(|_| drop(fs::remove_file(&beside)))
    }
}

/// What servers offer is nobody else's business.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Record {
    fn of(offers: &Offers) -> Self {
        let list = |kind: Kind| {
            let list = offers.list(kind);
            let raw = |d: &Definition| RawValue::from_string(d.raw.to_string()).ok();
            KeptList {
                items: list.items.iter().filter_map(raw).collect(),
                ttl_ms: list.ttl.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
                public: list.public,
            }
        };
        Self { about: About::clone(&offers.about), lists: Kind::ALL.map(list) }
    }

    fn read(self) -> Offers {
        let mut offers = Offers { about: Arc::new(self.about), ..Offers::default() };
        for (kind, kept) in Kind::ALL.into_iter().zip(self.lists) {
            let definition = |raw: Box<RawValue>| {
                let key = slices::parse(raw.get().as_bytes()).ok()?.get(kind.key())?.as_exact_str()?.into();
                Some(Definition { key, raw: raw.get().into() })
            };
            offers.lists[kind as usize] = Arc::new(List {
                items: kept.items.into_iter().filter_map(definition).collect(),
                ttl: kept.ttl_ms.map(Duration::from_millis),
                public: kept.public,
            });
        }
        offers
    }
}
