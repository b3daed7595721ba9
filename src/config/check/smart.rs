//! `[upstreams.NAME.fetch]` and `[upstreams.NAME.search]`: settings of the built-in tools.

use std::sync::Arc;

use super::{Checker, upstreams};
use crate::config::{
    Engine, EngineKind, Fetch, Secret, Smart, Target,
    file::{self, WEIGHT},
    text::At,
};

/// Longest name of an engine: it stands in results.
const NAME_MAX: usize = 32;

impl Checker<'_> {
    pub(super) fn smart(
        &mut self,
        upstream: &str,
        fetch: Option<At<file::Fetch>>,
        search: Option<At<file::Search>>,
        target: &Target,
    ) -> Smart {
        let of = |key: &str| format!("upstreams.{upstream}.{key}");
        for (key, at) in [("fetch", fetch.as_ref().map(|f| f.at)), ("search", search.as_ref().map(|s| s.at))]
        {
            if let Some(at) = at.filter(|_| *target != Target::Builtin) {
                self.findings.problem(at, format!("`{}` needs `builtin = true`", of(key)));
            }
        }
        let default = Fetch::default();
        let fetch = fetch.map_or_else(Fetch::default, |At { value: f, .. }| Fetch {
            allow_private: f.allow_private.unwrap_or(default.allow_private),
            ports: f.ports.unwrap_or_default(),
            robots: f.robots.unwrap_or(default.robots),
        });
        let written = search.map(|s| s.value.engines).unwrap_or_default();
        let mut engines: Vec<_> = written.into_iter().collect();
        engines.sort_by_key(|(_, engine)| engine.at);
        let engines = engines
            .into_iter()
            .filter_map(|(name, engine)| self.engine(&of(&format!("search.engines.{name}")), &name, engine))
            .collect();
        Smart { fetch, engines }
    }

    fn engine(&mut self, place: &str, name: &str, At { value, at }: At<file::Engine>) -> Option<Engine> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(plain) {
            let message = format!("`{place}`: the name must be 1 to {NAME_MAX} of a-z, 0-9 and -");
            self.findings.problem(at, message);
        }
        let Some(kind) = value.kind else {
            if !self.findings.maimed(at) {
                self.findings.problem(at, format!("`{place}.kind` is missing"));
            }
            return None;
        };
        let kind = match kind.value {
            file::EngineKind::Searxng => EngineKind::Searxng,
            file::EngineKind::Brave => EngineKind::Brave,
            file::EngineKind::Tavily => EngineKind::Tavily,
            file::EngineKind::Exa => EngineKind::Exa,
            file::EngineKind::Local => EngineKind::Local,
        };
        let needs_key = matches!(kind, EngineKind::Brave | EngineKind::Tavily | EngineKind::Exa);
        if needs_key && value.key.is_none() && !self.findings.maimed(at) {
            self.findings.problem(at, format!("`{place}` needs `key`"));
        }
        if kind == EngineKind::Searxng && value.url.is_none() && !self.findings.maimed(at) {
            self.findings.problem(at, format!("`{place}` needs `url`"));
        }
        let url = value.url.and_then(|u| self.parsed(&format!("{place}.url"), &u, upstreams::url));
        let key = value.key.and_then(|key| match self.secret(&key.value.0) {
            Ok(secret) => Some(Secret::new(&secret)),
            Err(why) => {
                self.findings.problem(key.at, format!("`{place}.key`: {why}"));
                None
            }
        });
        let weight = value.weight.map_or(WEIGHT, |w| {
            if !(w.value.is_finite() && w.value > 0.0) {
                self.findings.problem(w.at, format!("`{place}.weight`: must be above 0"));
            }
            w.value
        });
        Some(Engine { name: Arc::from(name), kind, url, key, weight })
    }
}
