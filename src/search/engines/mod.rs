//! The engines that can be asked. Owns the fan-out, and what all drivers share; a driver is a module that makes a
//! request and reads the answer.
//!
//! Invariant: a key leaves in the request that its own API asks for, and nowhere else.

mod brave;
mod exa;
mod request;
mod searxng;
mod tavily;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use ::url::Url;
use bytes::Bytes;
use http::Request;
use jiff::{civil::Date, fmt::rfc2822};
use tokio::task::JoinSet;

use self::request::Endpoint;
use super::{Failure, FailureKind, Hit, Page, Query, client::Client, local, snippet::plain, url};
use crate::{
    breaker::Breaker,
    config::{self, EngineKind, Secret},
    store::Store,
};

/// The name of the one engine when none is configured.
pub const LOCAL: &str = "local";
/// Longer titles are cut, in characters.
const MAX_TITLE: usize = 300;
/// Hits with longer URLs are dropped, in bytes.
const MAX_URL: usize = 2_048;

/// What speaks one API.
#[derive(Debug)]
struct Driver {
    /// Its public address; "" if there is none.
    address: &'static str,
    /// The path of the API.
    path: &'static str,
    request: fn(&Endpoint<'_>, &Query) -> Result<Request<Bytes>, Failure>,
    parse: fn(&[u8], &Query) -> Result<Page, Failure>,
    /// What its 403 means, if not that the key is wrong.
    forbidden: Option<&'static str>,
}

/// One configured engine.
#[derive(Debug)]
struct Engine {
    name: Arc<str>,
    weight: f64,
    source: Source,
    breaker: Breaker,
}

#[derive(Debug)]
enum Source {
    Local,
    Remote(Box<Remote>),
}

#[derive(Debug)]
struct Remote {
    driver: &'static Driver,
    url: Option<Url>,
    key: Option<Secret>,
    client: Option<Client>,
}

/// All configured engines.
#[derive(Debug)]
pub struct Engines {
    list: Vec<Arc<Engine>>,
}

/// What asking one engine came to.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub engine: Arc<str>,
    /// How much it counts.
    pub weight: f64,
    /// How long it took.
    pub ms: u64,
    /// Its hits, or why there are none.
    pub result: Result<Page, Failure>,
}

impl Engines {
    /// Prepares the configured engines, or the local index alone if there are none. Connects to nothing.
    #[must_use]
    pub fn new(configured: &[config::Engine]) -> Self {
        let remote = configured.iter().any(|engine| engine.kind != EngineKind::Local);
        let client = remote.then(Client::new).and_then(|client| {
            client.inspect_err(|why| tracing::error!(%why, "search engines cannot be reached")).ok()
        });
        let mut list: Vec<_> =
            configured.iter().map(|engine| Arc::new(Engine::new(engine, client.clone()))).collect();
        if list.is_empty() {
            let source = Source::Local;
            let breaker = Breaker::of_engines();
            list.push(Arc::new(Engine { name: LOCAL.into(), weight: 1.0, source, breaker }));
        }
        Self { list }
    }

