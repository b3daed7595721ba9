//! Why a page could not be had. Invariant: no error shows an address that a name resolved to.

use std::fmt;

use serde_json::{Value, json};

/// Why a page could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// A URL that is not fetched; says why.
    InvalidUrl(String),
    /// An address that is not public.
    BlockedAddress,
    /// `robots.txt` forbids it, or could not be had from a failing server.
    BlockedByRobots,
    /// The name has no address.
    Dns,
    /// No connection, or one that broke off; says what happened.
    Connect(String),
    /// No secure connection; says what happened.
    Tls(String),
    /// More redirects than are followed.
    TooManyRedirects,
    /// The server answered with an error.
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of what it said, as text.
        excerpt: String,
    },
    /// Larger than the limits; says which.
    TooLarge(String),
    /// Not a kind of document that has text.
    UnsupportedContentType(String),
    /// There is no text in it.
    Empty,
    /// Not within the time given.
    Timeout,
    /// Other fetches from the same host took all the time given.
    HostBusy,
    /// A fault on this side; says which.
    Unavailable(String),
}

impl FetchError {
    /// Its code, as the contract of `smart_fetch` names it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUrl(_) => "invalid_url",
            Self::BlockedAddress => "blocked_address",
            Self::BlockedByRobots => "blocked_by_robots",
            Self::Dns => "dns_failure",
            Self::Connect(_) => "connect_failed",
            Self::Tls(_) => "tls_error",
            Self::TooManyRedirects => "too_many_redirects",
            Self::Status { .. } => "http_status",
            Self::TooLarge(_) => "too_large",
            Self::UnsupportedContentType(_) => "unsupported_content_type",
            Self::Empty => "empty_content",
            Self::Timeout => "timeout",
            Self::HostBusy => "rate_limited",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
            Self::Dns | Self::Connect(_) | Self::Timeout | Self::HostBusy | Self::Unavailable(_) => true,
            _ => false,
        }
    }

    /// What a program may want to know of it.
    #[must_use]
    pub fn details(&self) -> Option<Value> {
        match self {
            Self::Status { status, excerpt } => Some(json!({"status": status, "excerpt": excerpt})),
            Self::HostBusy => Some(json!({"wall": "host"})),
            _ => None,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidUrl(why) | Self::TooLarge(why) | Self::Connect(why) | Self::Tls(why) => why,
            Self::BlockedAddress => "this address is not on the public internet; use another url",
            Self::BlockedByRobots => "the site's robots.txt does not allow this page; use another source",
            Self::Dns => "the host name has no address; check its spelling",
            Self::TooManyRedirects => "the page redirects more than 5 times; use the url it should lead to",
            Self::Status { status, .. } => {
                return write!(f, "the server answered {status}; check the url, or use another source");
            }
            Self::UnsupportedContentType(kind) => {
                return write!(f, "{kind} has no text to return; use a page, a PDF, JSON or plain text");
            }
            Self::Empty => "there is no text in this page; try extract \"full\", or another source",
            Self::Timeout => "not done within the timeout; raise it, or try again later",
            Self::HostBusy => "too many fetches from this host at once; try again in some seconds",
            Self::Unavailable(why) => return write!(f, "cannot fetch now: {why}"),
        })
    }
}

impl std::error::Error for FetchError {}
