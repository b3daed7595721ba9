//! `[[keys]]`. A secret that is given as such is hashed here and dropped.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use sha2::{Digest, Sha256};

use super::{Checker, word};
use crate::config::{
    CallerKind, Globs, Key, MemoryScope,
    file::{self, CALLER, SCOPES},
    key_name,
    text::{self, At, DateTime, GlobText},
};

/// Shortest secret that is not warned about, in bytes: 128 random bits as base64.
const SHORT_SECRET: usize = 22;

/// Names and hashes so far.
#[derive(Default)]
struct Seen {
    names: HashMap<Arc<str>, ()>,
    hashes: HashMap<[u8; 32], Arc<str>>,
}

impl Checker<'_> {
    pub(super) fn keys(&mut self, written: Vec<At<file::Key>>) -> Vec<Key> {
        let mut seen = Seen::default();
        let keys: Vec<(Option<usize>, Key)> =
            written.into_iter().filter_map(|key| Some((key.at, self.key(key, &mut seen)?))).collect();
        let teams: HashMap<_, _> =
            keys.iter().filter_map(|(_, key)| Some((key.team.as_ref()?, &key.name))).collect();
        for (at, key) in keys.iter().filter(|(_, key)| key.team.as_ref() != Some(&key.name)) {
            if let Some(other) = teams.get(&key.name) {
                let message = format!(
                    "`keys.name`: `{}` is also the team of `{}`, so both would share memory and references; name one otherwise",
                    key.name, other
                );
                self.findings.problem(*at, message);
            }
        }
        keys.into_iter().map(|(_, key)| key).collect()
    }

    fn key(&mut self, key: At<file::Key>, seen: &mut Seen) -> Option<Key> {
        let (at, key) = (key.at, key.value);
        let memory = self.scopes(key.scopes.as_ref());
        let name = self.name(&key, at);
        let sha256 = self.hash(&key, at);
        let team = key
            .team
            .as_ref()
            .and_then(|t| self.parsed("keys.team", t, key_name).map(|()| t.value.as_str().into()));
        let tools = self.globs("keys.tools", key.tools);
        let rate = key.rate.as_ref().and_then(|r| self.parsed("keys.rate", r, text::rate));
        let budget = key.budget.as_ref().and_then(|b| self.parsed("keys.budget", b, text::budget));
        let caller = match word(key.caller.as_ref(), CALLER) {
            file::Caller::Model => CallerKind::Model,
            file::Caller::Program => CallerKind::Program,
        };
        let index_fetches = key.index_fetches.unwrap_or(false);
        let expires = key.expires.as_ref().and_then(|e| self.expires(e, name.as_deref()));
        let schema_coercion = key.schema_coercion.map(|c| c.value.into());
        let (name, sha256) = (name?, sha256?);
        self.once(&name, sha256, at, seen);
        Some(Key {
            name,
            sha256,
            team,
            tools,
            rate,
            budget,
            caller,
            memory,
            index_fetches,
            schema_coercion,
            expires,
        })
    }

    fn name(&mut self, key: &file::Key, table: Option<usize>) -> Option<Arc<str>> {
        match &key.name {
            Some(name) => self.parsed("keys.name", name, key_name).map(|()| name.value.as_str().into()),
            None => {
                self.missing(table, "`keys.name` is missing");
                None
            }
        }
    }

    fn missing(&mut self, table: Option<usize>, message: &str) {
        if !self.findings.maimed(table) {
            self.findings.problem(table, message);
        }
    }

    fn hash(&mut self, key: &file::Key, table: Option<usize>) -> Option<[u8; 32]> {
        match (&key.sha256, &key.file, &key.env) {
            (Some(hash), None, None) => self.parsed("keys.sha256", hash, text::sha256),
            (None, Some(file), None) => {
                let secret = self.secret_from_file(&file.value.0);
                self.hash_of("keys.file", secret, file.at)
            }
            (None, None, Some(env)) => {
                let secret = self.secret_from_env(&env.value);
                self.hash_of("keys.env", secret, env.at)
            }
            (None, None, None) => {
                self.missing(table, "a key needs one of `sha256`, `file` and `env`");
                None
            }
            _ => {
                self.findings.problem(table, "a key takes only one of `sha256`, `file` and `env`");
                None
            }
        }
    }

    fn hash_of(&mut self, key: &str, secret: Result<String, String>, at: Option<usize>) -> Option<[u8; 32]> {
        match secret {
            Ok(secret) => {
                if secret.len() < SHORT_SECRET {
                    self.findings.warn(
                        at,
                        format!("`{key}`: the secret is short; `smartgate key new` makes a strong one"),
                    );
                }
                Some(Sha256::digest(secret).into())
            }
            Err(why) => {
                self.findings.problem(at, format!("`{key}`: {why}"));
                None
            }
        }
    }

    fn once(&mut self, name: &Arc<str>, sha256: [u8; 32], at: Option<usize>, seen: &mut Seen) {
        if seen.names.insert(name.clone(), ()).is_some() {
            self.findings.problem(at, format!("`keys.name`: another key is also named `{name}`"));
        }
        if let Some(other) = seen.hashes.insert(sha256, name.clone()) {
            self.findings.problem(at, format!("the key `{name}` has the same secret as `{other}`"));
        }
    }

    /// The memory that a key reaches.
    fn scopes(&mut self, written: Option<&At<Vec<String>>>) -> Vec<MemoryScope> {
        let defaults = SCOPES.map(str::to_owned);
        let scopes = written.map_or(defaults.as_slice(), |s| &s.value);
        let mut memory = Vec::new();
        for scope in scopes {
            match memory_scope(scope) {
                Some(scope) => memory.push(scope),
                None if scope == "tools" => {}
                None => {
                    let message = format!(
                        "`keys.scopes`: `{scope}` is none of `tools`, `memory:NAMESPACE` and `memory:read:NAMESPACE`"
                    );
                    self.findings.problem(written.and_then(|s| s.at), message);
                }
            }
        }
        if !scopes.iter().any(|s| s == "tools") {
            let message = "`keys.scopes`: a key without `tools` can call nothing; to limit it, use `tools`";
            self.findings.problem(written.and_then(|s| s.at), message);
        }
        memory
    }

    fn expires(&mut self, written: &At<DateTime>, name: Option<&str>) -> Option<SystemTime> {
        let when = written.value.0;
        if when.date.is_none() || when.time.is_none() || when.offset.is_none() {
            let message = "`keys.expires`: needs a date, a time and an offset, such as 2027-01-01T00:00:00Z";
            self.findings.problem(written.at, message);
            return None;
        }
        let parsed = when.to_string().parse::<jiff::Timestamp>().and_then(SystemTime::try_from);
        let Ok(expires) = parsed else {
            self.findings.problem(written.at, "`keys.expires`: is no point in time");
            return None;
        };
        if expires <= SystemTime::now() {
            self.findings.warn(written.at, format!("the key `{}` has expired", name.unwrap_or("?")));
        }
        Some(expires)
    }

    /// Globs over names; everything without any.
    pub(super) fn globs(&mut self, key: &str, written: Option<Vec<At<GlobText>>>) -> Globs {
        let Some(written) = written else { return Globs::any() };
        for glob in &written {
            if glob.value.0.trim_start_matches('!').is_empty() {
                self.findings.problem(glob.at, format!("`{key}`: an empty glob matches nothing"));
            }
        }
        Globs::new(written.iter().map(|g| &g.value.0))
    }
}

/// `memory:*`, `memory:NAMESPACE`, `memory:read:NAMESPACE`.
fn memory_scope(scope: &str) -> Option<MemoryScope> {
    let rest = scope.strip_prefix("memory:")?;
    let (namespace, write) = match rest.strip_prefix("read:") {
        Some(namespace) => (namespace, false),
        None => (rest, true),
    };
    let known = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    match namespace {
        "*" => Some(MemoryScope { namespace: None, write }),
        one if (1..=64).contains(&one.len()) && one.bytes().all(known) => {
            Some(MemoryScope { namespace: Some(one.into()), write })
        }
        _ => None,
    }
}
