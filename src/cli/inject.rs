//! `smartgate inject`: the sidecar in workloads of a file, or by a webhook. Owns the command line, files and the listener.

use std::{
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Parser, Subcommand};

use super::{FAILURE, print, usage};
use crate::{
    config::ServerTls,
    inject::{self, Names, Outcome, Sidecar, webhook::Webhook, yaml},
    server::{self, Drain, Options, tls},
    signal::Signals,
    telemetry,
};

/// Time for a request head of the API server, and to keep its connection idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// How long reviews in flight may go on after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// `inject`
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  \
    smartgate inject -f deployment.yaml | kubectl apply -f -\n  \
    kustomize build . | smartgate inject -f - --image registry.example/smartgate:0.1.0\n\n\
    Each workload gets the sidecar of deploy/kubernetes/component, unless it is labelled smartgate=off. The pod reads\n  \
    smartgate.toml from the ConfigMap, and keys from the Secret. The annotation smartgate/container names the server's\n  \
    container where it is not the first. Kinds that are not known and have containers are named and left alone. Objects are written anew: comments and layout are lost.\n\
    Exit code: 0 if something was injected or had the sidecar, 1 if nothing was or one could not be; 64 if a file is not\n  \
    YAML.")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// File of Kubernetes objects; - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    names: Flags,
}

/// What differs from the component.
#[derive(Debug, Clone, clap::Args)]
struct Flags {
    /// The gateway's image [default: the one of this version]
    #[arg(long)]
    image: Option<String>,
    /// The ConfigMap that has smartgate.toml [default: smartgate]
    #[arg(long, value_name = "NAME")]
    config_map: Option<String>,
    /// The Secret that has the keys [default: smartgate-keys]
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the API server as a mutating webhook, at /inject
    #[command(after_help = "Example:\n  smartgate inject serve --cert /tls/tls.crt --key /tls/tls.key\n\n\
        The certificate is read again when its files change. deploy/kubernetes/webhook has what belongs around it.")]
    Serve {
        /// Address to listen on
        #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
        listen: SocketAddr,
        /// Certificate chain, PEM
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,
        /// Its private key, PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        #[command(flatten)]
        names: Flags,
    },
}

impl From<Flags> for Names {
    fn from(flags: Flags) -> Self {
        Self { image: flags.image, config_map: flags.config_map, secret: flags.secret }
    }
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Some(Command::Serve { listen, cert, key, names }) => {
            serve(listen, ServerTls { cert, key, client_ca: None }, names.into())
        }
        None if args.file.is_empty() => usage("-f FILE is wanted, or 'serve'"),
        None => files(&args.file, args.names.into()),
    }
}

fn files(files: &[PathBuf], names: Names) -> ExitCode {
    let sidecar = Sidecar::new(&names);
    let (mut documents, mut good, mut all) = (Vec::new(), false, true);
    for file in files {
        let read = read(file).and_then(|text| yaml::read(&text));
        match read {
            Ok(read) => documents.extend(read),
            Err(why) => return usage(&format!("{}: {why}", file.display())),
        }
    }
    for document in &mut documents {
        for (name, outcome) in inject::object(&sidecar, document) {
            good |= matches!(outcome, Outcome::Added { .. } | Outcome::There);
            all &= !matches!(outcome, Outcome::Impossible(_));
            eprintln!("{name}: {}", said(&outcome));
        }
    }
    let printed = match yaml::write(&documents) {
        Ok(text) => print(&text),
        Err(why) => return usage(&why),
    };
    if !good && all {
        eprintln!("smartgate: there is no workload to inject into");
    }
    if good && all { printed } else { ExitCode::from(FAILURE) }
}

fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|e| e.to_string())?;
    Ok(text)
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Added { server, warnings } => {
            let warnings: String = warnings.iter().map(|w| format!("; warning: {w}")).collect();
            format!("sidecar added before '{server}'{warnings}")
        }
        Outcome::There => "has the sidecar already".to_owned(),
        Outcome::Off => "left alone, its label says off".to_owned(),
        Outcome::Unknown => {
            "left alone: it has containers, but this kind is not known here; the webhook takes its pods if they are \
             labelled smartgate=on"
                .to_owned()
        }
        Outcome::Impossible(why) => format!("left alone: {why}"),
    }
}

fn serve(listen: SocketAddr, files: ServerTls, names: Names) -> ExitCode {
    telemetry::init_logs();
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    match runtime.block_on(answer(listen, &files, names)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => usage(&why),
    }
}

async fn answer(listen: SocketAddr, files: &ServerTls, names: Names) -> Result<(), String> {
    let mut signals = Signals::register().map_err(|e| format!("signals: {e}"))?;
    let (acceptor, reloader) = tls::Acceptor::load(files)?;
    let listener = server::bind(listen).map_err(|e| format!("cannot listen on {listen}: {e}"))?;
    tracing::info!(address = %listen, "answering admission reviews");
    let drain = Drain::default();
    let renew = tokio::spawn(reloader.run());
    let options =
        Options { header_timeout: HEADER_TIMEOUT, tls: Some(acceptor), on_refused: Arc::new(|_| {}) };
    let webhook = Arc::new(Webhook(Sidecar::new(&names)));
    let mut serving = tokio::spawn(server::serve(listener, options, webhook, drain.clone()));
    signals.stop.next().await;
    let served = tokio::select! {
        served = &mut serving => served,
        () = drain.run(GRACE, signals.stop.next()) => serving.await,
    };
    renew.abort();
    served.map_err(|e| format!("the listener failed: {e}"))
}