    /// Their names, as configured.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|engine| &*engine.name)
    }

    /// Whether this is an engine that searches our own documents.
    #[must_use]
    pub fn is_local(&self, name: &str) -> bool {
        self.list.iter().any(|engine| *engine.name == *name && matches!(engine.source, Source::Local))
    }

    /// Asks the named engines at the same time (all of them if none is named), and answers in their configured
    /// order. Dropping the future ends what is under way.
    pub async fn search(
        &self,
        store: &Store,
        tenant: &Arc<str>,
        names: &[String],
        query: &Arc<Query>,
    ) -> Vec<Outcome> {
        let mut running = JoinSet::new();
        let chosen = self.list.iter().filter(|e| names.is_empty() || names.iter().any(|n| **n == *e.name));
        for (at, engine) in chosen.enumerate() {
            let (engine, store) = (Arc::clone(engine), store.clone());
            let (tenant, query) = (Arc::clone(tenant), Arc::clone(query));
            running.spawn(async move { (at, engine.outcome(store, tenant, query).await) });
        }
        let mut outcomes = running.join_all().await;
        outcomes.sort_by_key(|(at, _)| *at);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

impl Engine {
    fn new(config: &config::Engine, client: Option<Client>) -> Self {
        let driver = match config.kind {
            EngineKind::Local => None,
            EngineKind::Searxng => Some(&searxng::DRIVER),
            EngineKind::Brave => Some(&brave::DRIVER),
            EngineKind::Tavily => Some(&tavily::DRIVER),
            EngineKind::Exa => Some(&exa::DRIVER),
        };
        let remote = |driver| {
            let url = config.url.as_ref().and_then(|url| Url::parse(&url.to_string()).ok());
            Source::Remote(Box::new(Remote { driver, url, key: config.key.clone(), client }))
        };
        let source = driver.map_or(Source::Local, remote);
        Self { name: Arc::clone(&config.name), weight: config.weight, source, breaker: Breaker::of_engines() }
    }

    async fn outcome(&self, store: Store, tenant: Arc<str>, query: Arc<Query>) -> Outcome {
        let begun = Instant::now();
        let result = match &self.source {
            Source::Local => local::find(&store, tenant, query).await,
            Source::Remote(remote) => self.ask(remote, &query).await,
        };
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Outcome { engine: Arc::clone(&self.name), weight: self.weight, ms, result }
    }

    async fn ask(&self, remote: &Remote, query: &Query) -> Result<Page, Failure> {
        if let Err(rest) = self.breaker.admit() {
            let seconds = rest.as_secs() + 1;
            let message = format!("it failed of late; it is asked again in {seconds} seconds");
            return Err(Failure::new(FailureKind::CircuitOpen, message));
        }
        let result = remote.page(query).await;
        match &result {
            Ok(_) => self.breaker.succeeded(),
            // What one query met says nothing about the next.
            Err(failure) if failure.kind == FailureKind::Refused => {}
            Err(failure) => self.breaker.failed(failure.retry_after),
        }
        result.map(|page| tidy(page, query))
    }
}

impl Remote {
    async fn page(&self, query: &Query) -> Result<Page, Failure> {
        let driver = self.driver;
        let Some(client) = &self.client else {
            return Err(Failure::new(FailureKind::Unreachable, "TLS could not be set up on this machine"));
        };
        let url = match &self.url {
            Some(url) => with_path(url.clone(), driver.path),
            None => Url::parse(driver.address).ok().and_then(|url| with_path(url, driver.path)),
        };
        let url = url.ok_or_else(|| Failure::new(FailureKind::Unreachable, "its url cannot be used"))?;
        let request = (driver.request)(&Endpoint { url, key: self.key.as_ref() }, query)?;
        let body = client.send(request).await.map_err(|failure| match driver.forbidden {
            Some(why) if failure.status == Some(403) => {
                Failure { message: format!("HTTP 403: {why}"), ..failure }
            }
            _ => failure,
        })?;
        (driver.parse)(&body, query)
    }
}

/// The configured base with the API's path, unless it has that already.
fn with_path(mut url: Url, path: &str) -> Option<Url> {
    if url.cannot_be_a_base() {
        return None;
    }
    let given = url.path().trim_end_matches('/');
    if !given.ends_with(path) {
        let whole = format!("{given}{path}");
        url.set_path(&whole);
    }
    Some(url)
}

/// What every engine's hits go through: plain text, a date, a web address within the filters.
fn tidy(page: Page, query: &Query) -> Page {
    let hits = page.hits.into_iter().filter_map(|hit| {
        let url = hit.url.trim();
        let web = url.starts_with("https://") || url.starts_with("http://");
        let place = url::canonical(url).filter(|_| web && url.len() <= MAX_URL)?;
        query.admits(&place.host).then(|| Hit {
            title: plain(&hit.title).chars().take(MAX_TITLE).collect(),
            url: url.to_owned(),
            snippet: plain(&hit.snippet),
            published: hit.published.as_deref().and_then(date),
            document: None,
        })
    });
    let texts = |texts: Vec<String>| texts.iter().map(|text| plain(text)).filter(|t| !t.is_empty()).collect();
    Page { hits: hits.collect(), suggestions: texts(page.suggestions), answers: texts(page.answers) }
}

/// The day of a time in ISO 8601 or RFC 2822.
fn date(text: &str) -> Option<String> {
    let day = text.get(..10).and_then(|day| day.parse::<Date>().ok());
    day.or_else(|| rfc2822::parse(text).ok().map(|time| time.date())).map(|day| day.to_string())
}
