//! Secrets and files that the configuration names. Owns `env:NAME` and `file:PATH`; what goes wrong names the
//! variable or the file, never the value.

use std::{
    collections::BTreeMap,
    env::VarError,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::Checker;
use crate::config::{
    Secret, Source, file,
    text::{At, PathText, SecretText},
};

/// Shortest key that seals, in characters: 128 random bits in hex.
const SEALING_MIN: usize = 32;

/// Largest file that is read for a secret; a longer one is a wrong path.
const MAX_SECRET: u64 = 64 * 1024;

/// Headers that belong to the connection or to the message as the gateway sends it.
const NOT_FREE: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Checker<'_> {
    /// Headers whose values are secrets.
    pub(super) fn headers(
        &mut self,
        key: &str,
        written: BTreeMap<String, At<SecretText>>,
    ) -> BTreeMap<String, Secret> {
        let mut headers = BTreeMap::new();
        for (name, value) in written {
            match self.header(&name, &value.value.0) {
                Err(why) => self.findings.problem(value.at, format!("`{key}.{name}`: {why}")),
                Ok((name, secret)) => {
                    if headers.insert(name.clone(), secret).is_some() {
                        self.findings.problem(value.at, format!("`{key}`: `{name}` is there twice"));
                    }
                }
            }
        }
        headers
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(String, Secret), String> {
        let parsed = HeaderName::try_from(name).map_err(|_| "is no header name".to_owned())?;
        if NOT_FREE.contains(&parsed.as_str()) {
            return Err("is set by the gateway".into());
        }
        let value = self.secret(value)?;
        HeaderValue::try_from(&value).map_err(|_| "its value cannot stand in a header".to_owned())?;
        Ok((parsed.as_str().to_owned(), Secret::new(&value)))
    }

    /// `sealing.keys`
    pub(super) fn sealing(&mut self, written: file::Sealing) -> Vec<Secret> {
        let mut keys = Vec::with_capacity(written.keys.len());
        for key in written.keys {
            let long = |secret: &String| secret.chars().count() >= SEALING_MIN;
            let too_short = || format!("must have at least {SEALING_MIN} characters");
            let secret = self.secret(&key.value.0);
            match secret.and_then(|s| Some(s).filter(long).ok_or_else(too_short)) {
                Ok(secret) => keys.push(Secret::new(&secret)),
                Err(why) => self.findings.problem(key.at, format!("`sealing.keys`: {why}")),
            }
        }
        keys
    }

    /// The secret that `env:NAME`, `file:PATH` or the text itself stands for.
    pub(super) fn secret(&mut self, written: &str) -> Result<String, String> {
        if let Some(name) = written.strip_prefix("env:") {
            self.secret_from_env(name)
        } else if let Some(path) = written.strip_prefix("file:") {
            self.secret_from_file(path)
        } else {
            some(written, "is empty")
        }
    }

    pub(super) fn secret_from_env(&self, name: &str) -> Result<String, String> {
        match (self.env)(name) {
            Ok(value) => some(&value, &format!("the environment variable {name} is empty")),
            Err(VarError::NotPresent) => Err(format!("the environment variable {name} is not set")),
            Err(VarError::NotUnicode(_)) => Err(format!("the environment variable {name} is not UTF-8")),
        }
    }

    pub(super) fn secret_from_file(&mut self, path: &str) -> Result<String, String> {
        let path = self.resolve(path);
        let bytes = read(&path, MAX_SECRET)?;
        self.sources.push(Source { path: path.clone(), sha256: Sha256::digest(&bytes).into() });
        let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
        some(text.trim_end_matches(['\r', '\n']), &format!("{} is empty", path.display()))
    }

    /// The path of a file that can be read now; a problem otherwise.
    pub(super) fn readable(&mut self, key: &str, written: &At<PathText>) -> PathBuf {
        let path = self.resolve(&written.value.0);
        if let Err(why) = open(&path) {
            self.findings.problem(written.at, format!("`{key}`: {why}"));
        }
        path
    }

    /// A path as written, from the folder of the file.
    pub(super) fn resolve(&self, written: &str) -> PathBuf {
        self.base.join(written)
    }
}

fn some(value: &str, otherwise: &str) -> Result<String, String> {
    if value.is_empty() { Err(otherwise.to_owned()) } else { Ok(value.to_owned()) }
}

fn open(path: &Path) -> Result<File, String> {
    let why = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    // Opening a pipe that nobody writes to would wait for ever.
    if !fs::metadata(path).map_err(why)?.is_file() {
        return Err(format!("cannot read {}: it is not a file", path.display()));
    }
    File::open(path).map_err(why)
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(max + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    if bytes.len() as u64 > max {
        return Err(format!("{} is longer than {max} bytes", path.display()));
    }
    Ok(bytes)
}
