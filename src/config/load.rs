//! From a path or a text to a checked configuration, with the command line on top. Owns what is read from disk:
//! every file that the result depends on is in [`Loaded::sources`], so that a reload can tell whether one changed.

use std::{
    env,
    path::{Path, PathBuf},
    str,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::de::DeTable;

use super::{
    Config, Problem, Problems,
    check::{self, Checker, NamedUpstreams},
    file::{self, File},
    problem::Findings,
    schema, shape,
    text::{AddressText, At, UrlsText},
};

/// What stands for the file in problems when there is none.
const COMMAND_LINE: &str = "command line";

/// A configuration that passed the check.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What works, but probably not as meant; in the order of the file.
    pub warnings: Vec<Problem>,
    /// Every file whose bytes the configuration came from: the configuration file first, then files of
    /// secrets. Certificates are not among them. Empty without a file.
    pub sources: Vec<Source>,
}

/// A file that was read, and what was in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
}

impl Source {
    /// Whether the file now has other bytes, or cannot be read. Follows symlinks, so that the swap of a
    /// ConfigMap's folder is seen.
    #[must_use]
    pub fn changed(&self) -> bool {
        std::fs::read(&self.path).map_or(true, |bytes| self.sha256 != <[u8; 32]>::from(Sha256::digest(bytes)))
    }
}

/// What the command line says over the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CliOverrides {
    /// `--listen`: instead of `server.listen`.
    pub listen: Option<String>,
    /// `--upstream`, as name and URL: with `builtin`, instead of all upstreams of the file.
    pub upstreams: Vec<(String, String)>,
    /// `--builtin`: the built-in tools beside those upstreams.
    pub builtin: bool,
    /// `--ephemeral`: instead of `storage.path`, memory.
    pub ephemeral: bool,
}

impl CliOverrides {
    /// Reads the values of `--upstream`, `[NAME=]URL`. Those without a name are `upstream`, `upstream-2`, ...
    #[must_use]
    pub fn upstreams<S: AsRef<str>>(values: &[S]) -> Vec<(String, String)> {
        let mut unnamed = 0;
        let mut named = |value: &S| match value.as_ref().split_once('=') {
            // A `=` behind a `:` or `/` belongs to the URL.
            Some((name, url)) if !name.contains([':', '/']) => (name.to_owned(), url.to_owned()),
            _ => {
                unnamed += 1;
                let name = if unnamed == 1 { "upstream".to_owned() } else { format!("upstream-{unnamed}") };
                (name, value.as_ref().to_owned())
            }
        };
        values.iter().map(&mut named).collect()
    }
}

/// Loads and checks a file.
///
/// # Errors
/// Everything that is wrong with it, syntax included.
pub fn load(path: &Path) -> Result<Loaded, Problems> {
    load_with(path, &CliOverrides::default())
}

/// Loads and checks a file with the command line on top.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, over: &CliOverrides) -> Result<Loaded, Problems> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| whole_file(&name, format!("cannot read the file: {e}")))?;
    let text = str::from_utf8(&bytes).map_err(|e| not_utf8(&name, &bytes, e.valid_up_to()))?;
    let base = path.parent().unwrap_or(Path::new(""));
    let mut loaded = from_text(text, base, &name, over, |name| env::var(name))?;
    let source = Source { path: path.to_owned(), sha256: Sha256::digest(&bytes).into() };
    loaded.sources.insert(0, source);
    Ok(loaded)
}

/// Checks a text as if it were a file of that name in `base_dir`.
///
/// # Errors
/// As [`load`].
pub fn from_str(text: &str, base_dir: &Path, file_name: &str) -> Result<Loaded, Problems> {
    from_text(text, base_dir, file_name, &CliOverrides::default(), |name| env::var(name))
}

