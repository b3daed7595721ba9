//! How a page is asked for, and what is got.

use std::{sync::Arc, time::Duration};

use super::{Document, Extract, Format};

/// How a page is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// For whom: pages are kept for each owner apart.
    pub owner: Arc<str>,
    /// For all of it.
    pub timeout: Duration,
    /// The form of the text.
    pub format: Format,
    /// Which part of the page.
    pub extract: Extract,
    /// Whether links and pictures stay.
    pub links: bool,
    /// Whether the server is asked even if the page is kept and fresh.
    pub fresh: bool,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(owner: Arc<str>) -> Self {
        Self {
            owner,
            timeout: Duration::from_secs(30),
            format: Format::Markdown,
            extract: Extract::Auto,
            links: true,
            fresh: false,
        }
    }
}

/// Where a page came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheUse {
    /// It was kept and is fresh.
    Hit,
    /// Its server.
    Miss,
    /// It was kept, and its server says that it has not changed.
    Revalidated,
}

impl CacheUse {
    /// Its name in results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Revalidated => "revalidated",
        }
    }
}

/// A fetched page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The URL that was asked for, as it was understood.
    pub url: String,
    /// Where the redirects ended.
    pub final_url: String,
    /// HTTP status.
    pub status: u16,
    /// The header, as the server sent it.
    pub content_type: String,
    /// When its server sent it, in milliseconds since 1970.
    pub fetched_at: i64,
    /// Where it came from now.
    pub cache: CacheUse,
    /// What it says.
    pub document: Document,
}
