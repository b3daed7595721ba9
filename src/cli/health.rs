//! `smartgate health`: asks a running gateway how it is, for images without a shell. Owns the exit codes; what is
//! ready is the gateway's to say.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use bytes::Bytes;
use clap::Parser;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

use super::{FAILURE, USAGE, print};
use crate::config::{self, CliOverrides, Problems};

/// Largest answer that is read, in bytes.
const LARGEST: usize = 1024 * 1024;

/// `health`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate health                                 the gateway on 127.0.0.1:9787\n  \
    smartgate health -c /etc/smartgate/smartgate.toml\n\n\
    Exit code: 0 if it is ready, with --live if it answers at all; 1 if not; 64 for a wrong configuration.")]
pub struct Args {
    /// Configuration file that the admin address is taken from
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// The admin address itself
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Ask only whether the process answers, not whether it takes calls
    #[arg(long)]
    live: bool,
    /// Seconds to wait for the answer
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    timeout: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    let address = match address(args) {
        Ok(address) => address,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(USAGE);
        }
    };
    let url = format!("http://{address}/{}", if args.live { "healthz" } else { "readyz" });
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let answer = runtime.block_on(async {
        let limit = Duration::from_secs(args.timeout);
        tokio::time::timeout(limit, ask(&url)).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    });
    match answer {
        Ok((StatusCode::OK, body)) => print(&format!("{}\n", body.trim_end())),
        Ok((status, body)) => fail(&format!("{url} answers {status}: {}", body.trim_end())),
        Err(why) => fail(&format!("{url}: {why}")),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("smartgate: {why}");
    ExitCode::from(FAILURE)
}

/// Where a process on this machine reaches the admin listener.
fn address(args: &Args) -> Result<SocketAddr, Problems> {
    let mut address = match (&args.admin, &args.config) {
        (Some(address), _) => *address,
        (None, Some(file)) => config::load(file)?.config.admin.listen,
        (None, None) => config::default_with(&CliOverrides::default())?.config.admin.listen,
    };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            [0, 0, 0, 0, 0, 0, 0, 1].into()
        });
    }
    Ok(address)
}

async fn ask(url: &str) -> Result<(StatusCode, String), String> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri = url.parse().map_err(|e| format!("{e}"))?;
    let answer = client.get(uri).await.map_err(|e| match std::error::Error::source(&e) {
        Some(cause) => cause.to_string(),
        None => e.to_string(),
    })?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|e| e.to_string())?;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_means_any_is_asked_on_loopback() {
        let at = |text: &str| {
            let args = Args::try_parse_from(["health", "--admin", text]).unwrap();
            address(&args).unwrap().to_string()
        };
        assert_eq!(at("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(at("[::]:1"), "[::1]:1");
        assert_eq!(at("10.0.0.1:1"), "10.0.0.1:1");
    }
}
