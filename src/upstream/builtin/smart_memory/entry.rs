//! One entry as it is kept, and as results show it.

use jiff::Timestamp;
use rusqlite::Row;
use serde_json::{Map, Value};

/// What [`Entry::read`] reads.
pub(super) const COLUMNS: &str = "entry, id, key, content, tags, source, version, created, updated, expires";

/// An entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) entry: i64,
    pub(super) id: String,
    pub(super) key: Option<String>,
    pub(super) content: String,
    pub(super) tags: Vec<String>,
    pub(super) source: Option<String>,
    pub(super) version: i64,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) expires: Option<i64>,
}

impl Entry {
    /// Reads a row of [`COLUMNS`].
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let tags: String = row.get(4)?;
        Ok(Self {
            entry: row.get(0)?,
            id: row.get(1)?,
            key: row.get(2)?,
            content: row.get(3)?,
            tags: tags.split_whitespace().map(str::to_owned).collect(),
            source: row.get(5)?,
            version: row.get(6)?,
            created: row.get(7)?,
            updated: row.get(8)?,
            expires: row.get(9)?,
        })
    }

    /// With `content` in the place of its own; `whole` says whether that is all of it.
    pub(super) fn shown(&self, content: &str, whole: bool) -> Map<String, Value> {
        let mut item = self.name();
        item.insert("content".into(), content.into());
        item.insert("tags".into(), self.tags.clone().into());
        if let Some(source) = &self.source {
            item.insert("source".into(), source.as_str().into());
        }
        item.insert("version".into(), self.version.into());
        item.insert("created_at".into(), time(self.created));
        item.insert("updated_at".into(), time(self.updated));
        if let Some(expires) = self.expires {
            item.insert("expires_at".into(), time(expires));
        }
        if !whole {
            item.insert("truncated".into(), true.into());
        }
        item
    }

    /// Only what it is called.
    pub(super) fn name(&self) -> Map<String, Value> {
        let mut item = Map::new();
        item.insert("id".into(), self.id.as_str().into());
        if let Some(key) = &self.key {
            item.insert("key".into(), key.as_str().into());
        }
        item
    }
}

/// Tags as the column has them.
pub(super) fn column(tags: &[String]) -> String {
    format!(" {} ", tags.join(" "))
}

fn time(millis: i64) -> Value {
    Timestamp::from_millisecond(millis).map_or(Value::Null, |time| time.to_string().into())
}
