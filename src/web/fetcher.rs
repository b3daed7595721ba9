//! One page, from URL to document: cache, redirects, robots, pace, extraction. Owns their order and the deadline.
//!
//! Invariant: every hop is checked before anything is sent: its URL here, its addresses in the connector.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderMap, header};
use tokio::time::timeout;
use url::Url;

use super::{
    CacheUse, FetchError, Options, Page,
    cache::{self, Head, Kept},
    client::{Answer, Client},
    extract::{Extractor, Wanted, excerpt},
    pace::{Pace, SPACING, Turn},
    resolve::Resolver,
    robots,
    target::{Rules, is_local},
};
use crate::{
    config::{self, UpstreamTls},
    store::{Store, StoreError},
};

const MAX_BODY: usize = 5 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
/// Of an error's body.
const MAX_ERROR: usize = 64 * 1024;
const EXCERPT: usize = 500;

/// Fetches pages. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
}

struct Inner {
    rules: Rules,
    obey_robots: bool,
    resolver: Resolver,
    trust: UpstreamTls,
    /// Made when first used: the system's roots take a while to load.
    client: OnceLock<Result<Client, String>>,
    robots: robots::Cache,
    pace: Pace,
    extractor: Extractor,
    store: Store,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("rules", &self.inner.rules).finish_non_exhaustive()
    }
}

/// A response before extraction.
struct Raw {
    head: Head,
    body: Vec<u8>,
    cache: CacheUse,
}

impl Fetcher {
    /// Connects to nothing; pages are kept in `store`.
    #[must_use]
    pub fn new(settings: &config::Fetch, store: Store) -> Self {
        let resolver = Resolver::new(settings.allow_private);
        Self::with(settings, store, resolver, UpstreamTls::default(), SPACING)
    }

    /// One for tests: names of a table, a certificate to trust, no waiting.
    #[cfg(test)]
    pub(crate) fn for_tests(
        settings: &config::Fetch,
        store: Store,
        table: super::Table,
        trust: UpstreamTls,
    ) -> Self {
        let resolver = Resolver { allow_private: settings.allow_private, table };
        Self::with(settings, store, resolver, trust, Duration::ZERO)
    }

