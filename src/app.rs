//! Builds every long-lived part once, and is the only place that orders their start and stop.
//!
//! Start: listeners (so that a port in use is known first), recorder, snapshot with its catalogs, admin
//! pages, reload, then the MCP listener. Stop: the reverse, the recorder last, so that no call's record is lost.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::{
    audit::{Proven, Recorder, StartError},
    config::{CliOverrides, Config, Loaded},
    metrics::Metrics,
    pages::{self, Listening, Pages},
    proxy::{Desk, Gateway},
    reload::{Reloader, Trouble},
    server::{self, Drain, Options, admin::serve_admin, tls},
    signal::Signals,
    snapshot::Snapshot,
    systemd,
};

/// Why the program could not start.
#[derive(Debug)]
pub enum Failure {
    /// Settings or their surroundings are wrong: exit code 64.
    Config(String),
    /// Anything else: exit code 1.
    Other(String),
}

/// Where the configuration came from, to be read again.
#[derive(Debug, Clone)]
pub struct File {
    /// The path given with `--config`.
    pub path: PathBuf,
    /// The command line on top of it.
    pub overrides: CliOverrides,
}

/// Serves until a signal ends it. `started` is called once with the addresses that listen.
///
/// # Errors
/// What kept it from starting.
pub async fn serve(
    loaded: Loaded,
    file: Option<File>,
    started: impl FnOnce(&Config, Listening),
) -> Result<(), Failure> {
    let config = loaded.config.clone();
    let mut signals = Signals::register().map_err(|e| Failure::Other(format!("signals: {e}")))?;
    let listener = bind("server.listen", config.server.listen)?;
    let admin = bind("admin.listen", config.admin.listen)?;
    let tls = config.server.tls.as_ref().map(tls::Acceptor::load).transpose().map_err(Failure::Config)?;

    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = start_recorder(&config, &metrics).await?;
    let proven = prove_journal(&recorder).await;
    let drain = Drain::default();
    let tasks = TaskTracker::new();
    let snapshot = Snapshot::build(config.clone(), None, &tasks).map_err(Failure::Config)?;
    let desk = Desk { recorder, force: drain.force.clone() };
    let gateway = Arc::new(Gateway::new(snapshot, desk, Arc::clone(&metrics), tasks));

    let asked = Arc::downgrade(&gateway);
    metrics.before_telling(move |metrics| {
        if let Some(gateway) = asked.upgrade() {
            pages::refresh(&gateway, metrics);
        }
    });
    let trouble = Trouble::default();
    let draining = Arc::new(AtomicBool::new(false));
    let at = Listening { mcp: local(&listener), admin: local(&admin) };
    let pages_drain = Drain::default();
    let stop = pages_drain.graceful.clone();
    let pages = Pages::new(Arc::clone(&gateway), Arc::clone(&trouble), Arc::clone(&draining), at, stop);
    started(&config, at);
    prove_collector(&gateway.desk.recorder, proven);
    let pages_task = tokio::spawn(serve_admin(admin, pages, pages_drain.clone()));
    let watch = file.map(|f| Reloader::new(Arc::clone(&gateway), f, &loaded, trouble));
    let reload = tokio::spawn(async move {
        match watch {
            Some(watch) => watch.run(signals.reload).await,
            None => std::future::pending().await,
        }
    });
    let (acceptor, reloader) = tls.unzip();
    let renew = reloader.map(|r| tokio::spawn(r.run()));
    let options = Options {
        header_timeout: config.server.header_timeout,
        tls: acceptor,
        on_refused: {
            let metrics = Arc::clone(&metrics);
            Arc::new(move |why| metrics.http_refused(why.as_str()))
        },
    };
    let serving = tokio::spawn(server::serve(listener, options, Arc::clone(&gateway), drain.clone()));
    systemd::ready();

    signals.stop.next().await;
    systemd::stopping();
    draining.store(true, Ordering::Relaxed);
    let grace = gateway.snapshot.load().config.server.drain;
    tracing::info!(grace_s = grace.as_secs_f64(), "draining");
    let ending = drain.clone();
    let force = tokio::spawn(async move { ending.run(grace, async { signals.stop.next().await }).await });
    let served = serving.await;
    force.abort();
    reload.abort();
    if let Some(renew) = renew {
        renew.abort();
    }
    gateway.snapshot.load().retire(None);
    gateway.tasks.close();
    // Each catalog gives its farewell to the upstream a second, and each child two to end by itself; one that
    // hangs must not hold up the exit.
    let farewell = tokio::time::timeout(FAREWELL, gateway.tasks.wait()).await;
    if farewell.is_err() {
        tracing::debug!("an upstream did not take the end of the gateway's session in time");
    }
    if let Some(store) = gateway.snapshot.load().store.clone() {
        drop(tokio::task::spawn_blocking(move || store.flush()).await);
    }
    pages_drain.graceful.cancel();
    pages_drain.force.cancel();
    let paged = pages_task.await;
    let recorded = tokio::task::spawn_blocking(move || thread.stop()).await;
    tracing::info!("stopped");
    served.and(paged).and(recorded).map_err(|e| Failure::Other(format!("a task failed: {e}")))
}

fn bind(field: &str, addr: SocketAddr) -> Result<TcpListener, Failure> {
    server::bind(addr).map_err(|e| Failure::Config(format!("{field}: cannot listen on {addr}: {e}")))
}

fn local(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

async fn start_recorder(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<(Recorder, crate::audit::RecorderThread), Failure> {
    let (audit, telemetry, metrics) = (config.audit.clone(), config.telemetry.clone(), Arc::clone(metrics));
    let start = move || Recorder::start(&audit, &telemetry, metrics);
    match tokio::task::spawn_blocking(start).await {
        Ok(started) => started.map_err(|e: StartError| Failure::Config(e.to_string())),
        Err(e) => Err(Failure::Other(format!("the recorder failed to start: {e}"))),
    }
}

/// Before anything is served: what is on the disk then, and in the chain, includes the `start` record.
async fn prove_journal(recorder: &Recorder) -> Option<Proven> {
    let recorder = recorder.clone();
    tokio::task::spawn_blocking(move || recorder.prove_journal().ok()).await.ok().flatten()
}

/// A collector that does not answer holds up nothing, not even the end: the thread is no task of the runtime's. What
/// the self-test showed is one line of the log.
fn prove_collector(recorder: &Recorder, proven: Option<Proven>) {
    let recorder = recorder.clone();
    std::thread::spawn(move || {
        let proof = recorder.prove_collector(proven.as_ref());
        match proof.passed() {
            Some(true) => tracing::info!("self-test passed: {proof}"),
            // The calls are recorded all the same.
            _ if matches!(proof.journal, Some(Ok(_))) => tracing::warn!("self-test failed: {proof}"),
            _ => tracing::error!("self-test failed: {proof}"),
        }
    });
}

/// How long catalogs have to end their own sessions, and children to end.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(4);
