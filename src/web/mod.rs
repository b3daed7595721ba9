//! Reads the web: one page, checked, within limits, as Markdown or text. Knows nothing of tools.
//!
//! Invariants: no connection is made to an address that was not checked; nothing that a server sends makes the
//! process stop, hang or hold more than its limits.

mod address;
mod cache;
mod charset;
mod client;
pub mod cut;
mod decode;
mod error;
mod extract;
mod fetcher;
mod pace;
mod page;
mod resolve;
mod robots;
mod target;

#[cfg(test)]
pub(crate) mod tests;

use ::url::Url;

use extract::{Extractor, Wanted};

pub use error::FetchError;
pub use extract::{Document, Extract, Extracted, Format};
pub use fetcher::Fetcher;
pub use page::{CacheUse, Options, Page};
#[cfg(test)]
pub(crate) use resolve::Table;

/// Reads a document that is already here, within the limits that hold for a stranger's. `content_type` as in HTTP.
///
/// # Errors
/// It cannot be read, or says nothing.
pub async fn read(body: Vec<u8>, content_type: &str, url: Url) -> Result<Document, FetchError> {
    let wanted = Wanted { links: true, ..Wanted::default() };
    Extractor::new().document(body, content_type, url, wanted).await
}
