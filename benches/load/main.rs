//! Load benchmark: measures the gateway beside its baselines and prints one table.
//!
//! Owns the command line and the list of cases. One binary plays every part: with `--role NAME` it is the
//! upstream, the bare pass-through, the OTLP sink or the holder of idle streams, each in a process of its
//! own. Times are figures to read: nothing here fails because something was slow, only because it was wrong.

mod bare;
mod bodies;
mod cases;
mod client;
mod gateway;
mod nginx;
mod process;
mod serve;
mod sink;
mod stats;
mod streams;
mod table;
mod upstream;
mod wrk;

use std::{error::Error, path::PathBuf, process::ExitCode};

use table::Table;

/// What every part returns: any error ends the run with its text.
pub(crate) type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
cargo bench --bench load -- [--quick] [--baseline | --gateway FILE] [CASE]...
  CASE       throughput latency several start streams keys sweep repair (default: all)
  --quick    a few seconds in all: proves that every part runs; its figures mean little
  --baseline leave the gateway out
  --gateway  measure this smartgate binary instead of the one just built";

/// What the command line asked for.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    /// The gateway's program; none with `--baseline`.
    pub(crate) gateway: Option<PathBuf>,
    cases: Vec<String>,
}

impl Plan {
    fn parse(mut args: impl Iterator<Item = String>) -> Res<Self> {
        let mut plan =
            Self { quick: false, gateway: Some(env!("CARGO_BIN_EXE_smartgate").into()), cases: Vec::new() };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => {}
                "--quick" => plan.quick = true,
                "--gateway" => plan.gateway = Some(args.next().ok_or(USAGE)?.into()),
                "--baseline" => plan.gateway = None,
                name if cases::ALL.iter().any(|(known, _)| *known == name) => plan.cases.push(arg),
                _ => return Err(format!("unknown argument {arg}\n{USAGE}").into()),
            }
        }
        Ok(plan)
    }

    fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }

    /// `full`, or `quick` with `--quick`.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let outcome = if args.next_if(|arg| arg == "--role").is_some() {
        play(&args.collect::<Vec<_>>())
    } else if args.peek().is_none() || args.peek().is_some_and(|arg| arg == "--list") {
        return ExitCode::SUCCESS; // a test runner is looking for tests; there are none here
    } else {
        measure(args)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(args: &[String]) -> Res<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["upstream"] => upstream::run(None),
        ["upstream", tools] => upstream::run(Some(tools.parse()?)),
        ["bare", upstream] => bare::run(upstream),
        ["sink"] => sink::run(),
        ["streams", address, count] => streams::run(address.parse()?, count.parse()?),
        _ => Err(format!("no such role: {args:?}").into()),
    }
}

fn measure(args: impl Iterator<Item = String>) -> Res<()> {
    let plan = Plan::parse(args)?;
    let mut table = Table::default();
    let wanted = cases::ALL.iter().filter(|(name, _)| plan.wants(name));
    let outcome = wanted.into_iter().try_for_each(|(name, case)| {
        eprintln!("load: {name} ...");
        case(&plan, &mut table).map_err(|error| format!("{name}: {error}").into())
    });
    print!("{table}");
    outcome
}
