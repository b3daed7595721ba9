//! `smartgate serve`: which configuration the flags and the file make. `app` runs it.

use std::path::PathBuf;

use clap::Parser;

use crate::config::{self, CliOverrides, Loaded, Problems};

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
}

impl Args {
    /// What the command line says over the file; a reload applies it again.
    #[must_use]
    pub fn overrides(&self) -> CliOverrides {
        CliOverrides {
            listen: self.listen.clone(),
            upstreams: CliOverrides::upstreams(&self.upstream),
            builtin: self.builtin,
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