/// The configuration without a file: loopback, the built-in tools or the upstreams of the command line, journal
/// in the state directory. One upstream alone is passed through.
///
/// # Errors
/// What is wrong with the command line, or that there is no state directory.
pub fn default_with(over: &CliOverrides) -> Result<Loaded, Problems> {
    let none = "there is no state directory: set XDG_STATE_HOME or HOME, or name a file with --config";
    let base = state_dir().ok_or_else(|| whole_file(COMMAND_LINE, none.into()))?;
    let alone = over.upstreams.len() == 1 && !over.builtin;
    let text = if alone { "[auth]\nmode = \"passthrough\"\n" } else { "" };
    let loaded = from_text(text, &base, COMMAND_LINE, over, |name| env::var(name));
    loaded.map_err(|Problems(list)| Problems(list.into_iter().map(|p| Problem { at: None, ..p }).collect()))
}

/// Where state lies without a file: `$XDG_STATE_HOME/smartgate`, else `~/.local/state/smartgate`
/// (XDG Base Directory specification 0.8). `None` without a home.
#[must_use]
pub fn state_dir() -> Option<PathBuf> {
    let absolute = |p: PathBuf| p.is_absolute().then_some(p);
    let state = env::var_os("XDG_STATE_HOME").and_then(|p| absolute(p.into()));
    let state = state.or_else(|| env::home_dir().and_then(absolute).map(|home| home.join(".local/state")));
    state.map(|dir| dir.join("smartgate"))
}

/// The journal of a gateway that runs without a file.
#[must_use]
pub fn default_journal() -> Option<PathBuf> {
    state_dir().map(|dir| dir.join(file::JOURNAL))
}

pub(super) fn from_text(
    text: &str,
    base: &Path,
    name: &str,
    over: &CliOverrides,
    env: fn(&str) -> Result<String, env::VarError>,
) -> Result<Loaded, Problems> {
    let mut findings = Findings::new(name, text);
    let (mut document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        findings.problem(Some(error.span().map_or(text.len(), |s| s.start)), error.message());
    }
    shape::fit(&mut document, &schema::schema(), &mut findings);
    if !errors.is_empty() {
        return Err(unfinished(findings));
    }
    let Ok(mut file) = File::deserialize(toml::de::Deserializer::from(document)) else {
        // The shape was fitted, so this is a fault of ours; its own message might show a secret.
        findings.problem(None, "the file has a shape that was not understood");
        return Err(unfinished(findings));
    };
    let upstreams = upstreams(&mut file, over, &mut findings);
    let mut checker = Checker { findings, base, env, sources: Vec::new() };
    let mut config = checker.check(file, upstreams);
    if over.ephemeral {
        config.storage.path = None;
    }
    let warnings = checker.findings.finish()?;
    Ok(Loaded { config, warnings, sources: checker.sources })
}

fn unfinished(findings: Findings<'_>) -> Problems {
    findings.finish().expect_err("a problem was just noted")
}

/// Puts the command line over the file, and takes the upstreams out of it.
fn upstreams(file: &mut File, over: &CliOverrides, findings: &mut Findings<'_>) -> NamedUpstreams {
    if let Some(listen) = &over.listen {
        file.server.listen = Some(At::outside(AddressText(listen.clone())));
    }
    let written = check::in_order(std::mem::take(&mut file.upstreams));
    if over.upstreams.is_empty() && !over.builtin {
        return written;
    }
    let mut upstreams: NamedUpstreams = Vec::new();
    for (name, url) in &over.upstreams {
        if upstreams.iter().any(|(other, _)| other == name) {
            findings.problem(None, format!("--upstream: `{name}` is there twice"));
        }
        let url = Some(At::outside(UrlsText::One(url.clone())));
        upstreams.push((name.clone(), At::outside(file::Upstream { url, ..Default::default() })));
    }
    if over.builtin {
        let builtin = Some(At::outside(true));
        let one = file::Upstream { builtin, ..Default::default() };
        upstreams.push((check::BUILTIN.to_owned(), At::outside(one)));
    }
    upstreams
}

fn whole_file(name: &str, message: String) -> Problems {
    Problems(vec![Problem { file: name.into(), at: None, message }])
}

fn not_utf8(name: &str, bytes: &[u8], at: usize) -> Problems {
    let good = str::from_utf8(&bytes[..at]).unwrap_or_default();
    let mut findings = Findings::new(name, good);
    findings.problem(Some(at), "the file is not UTF-8");
    unfinished(findings)
}
