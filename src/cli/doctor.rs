//! `smartgate doctor URL`: examines an MCP server. Owns the command line and the exit code; what is asked is in
//! `doctor`.

use std::{process::ExitCode, time::Duration};

use super::{FAILURE, print, usage};
use crate::{
    config::{self, Target},
    doctor::{Report, examine},
    upstream::http::HttpUpstream,
};

/// `doctor`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    smartgate doctor http://127.0.0.1:3001/mcp\n  \
    smartgate doctor https://example.com/mcp --header 'Authorization: env:TOKEN' --json\n\n\
    A tool is called only if the server annotates it read-only, or --tool names it and it is not annotated destructive; with\n  \
    the smallest arguments that its schema takes. The row `called` says which. docs/doctor.md explains every row.\n\
    Exit code: 0 if a client can use the server; 1 if not; 64 for wrong usage.")]
pub struct Args {
    /// Where the server is
    url: String,
    /// A header of every request, as 'NAME: VALUE'; the value may be env:NAME or file:PATH
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The tool to call, instead of the first that is annotated read-only
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Longest time for one answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let spec = match spec(args) {
        Ok(spec) => spec,
        Err(why) => return usage(&why),
    };
    let upstream = match HttpUpstream::new(&spec) {
        Ok(upstream) => upstream,
        Err(why) => return usage(&why),
    };
    let path = match &spec.target {
        Target::Http(url) => url.path().to_owned(),
        _ => return usage("a URL is wanted"),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let findings =
        runtime.block_on(examine(&upstream, &path, args.tool.as_deref(), Duration::from_secs(args.timeout)));
    let usable = findings.is_usable();
    let report = Report { url: args.url.clone(), findings };
    let printed = print(&if args.json { format!("{:#}\n", report.json()) } else { report.to_string() });
    if usable { printed } else { ExitCode::from(FAILURE) }
}

/// The server as a configuration would have it, so that TLS, headers and secrets are read by the same rules.
fn spec(args: &Args) -> Result<config::Upstream, String> {
    let mut text = toml::Table::new();
    let mut upstream = toml::Table::new();
    upstream.insert("url".into(), args.url.clone().into());
    let mut headers = toml::Table::new();
    for header in &args.headers {
        let (name, value) =
            header.split_once(':').ok_or_else(|| "--header wants 'NAME: VALUE'".to_owned())?;
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().into());
    }
    upstream.insert("headers".into(), headers.into());
    text.insert("upstreams".into(), toml::Table::from_iter([("server".into(), upstream.into())]).into());
    let text = toml::to_string(&text).map_err(|_| "a header cannot be written down".to_owned())?;
    let base = std::env::current_dir().unwrap_or_default();
    let loaded = config::from_str(&text, &base, "command line").map_err(|problems| {
        // Places in a file that nobody wrote would puzzle.
        let texts: Vec<_> = problems.0.iter().map(|p| p.message.clone()).collect();
        texts.join("\nsmartgate: ")
    })?;
    loaded.config.upstreams.into_iter().next().ok_or_else(|| "there is no server to examine".to_owned())
}
