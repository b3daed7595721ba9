//! What is known of an upstream, in the storage, so that a restart lists at once. Owns its form there. Invariant: what
//! is read back belongs to the same server: name and origin are both the key.

use std::{sync::Arc, time::Duration};

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Found,
    offers::{About, Definition, Kind, List, Offers},
};
use crate::{
    mcp::json as slices,
    store::{self, Store},
};

/// Largest record, in bytes: more than that is not worth the write.
const LARGEST: usize = 32 * 1024 * 1024;

/// Where the knowledge of one upstream is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) store: Store,
    /// What stands behind the name: knowledge of another server is not taken over.
    pub(super) origin: Arc<str>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// Era and revision; absent in records of earlier versions.
    found: Option<Found>,
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
    /// What was kept. A record that cannot be read is none.
    pub(super) async fn load(&self, name: &Arc<str>) -> Option<(Offers, Option<Found>)> {
        let (name, origin) = (Arc::clone(name), Arc::clone(&self.origin));
        let read = self.store.read(move |c| {
            let sql = "SELECT offers FROM catalog WHERE upstream = ?1 AND origin = ?2";
            let text: Option<String> =
                c.query_row(sql, params![&*name, &*origin], |row| row.get(0)).optional()?;
            Ok(text.and_then(|text| serde_json::from_str::<Record>(&text).ok()).map(Record::read))
        });
        read.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what was known of an upstream cannot be read");
            None
        })
    }

    /// Keeps `offers`, and does not wait for it.
    pub(super) fn save(&self, name: &Arc<str>, offers: Arc<Offers>, found: Option<Arc<Found>>) {
        let (name, origin) = (Arc::clone(name), Arc::clone(&self.origin));
        self.store.write_later(move |c| {
            let Ok(text) = serde_json::to_string(&Record::of(&offers, found.as_deref())) else {
                return Ok(());
            };
            if text.len() > LARGEST {
                return Ok(());
            }
            let sql = "INSERT INTO catalog (upstream, origin, offers, saved) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (upstream) DO UPDATE SET origin = ?2, offers = ?3, saved = ?4";
            c.execute(sql, params![&*name, &*origin, text, store::now()]).map(|_| ())
        });
    }
}

impl Record {
    fn of(offers: &Offers, found: Option<&Found>) -> Self {
        let list = |kind: Kind| {
            let list = offers.list(kind);
            let raw = |d: &Definition| RawValue::from_string(d.raw.to_string()).ok();
            KeptList {
                items: list.items.iter().filter_map(raw).collect(),
                ttl_ms: list.ttl.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
                public: list.public,
            }
        };
        Self { found: found.cloned(), about: About::clone(&offers.about), lists: Kind::ALL.map(list) }
    }

    fn read(self) -> (Offers, Option<Found>) {
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
        (offers, self.found)
    }
}
