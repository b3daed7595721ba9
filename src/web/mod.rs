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

pub use error::FetchError;
pub use extract::{Document, Extract, Extracted, Format};
pub use fetcher::Fetcher;
pub use page::{CacheUse, Options, Page};
#[cfg(test)]
pub(crate) use resolve::Table;
