//! `smartgate audit keygen`. Invariant: the private key goes to a file that only its owner can read, and nowhere else
//! unless asked.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    cli::{FAILURE, print},
    signing::{PublicKey, new_key},
};

/// `audit keygen`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit keygen audit.key                       makes the file; prints what goes into smartgate.toml\n  \
    smartgate audit keygen --print | vault kv put secret/audit key=-\n\n\
    Keep the public key, and the checkpoints that the gateway logs, where nobody who can write the journal can\n  \
    change them.")]
pub(super) struct Args {
    /// File for the private key, PKCS#8 in PEM, mode 0600; it must not exist. FILE.pub gets the public key
    #[arg(value_name = "FILE", default_value = "audit.key")]
    file: PathBuf,
    /// Write the private key to stdout instead, and everything else to stderr
    #[arg(long)]
    print: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let made = new_key().and_then(|(private, public)| {
        if !args.print {
            keep(&args.file, &private, 0o600)?;
            keep(&public_file(&args.file), &format!("{}\n", public.to_hex()), 0o644)?;
        }
        Ok((private, public))
    });
    match made {
        Ok((private, public)) if args.print => {
            eprint!("{}", page("env:AUDIT_KEY", &public, ""));
            print(&private)
        }
        Ok((_, public)) => {
            let also = format!(" (also in {})", public_file(&args.file).display());
            print(&page(&format!("file:{}", args.file.display()), &public, &also))
        }
        Err(why) => {
            eprintln!("smartgate: {why}");
            ExitCode::from(FAILURE)
        }
    }
}

fn public_file(private: &Path) -> PathBuf {
    let mut name = private.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn keep(file: &Path, text: &str, mode: u32) -> Result<(), String> {
    let open = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = open.and_then(|mut f| {
        f.write_all(text.as_bytes())?;
        f.sync_all()
    });
    written.map_err(|e| format!("cannot write {}: {e}", file.display()))
}

fn page(place: &str, public: &PublicKey, also: &str) -> String {
    format!(
        "[audit]\nsigning_key = {}\n# public key {}{also}\n# checkpoints name it {}\n",
        toml::Value::from(place),
        public.to_hex(),
        public.id()
    )
}
