//! The arguments of `smart_fetch` and their bounds.

use std::{sync::Arc, time::Duration};

use super::{
    super::arguments::{Arguments, invalid},
    ToolError,
    cursor::Cursor,
};
use crate::web::{Extract, Format, Options};

/// In characters.
pub(super) const MAX_URL: usize = 2_048;
pub(super) const MAX_CURSOR: usize = 128;
pub(super) const MAX_PURPOSE: usize = 1_000;
/// In seconds.
pub(super) const TIMEOUT: (u32, u32, u32) = (1, 30, 60);
/// Least, default and most.
pub(super) const MAX_TOKENS: (u64, u64, u64) = (64, 4_000, 50_000);

/// One call.
pub(super) struct Call {
    pub(super) source: Source,
    pub(super) max_tokens: usize,
}

/// Where the text comes from.
pub(super) enum Source {
    Url { url: String, options: Options, purpose: Option<String> },
    Cursor(Cursor),
}

/// Reads them.
pub(super) fn read(mut arguments: Arguments, tenant: &Arc<str>) -> Result<Call, ToolError> {
    let url = arguments.text("url", 0..=MAX_URL)?;
    let cursor = arguments.text("cursor", 0..=MAX_CURSOR)?;
    // Clients of the source system ask for more; none waits longer than this for us.
    let timeout = arguments.number("timeout")?.unwrap_or_else(|| TIMEOUT.1.into());
    if timeout < f64::from(TIMEOUT.0) {
        return Err(invalid(format!("timeout must be at least {} s", TIMEOUT.0)));
    }
    let timeout = timeout.min(f64::from(TIMEOUT.2));
    let format = match arguments.choice("format", &["markdown", "text", "html"])? {
        "text" => Format::Text,
        "html" => Format::Html,
        _ => Format::Markdown,
    };
    let extract = match arguments.choice("extract", &["auto", "article", "full"])? {
        "article" => Extract::Article,
        "full" => Extract::Full,
        _ => Extract::Auto,
    };
    let max_tokens =
        arguments.whole("max_tokens", MAX_TOKENS.0..=MAX_TOKENS.2)?.unwrap_or(MAX_TOKENS.1) as usize;
    let purpose = arguments.text("purpose", 0..=MAX_PURPOSE)?.filter(|purpose| !purpose.trim().is_empty());
    let links = arguments.choice("links", &["keep", "drop"])? == "keep";
    let fresh = arguments.boolean("fresh", false)?;
    arguments.finish()?;
    let source = match (url, cursor) {
        (Some(url), None) => {
            let timeout = Duration::from_secs_f64(timeout);
            let options = Options { owner: Arc::clone(tenant), timeout, format, extract, links, fresh };
            Source::Url { url, options, purpose }
        }
        (None, Some(cursor)) => Source::Cursor(cursor.parse()?),
        _ => return Err(invalid("give exactly one of url and cursor")),
    };
    Ok(Call { source, max_tokens })
}
