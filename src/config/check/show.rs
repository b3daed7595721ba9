//! How an upstream is shown: prefix, names, fixed parameters, pins. Owns what the file alone tells about names that would
//! collide; names that only the servers know are watched while the gateway runs.

use std::collections::{BTreeMap, HashMap};

use super::Checker;
use crate::config::{
    AuthMode, Config, Rename, Show, Storage, Target, Upstream,
    file::{self, SEPARATOR},
    text::{At, PathText},
};

/// Longest public name (2026-07-28, tools).
const NAME_MAX: usize = 128;
/// Longest prefix and separator: a name should have room behind them.
const PREFIX_MAX: usize = 64;
const SEPARATOR_MAX: usize = 8;

impl Checker<'_> {
    pub(super) fn separator(&mut self, written: &file::Aggregate) -> String {
        let separator = written.separator.as_ref();
        let parsed = separator.and_then(|w| self.parsed("aggregate.separator", w, separator_text));
        parsed.unwrap_or_else(|| SEPARATOR.to_owned())
    }

    pub(super) fn prefix(&mut self, key: &str, written: Option<&At<String>>, default: &str) -> String {
        let parsed = written.and_then(|w| self.parsed(key, w, prefix_text));
        parsed.unwrap_or_else(|| default.to_owned())
    }

    pub(super) fn show(&mut self, name: &str, upstream: &mut file::Upstream, storage: &Storage) -> Show {
        let rename = std::mem::take(&mut upstream.rename);
        let rename = rename.into_iter().map(|(tool, written)| {
            let key = format!("upstreams.{name}.rename.\"{tool}\"");
            if written.value.name.is_none() && written.value.description.is_none() {
                let empty = !self.findings.maimed(written.at);
                if empty {
                    self.findings.problem(written.at, format!("`{key}` needs `name` or `description`"));
                }
            }
            let public = written.value.name.as_ref();
            let public = public.and_then(|w| self.parsed(&format!("{key}.name"), w, public_name));
            (tool, Rename { name: public, description: written.value.description })
        });
        let rename = rename.collect();
        let fixed = std::mem::take(&mut upstream.fixed).into_iter();
        let fixed = fixed.map(|(tool, values)| (tool, values.into_iter().map(|(k, v)| (k, v.0)).collect()));
        let prompts = self.globs(&format!("upstreams.{name}.prompts"), upstream.prompts.take());
        let resources = self.globs(&format!("upstreams.{name}.resources"), upstream.resources.take());
        Show {
            rename,
            fixed: fixed.collect(),
            prompts: Some(prompts).filter(|globs| !globs.is_any()),
            resources: Some(resources).filter(|globs| !globs.is_any()),
            pins: self.pins(name, upstream, storage),
            concurrency: upstream.concurrency.as_ref().map(|c| c.value as usize),
        }
    }

    fn pins(
        &mut self,
        name: &str,
        upstream: &file::Upstream,
        storage: &Storage,
    ) -> Option<std::path::PathBuf> {
        let pinned = upstream.pin.unwrap_or(false);
        if let (false, Some(At { at, .. })) = (pinned, &upstream.pins) {
            self.findings.warn(*at, format!("`upstreams.{name}.pins` has no effect without `pin = true`"));
        }
        let written = upstream.pins.as_ref().map(|At { value: PathText(path), .. }| self.resolve(path));
        let beside = || storage.path.as_deref().map(|p| p.with_file_name(format!("pins-{name}.json")));
        written.or_else(beside).filter(|_| pinned)
    }

    /// Rules between upstreams.
    pub(super) fn shown_names(&mut self, config: &Config, places: &Places) {
        let mut public: HashMap<String, String> = HashMap::new();
        let mut prefixes: BTreeMap<&str, &str> = BTreeMap::new();
        let several = config.upstreams.len() > 1;
        for upstream in &config.upstreams {
            let at = places.get(&*upstream.name).copied().flatten();
            self.public_names(upstream, config, at, &mut public);
            let changed = upstream.show.changes() || (!several && !upstream.prefix.is_empty());
            if config.auth == AuthMode::Passthrough && changed {
                let message = format!(
                    "`upstreams.{}`: `prefix`, `rename`, `fixed`, `prompts`, `resources` and `pin` need a gateway that may ask \
                     the server itself; not with `passthrough`",
                    upstream.name
                );
                self.findings.problem(at, message);
            }
            if upstream.target == Target::Builtin {
                continue;
            }
            if let Some(other) = prefixes.insert(&upstream.prefix, &upstream.name) {
                let message = format!(
                    "`upstreams.{}`: it has the prefix \"{}\" of `{other}`; tools of one name are then shown of neither",
                    upstream.name, upstream.prefix
                );
                self.findings.warn(at, message);
            }
        }
    }

    fn public_names(
        &mut self,
        upstream: &Upstream,
        config: &Config,
        at: Option<usize>,
        public: &mut HashMap<String, String>,
    ) {
        for (tool, rename) in &upstream.show.rename {
            if !upstream.tools.matches(tool) {
                let message = format!(
                    "`upstreams.{}.rename.\"{tool}\"` has no effect: `tools` hides it",
                    upstream.name
                );
                self.findings.warn(at, message);
                continue;
            }
            let Some(name) = &rename.name else { continue };
            let separator = if upstream.prefix.is_empty() { "" } else { &config.separator };
            let shown = format!("{}{separator}{name}", upstream.prefix);
            let own = format!("upstreams.{}.rename.\"{tool}\"", upstream.name);
            if shown.len() > NAME_MAX {
                self.findings
                    .problem(at, format!("`{own}`: \"{shown}\" is longer than {NAME_MAX} characters"));
            }
            if let Some(other) = public.insert(shown.clone(), own.clone()) {
                self.findings
                    .problem(at, format!("`{own}`: \"{shown}\" is what `{other}` is called already"));
            }
        }
    }
}

/// Where each upstream stands in the file.
pub(super) type Places = HashMap<String, Option<usize>>;

fn plain(text: &str, longest: usize) -> bool {
    text.len() <= longest && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn prefix_text(text: &str) -> Result<String, String> {
    match plain(text, PREFIX_MAX) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be at most {PREFIX_MAX} of A-Z, a-z, 0-9, _, . and -")),
    }
}

fn separator_text(text: &str) -> Result<String, String> {
    match !text.is_empty() && plain(text, SEPARATOR_MAX) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be 1 to {SEPARATOR_MAX} of A-Z, a-z, 0-9, _, . and -")),
    }
}

fn public_name(text: &str) -> Result<String, String> {
    match !text.is_empty() && plain(text, NAME_MAX) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be 1 to {NAME_MAX} of A-Z, a-z, 0-9, _, . and -")),
    }
}
