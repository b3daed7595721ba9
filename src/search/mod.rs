//! Web search over several engines, and the index of our own documents. Owns what engines are asked and what they
//! answer; nothing here knows of MCP.
//!
//! Invariant: one engine's failure is a value beside the others' hits, never the failure of the search.

mod client;
pub mod engines;
pub mod import;
pub mod local;
pub mod merge;
pub mod snippet;
pub mod url;

#[cfg(test)]
mod quality;

use std::{fmt, time::Duration};

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The words.
    pub text: String,
    /// Hits wanted of each engine.
    pub count: usize,
    /// From 1.
    pub page: usize,
    /// Only what was published within this time.
    pub time_range: Option<TimeRange>,
    /// A BCP 47 tag such as `de` or `pt-BR`.
    pub language: Option<String>,
    /// Only hits on these domains and those below them; empty means all.
    pub include: Vec<String>,
    /// No hits on these domains and those below them.
    pub exclude: Vec<String>,
    /// What is left out for its content.
    pub safesearch: Safesearch,
    /// Longest snippet, in tokens.
    pub snippet_tokens: usize,
}

impl Query {
    /// Whether a host passes the domain filters.
    #[must_use]
    pub fn admits(&self, host: &str) -> bool {
        let within = |domain: &String| {
            host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        (self.include.is_empty() || self.include.iter().any(within)) && !self.exclude.iter().any(within)
    }

    /// How many hits pages before this one have shown.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.page.saturating_sub(1) * self.count
    }
}

/// How old a hit may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeRange {
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 31 days.
    Month,
    /// 366 days.
    Year,
}

/// How much is left out for its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Safesearch {
    /// Nothing.
    Off,
    /// What most would mind.
    #[default]
    Moderate,
    /// All that anybody might mind.
    Strict,
}

/// One hit of one engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hit {
    /// Plain text.
    pub title: String,
    /// As the engine gave it.
    pub url: String,
    /// Plain text.
    pub snippet: String,
    /// `YYYY-MM-DD`
    pub published: Option<String>,
    /// The document, for hits of the local index.
    pub document: Option<i64>,
}

impl Hit {
    /// A hit of an engine of the web, with what it says.
    fn of_web(
        url: String,
        title: Option<String>,
        snippet: Option<String>,
        published: Option<String>,
    ) -> Self {
        let (title, snippet) = (title.unwrap_or_default(), snippet.unwrap_or_default());
        Self { title, url, snippet, published, document: None }
    }
}

/// What one engine answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Other queries worth trying.
    pub suggestions: Vec<String>,
    /// Direct answers.
    pub answers: Vec<String>,
}

/// Why an engine gave no hits. The text names neither its address nor its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// One sentence.
    pub message: String,
    /// The HTTP status, if there was one other than 200.
    pub status: Option<u16>,
    /// When the engine asked to be tried again.
    pub retry_after: Option<Duration>,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The key was refused, or the instance does not offer what is asked.
    Unauthorized,
    /// It asks for fewer calls.
    RateLimited,
    /// It does not understand this query; another may pass.
    Refused,
    /// It failed itself.
    ServerError,
    /// The answer is not what the API promises.
    BadAnswer,
    /// Nothing came in time.
    Timeout,
    /// There is no connection.
    Unreachable,
    /// It failed often of late and is left alone for a while.
    CircuitOpen,
}

impl FailureKind {
    /// As results show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::RateLimited => "rate_limited",
            Self::Refused => "refused",
            Self::ServerError => "server_error",
            Self::BadAnswer => "bad_answer",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::CircuitOpen => "circuit_open",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_admit_themselves_and_what_is_below() {
        let only = Query { include: vec!["example.com".into()], ..Query::default() };
        assert!(only.admits("example.com") && only.admits("docs.example.com"));
        assert!(!only.admits("notexample.com") && !only.admits(""));
        let not = Query { exclude: vec!["example.com".into()], ..Query::default() };
        assert!(!not.admits("docs.example.com") && not.admits("example.org"));
    }
}
