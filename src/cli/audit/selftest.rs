//! `smartgate audit selftest`: a record is sent the way of every record. Beside a running gateway, which holds the
//! journal, that gateway is asked to do it, and the line is looked for here. Invariant: it passes only if the line is in
//! the journal that the configuration names.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Parser;

use crate::{
    audit::{Recorder, StartError},
    cli::{FAILURE, print, serve, usage},
    config::Config,
    metrics::Metrics,
    server::admin::{SELFTEST, SELFTEST_PATH},
};

/// A self-test waits for the disk and for a collector, ten seconds each.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where the line is looked for: a busy gateway adds others meanwhile.
const TAIL: u64 = 64 * 1024 * 1024;

/// `audit selftest`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit selftest                        as `serve` without a file would record\n  \
    smartgate audit selftest -c smartgate.toml\n\n\
    While a gateway runs with this file, it is asked at its admin listener. Exit code: 0 if the record arrived\n  \
    everywhere; 1 if not; 64 if the configuration is wrong.")]
pub(super) struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let serve = serve::Args {
        config: args.config.clone(),
        listen: None,
        upstream: Vec::new(),
        builtin: false,
        ephemeral: false,
    };
    let config = match serve.load() {
        Ok(loaded) => loaded.config,
        Err(problems) => return usage(&problems.to_string()),
    };
    let result = match Recorder::start(&config.audit, &config.telemetry, Arc::new(Metrics::new())) {
        Ok((recorder, thread)) => {
            let proof = recorder.prove();
            thread.stop();
            let is_well = proof.passed() == Some(true);
            if is_well { Ok(proof.to_string()) } else { Err(proof.to_string()) }
        }
        Err(StartError::Locked(_)) => beside(&config),
        Err(error) => return usage(&error.to_string()),
    };
    match result {
        Ok(what) => print(&format!("{what}\nresult     ok\n")),
        Err(why) => {
            eprintln!("smartgate: {why}");
            ExitCode::from(FAILURE)
        }
    }
}

/// Asks the gateway that has the journal.
fn beside(config: &Config) -> Result<String, String> {
    let admin = reachable(config.admin.listen);
    let answer = ask(admin).map_err(|e| {
        format!("the journal is in use by a running gateway, which cannot be asked at http://{admin}: {e}")
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("the gateway at http://{admin} answered {status}: {body}"));
    }
    let (position, what) = body.split_once('\n').unwrap_or_default();
    let hash = position.rsplit(':').next().unwrap_or_default();
    match holds(&config.audit.journal.path, hash) {
        Ok(true) => Ok(format!("the gateway at http://{admin} was asked: {what}")),
        Ok(false) => Err(format!("the gateway at http://{admin} writes another journal than this file's")),
        Err(e) => Err(format!("{}: {e}", config.audit.journal.path.display())),
    }
}

fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listen
}

fn ask(admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST {SELFTEST_PATH} HTTP/1.1\r\nhost: {admin}\r\n{SELFTEST}: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(64 * 1024).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Whether a line with this hash is among the last ones.
fn holds(journal: &Path, hash: &str) -> io::Result<bool> {
    let mut file = File::open(journal)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let needle = format!(",\"hash\":\"{hash}\"}}\n");
    Ok(hash.len() == 64 && memchr::memmem::find(&tail, needle.as_bytes()).is_some())
}
