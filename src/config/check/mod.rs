//! From the file as written to the checked configuration, with every problem at once. Owns the rules that connect
//! keys with each other; a section's own rules are in its module. A value that is refused is replaced by its
//! default, so that the check goes on; nobody sees such a configuration.

use std::{env::VarError, path::Path};

use serde::{Deserialize, de::value::StrDeserializer};

use super::{
    AuthMode, Config, Source,
    file::{self, File},
    problem::Findings,
    text::At,
};

pub(super) use upstreams::{BUILTIN, in_order, url as http_url};

mod audit;
mod command;
mod keys;
mod limits;
mod secret;
mod server;
mod show;
mod smart;
mod telemetry;
mod upstreams;

/// What a check needs beside the file.
pub(super) struct Checker<'a> {
    pub(super) findings: Findings<'a>,
    /// Where relative paths start.
    pub(super) base: &'a Path,
    /// How environment variables are read.
    pub(super) env: fn(&str) -> Result<String, VarError>,
    /// Files that were read for secrets.
    pub(super) sources: Vec<Source>,
}

/// Upstreams with their names, in the order of the file or of the command line.
pub(super) type NamedUpstreams = Vec<(String, At<file::Upstream>)>;

impl Checker<'_> {
    /// Checks everything; problems are in `findings`.
    pub(super) fn check(&mut self, file: File, upstreams: NamedUpstreams) -> Config {
        let auth = self.auth(file.auth.as_ref(), !file.keys.is_empty());
        let listen_at = file.server.listen.as_ref().and_then(|l| l.at);
        let storage = self.storage(&file.storage);
        let places = upstreams.iter().map(|(name, u)| (name.clone(), u.at)).collect();
        let config = Config {
            server: self.server(file.server),
            admin: self.admin(file.admin),
            auth: auth.mode,
            keys: self.keys(file.keys),
            limits: self.limits(file.limits, auth.mode),
            upstreams: self.upstreams(upstreams, &storage),
            separator: self.separator(&file.aggregate),
            sealing: self.sealing(file.sealing),
            normalize: limits::normalize(&file.normalize),
            audit: self.audit(file.audit),
            telemetry: self.telemetry(file.telemetry),
            storage,
        };
        self.shown_names(&config, &places);
        self.together(&config, &auth, listen_at);
        config
    }

    fn auth(&mut self, written: Option<&At<file::Auth>>, keys: bool) -> Auth {
        let by_default = if keys { AuthMode::Keys } else { AuthMode::None };
        let Some(auth) = written else { return Auth { mode: by_default, at: None, how: How::Default } };
        match &auth.value.mode {
            Some(mode) => Auth { mode: mode.value.into(), at: mode.at, how: How::Written },
            None if self.findings.maimed(auth.at) => Auth { mode: by_default, at: None, how: How::Refused },
            None => Auth { mode: by_default, at: None, how: How::Default },
        }
    }

    /// Rules between sections.
    fn together(&mut self, config: &Config, auth: &Auth, listen_at: Option<usize>) {
        if auth.how == How::Refused {
            return; // what the user wanted is not known
        }
        let listen = config.server.listen;
        if auth.mode == AuthMode::None && !listen.ip().to_canonical().is_loopback() {
            if auth.how == How::Written {
                let message = format!("everybody who reaches {listen} may call: `auth.mode` is `none`");
                self.findings.warn(auth.at, message);
            } else {
                self.findings.problem(
                    listen_at,
                    format!(
                        "`server.listen`: {listen} is not a loopback address, so callers must be known: add [[keys]], \
                         set auth.mode = \"passthrough\", or write auth.mode = \"none\" to let everybody in"
                    ),
                );
            }
        }
        if listen == config.admin.listen && listen.port() != 0 {
            self.findings.problem(listen_at, format!("`server.listen` and `admin.listen` are both {listen}"));
        }
        self.mode_and_keys(config, auth);
        self.mode_and_upstreams(config, auth);
    }

    fn mode_and_keys(&mut self, config: &Config, auth: &Auth) {
        match (auth.mode, config.keys.is_empty()) {
            (AuthMode::Keys, true) if self.findings.clean() => {
                self.findings
                    .warn(auth.at, "every call is refused: `auth.mode` is `keys` and there are no [[keys]]");
            }
            (AuthMode::None | AuthMode::Passthrough, false) => {
                self.findings.warn(auth.at, "[[keys]] have no effect with this `auth.mode`");
            }
            _ => {}
        }
    }

    fn mode_and_upstreams(&mut self, config: &Config, auth: &Auth) {
        let count = config.upstreams.len();
        if auth.mode == AuthMode::Passthrough && count > 1 {
            let message = "`auth.mode`: `passthrough` takes one upstream: a client has one `Authorization` header, \
                           and it must not reach servers that it is not for";
            self.findings.problem(auth.at, message);
        }
        let only = config.upstreams.first().filter(|_| count == 1).map(|one| &one.target);
        if auth.mode == AuthMode::Passthrough
            && only.is_some_and(|t| !matches!(t, super::Target::Http(_) | super::Target::Replicas(_)))
        {
            let message = "`auth.mode`: `passthrough` needs an upstream with a `url`: the built-in tools and commands \
                           ask nobody who they are";
            self.findings.problem(auth.at, message);
        }
    }

    /// Parses a written value, or its default.
    fn value<W: AsRef<str>, T>(
        &mut self,
        key: &str,
        written: Option<&At<W>>,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let parsed = written.and_then(|w| self.parsed(key, w, &parse));
        parsed.unwrap_or_else(|| parse(default).expect("every default is well-formed"))
    }

    /// Parses a written value; says what is wrong with it.
    fn parsed<W: AsRef<str>, T>(
        &mut self,
        key: &str,
        written: &At<W>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let parsed = parse(written.value.as_ref());
        parsed.map_err(|why| self.findings.problem(written.at, format!("`{key}`: {why}"))).ok()
    }
}

struct Auth {
    mode: AuthMode,
    at: Option<usize>,
    how: How,
}

#[derive(PartialEq)]
enum How {
    Written,
    Default,
    Refused,
}

impl From<file::AuthMode> for AuthMode {
    fn from(mode: file::AuthMode) -> Self {
        match mode {
            file::AuthMode::Keys => Self::Keys,
            file::AuthMode::Passthrough => Self::Passthrough,
            file::AuthMode::None => Self::None,
        }
    }
}

/// A written word, or its default.
fn word<T: Copy + for<'de> Deserialize<'de>>(written: Option<&At<T>>, default: &str) -> T {
    let by_default = || T::deserialize(StrDeserializer::<serde::de::value::Error>::new(default));
    written.map_or_else(|| by_default().expect("every default is one of the words"), |w| w.value)
}