    fn with(
        settings: &config::Fetch,
        store: Store,
        resolver: Resolver,
        trust: UpstreamTls,
        spacing: Duration,
    ) -> Self {
        let inner = Inner {
            rules: Rules::new(settings),
            obey_robots: settings.robots,
            resolver,
            trust,
            client: OnceLock::new(),
            robots: robots::Cache::default(),
            pace: Pace::new(spacing),
            extractor: Extractor::new(),
            store,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Fetches one page.
    ///
    /// # Errors
    /// Why it could not be had.
    pub async fn fetch(&self, url: &str, options: &Options) -> Result<Page, FetchError> {
        let url = self.inner.rules.parse(url)?;
        match timeout(options.timeout, Box::pin(self.inner.fetch(url, options))).await {
            Ok(done) => done,
            Err(_) => Err(FetchError::Timeout),
        }
    }
}

impl Inner {
    async fn fetch(&self, url: Url, options: &Options) -> Result<Page, FetchError> {
        let kept = cache::find(&self.store, &options.owner, url.as_str()).await?;
        let raw = match kept {
            Some(kept) if kept.fresh && !options.fresh => {
                Raw { head: kept.head, body: kept.body, cache: CacheUse::Hit }
            }
            kept => self.get(&url, kept, options).await?,
        };
        let wanted = Wanted { format: options.format, extract: options.extract, links: options.links };
        let base = Url::parse(&raw.head.final_url).unwrap_or_else(|_| url.clone());
        let document = self.extractor.document(raw.body, &raw.head.content_type, base, wanted).await?;
        Ok(Page {
            url: url.into(),
            final_url: raw.head.final_url,
            status: raw.head.status,
            content_type: raw.head.content_type,
            fetched_at: raw.head.fetched_at,
            cache: raw.cache,
            document,
        })
    }

    /// Asks the server, with `kept` only for what has changed.
    async fn get(&self, url: &Url, kept: Option<Kept>, options: &Options) -> Result<Raw, FetchError> {
        let mut at = url.clone();
        let mut cookies = false;
        let mut turn: Option<(String, Turn)> = None;
        for _ in 0..=MAX_REDIRECTS {
            self.check_robots(&at).await?;
            let host = format!(
                "{}:{}",
                at.host_str().unwrap_or_default(),
                at.port_or_known_default().unwrap_or_default()
            );
            // A server of the operator's own is not spared; several hops at one host are one fetch.
            if !is_local(&at) && turn.as_ref().is_none_or(|(held, _)| *held != host) {
                drop(turn.take());
                let waited = timeout(options.timeout.mul_f32(0.9), self.pace.turn(&host)).await;
                turn = Some((host, waited.map_err(|_| FetchError::HostBusy)?));
            }
            let conditions = match &kept {
                Some(kept) if kept.head.final_url == at.as_str() => kept.head.conditions(),
                _ => HeaderMap::new(),
            };
            let asked = !conditions.is_empty();
            let answer = self.client()?.get(&at, conditions).await?;
            cookies |= answer.headers.contains_key(header::SET_COOKIE);
            match answer.status.as_u16() {
                301 | 302 | 303 | 307 | 308 if answer.header(header::LOCATION).is_some() => {
                    at = self.rules.redirect(&at, answer.header(header::LOCATION).unwrap_or_default())?;
                }
                304 if asked => {
                    if let Some(kept) = kept {
                        cache::renew(
                            &self.store,
                            url.as_str(),
                            &kept,
                            cache::permission(&answer.headers, cookies),
                        );
                        return Ok(Raw { head: kept.head, body: kept.body, cache: CacheUse::Revalidated });
                    }
                    return Err(FetchError::Empty);
                }
                200..=299 => return self.receive(url, &at, answer, cookies, options).await,
                _ => return Err(failed(answer).await),
            }
        }
        Err(FetchError::TooManyRedirects)
    }

    async fn receive(
        &self,
        url: &Url,
        at: &Url,
        answer: Answer,
        cookies: bool,
        options: &Options,
    ) -> Result<Raw, FetchError> {
        let content_type = answer.header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let permission = cache::permission(&answer.headers, cookies);
        let head = Head::new(at.to_string(), answer.status.as_u16(), content_type, &answer.headers);
        let body = answer.read(MAX_BODY).await?;
        cache::put(&self.store, &options.owner, url.as_str(), head.clone(), &body, permission);
        Ok(Raw { head, body, cache: CacheUse::Miss })
    }

    async fn check_robots(&self, url: &Url) -> Result<(), FetchError> {
        if !self.obey_robots {
            return Ok(());
        }
        let place = robots::place(url);
        let rules = match self.robots.get(&place) {
            Some(rules) => rules,
            None => {
                let rules = Arc::new(self.get_robots(&place).await?);
                self.robots.put(place, Arc::clone(&rules));
                rules
            }
        };
        if rules.allow(url) { Ok(()) } else { Err(FetchError::BlockedByRobots) }
    }

    /// A site that cannot be reached is an error as it is for the page; one that fails forbids everything.
    async fn get_robots(&self, place: &Url) -> Result<robots::Rules, FetchError> {
        let mut at = place.clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.client()?.get(&at, HeaderMap::new()).await?;
            let status = answer.status;
            if status.is_redirection()
                && let Some(location) = answer.header(header::LOCATION)
            {
                // Rules that are nowhere to be found are none (RFC 9309 section 2.3.1.2).
                let Ok(next) = self.rules.redirect(&at, location) else { return Ok(robots::Rules::All) };
                at = next;
                continue;
            }
            let body =
                if status.is_success() { answer.read_start(robots::MAX_SIZE).await? } else { Vec::new() };
            let read = tokio::task::spawn_blocking(move || robots::Rules::read(status, &body)).await;
            return Ok(read.unwrap_or(robots::Rules::All));
        }
        Ok(robots::Rules::All)
    }

    fn client(&self) -> Result<&Client, FetchError> {
        let client = self.client.get_or_init(|| Client::new(self.resolver.clone(), &self.trust));
        client.as_ref().map_err(|why| FetchError::Unavailable(why.clone()))
    }
}

async fn failed(answer: Answer) -> FetchError {
    let status = answer.status.as_u16();
    let content_type = answer.header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
    let body = answer.read_start(MAX_ERROR).await.unwrap_or_default();
    FetchError::Status { status, excerpt: excerpt(&body, &content_type, EXCERPT) }
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the page cache cannot be used");
        Self::Unavailable("the storage cannot be used".into())
    }
}
