//! `smartgate serve`: which configuration the flags and the file make, what is printed at the start, and the
//! runtime that [`app`] runs in.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use super::{FAILURE, USAGE, print};
use crate::{
    app,
    config::{self, CliOverrides, Config, Loaded, Problems},
    hosts::{self, Endpoints},
    pages::Listening,
    telemetry,
};

/// `serve`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate serve                                          the built-in tools, on 127.0.0.1:8787\n  \
    smartgate serve --upstream http://127.0.0.1:3001/mcp     one server, passed through\n  \
    smartgate serve -c smartgate.toml")]
pub struct Args {
    /// Configuration file; without one, a loopback listener
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on, instead of the file's
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// A server to put behind the gateway, may be given more than once; instead of the file's upstreams
    #[arg(long, value_name = "[NAME=]URL")]
    pub upstream: Vec<String>,
    /// The built-in tools beside the --upstream servers
    #[arg(long)]
    pub builtin: bool,
    /// Keep memory, references, budgets and the search index in memory only
    #[arg(long)]
    pub ephemeral: bool,
}

impl Args {
    /// What the command line says over the file; a reload applies it again.
    #[must_use]
    pub fn overrides(&self) -> CliOverrides {
        CliOverrides {
            listen: self.listen.clone(),
            upstreams: CliOverrides::upstreams(&self.upstream),
            builtin: self.builtin,
            ephemeral: self.ephemeral,
        }
    }

    /// The checked configuration of this command line.
    ///
    /// # Errors
    /// Everything that is wrong with the file and the flags.
    pub fn load(&self) -> Result<Loaded, Problems> {
        match &self.config {
            Some(file) => config::load_with(file, &self.overrides()),
            None => config::default_with(&self.overrides()),
        }
    }
}

/// Runs `smartgate serve` until a signal ends it.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let loaded = match args.load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(USAGE);
        }
    };
    telemetry::init_logs();
    loaded.warnings.iter().for_each(|w| tracing::warn!("{w}"));
    let file = args.config.clone().map(|path| app::File { path, overrides: args.overrides() });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("smartgate: cannot start the runtime: {e}");
            return ExitCode::from(FAILURE);
        }
    };
    let (code, why) = match runtime.block_on(app::serve(loaded, file, greet)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(app::Failure::Config(why)) => (USAGE, why),
        Err(app::Failure::Other(why)) => (FAILURE, why),
    };
    eprintln!("smartgate: {why}");
    ExitCode::from(code)
}

/// Tells where the gateway listens and what to paste into a host.
fn greet(config: &Config, at: Listening) {
    let mut config = config.clone();
    config.server.listen = at.mcp;
    let endpoints = Endpoints::of(&config);
    let block = hosts::block("generic", &endpoints).unwrap_or_default();
    let admin = if config.admin.key.is_some() || at.admin.ip().to_canonical().is_loopback() {
        format!("http://{}/activity", at.admin)
    } else {
        format!("http://{}/readyz (pages are off: they need admin.key on this address)", at.admin)
    };
    let text = format!("endpoint  {}\nadmin     {admin}\n\n{block}\n", endpoints.url);
    // A closed stdout is no reason not to serve.
    let _: ExitCode = print(&text);
}
