//! `smartgate key new NAME`: makes a bearer key. The secret is shown once, on stderr, and kept nowhere; the file gets
//! its SHA-256.

use std::process::ExitCode;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use clap::{Parser, Subcommand};
use sha2::{Digest, Sha256};

use super::{FAILURE, print, usage};

/// In front of every secret, so that scanners for leaked secrets can find it.
const PREFIX: &str = "sg_";
/// Random bytes in a secret. 256 bits: guessing is hopeless, and a plain hash of it needs no salt.
const SECRET_BYTES: usize = 32;

/// `key`
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key: prints the secret once, and the table for the configuration file
    #[command(after_help = "Example:\n  smartgate key new cursor-ada")]
    New {
        /// Name shown in the audit records
        name: String,
    },
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let Command::New { name } = args.command;
    if let Err(why) = crate::config::key_name(&name) {
        return usage(&format!("the name {why}"));
    }
    match secret() {
        Ok(secret) => {
            // Not on stdout, so that `>> smartgate.toml` does not keep it.
            eprintln!(
                "The secret, shown only this once. The client sends it as: Authorization: Bearer {secret}"
            );
            print(&page(&name, &secret))
        }
        Err(why) => {
            eprintln!("smartgate: cannot get random bytes: {why}");
            ExitCode::from(FAILURE)
        }
    }
}

/// A new secret.
pub(super) fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// A table for the configuration file, with the hash of the secret.
pub(super) fn page(name: &str, secret: &str) -> String {
    format!(
        "[[keys]]\nname = {}\nsha256 = \"{}\"\n",
        toml::Value::from(name),
        hex::encode(Sha256::digest(secret)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_long() {
        let (a, b) = (secret().unwrap(), secret().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), PREFIX.len() + 43);
    }

    #[test]
    fn page_is_toml_with_the_hash_of_the_secret() {
        let page = page("ada \"x\"", "abc");
        let table: toml::Table = page.parse().unwrap();
        let key = &table["keys"][0];
        assert_eq!(key["name"].as_str(), Some("ada \"x\""));
        // SHA-256 of "abc", from FIPS 180-2, appendix B.1.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(key["sha256"].as_str(), Some(hash));
        assert!(!page.contains("abc\n"));
    }
}
