//! One child process: started in a process group of its own with only the environment that it may see, heard line
//! by line, and ended with its whole group.
//!
//! Invariant: dropping a [`Child`] ends the process. First its standard input closes, which is how a server is told to
//! end (stdio transport, shutdown); then its group gets SIGTERM; what is left of the group two seconds later gets
//! SIGKILL. Where the gateway itself is killed the warden does the same.

use std::{
    ffi::OsString,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustix::process::Pid;
use tokio::{
    io::AsyncWriteExt,
    process::{self, ChildStderr, ChildStdin, ChildStdout},
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    framing::{Line, Lines, Long, MAX_LINE},
    group::Group,
    noise::Noise,
};
use crate::{config, upstream::pace::Pace};

/// How long a child has to end by itself when one of its pipes has closed.
const EXIT: Duration = Duration::from_millis(500);
/// How long the rest of a dead child's output is read.
const REST: Duration = Duration::from_secs(1);
/// Longest line of standard error that is logged, in bytes.
const MAX_LOGGED: usize = 4 * 1024;

/// Variables that a child gets from the gateway's own environment: those without which programs do not find
/// their parts, and no secrets.
const INHERITED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG"];

/// Who hears a child.
pub(super) trait Listener: Send + Sync + 'static {
    /// A line of its standard output. The next is read when this is done.
    fn line(&self, line: Bytes) -> impl Future<Output = ()> + Send;
    /// A line that was too long.
    fn long(&self, line: &Long);
    /// Nothing more will come. Called once; the text ends a sentence that starts with the command.
    fn ended(&self, why: &str);
}

/// A running child. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Child {
    stop: CancellationToken,
    started: Instant,
}

impl Child {
    /// Starts the command. Lines from `orders` go to its standard input.
    ///
    /// # Errors
    /// The system's: there is no such program, or no room for a process.
    pub(super) fn start<L: Listener>(
        upstream: &Arc<str>,
        command: &config::Command,
        tasks: &TaskTracker,
        orders: mpsc::Receiver<Bytes>,
        listener: Arc<L>,
    ) -> std::io::Result<Self> {
        let mut process = prepare(command).spawn()?;
        let id = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(id), Some(stdin), Some(stdout), Some(stderr)) =
            (id, process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(std::io::Error::other("it has no pipes"));
        };
        tracing::debug!(upstream = &**upstream, pid = id.as_raw_nonzero().get(), "command started");
        let stop = CancellationToken::new();
        let pipes = (stdin, stdout, stderr);
        let noise = Noise::new(Arc::clone(upstream), command);
        let life = live(process, Group::of(id), pipes, orders, listener, noise, stop.clone());
        tasks.spawn(life);
        Ok(Self { stop, started: Instant::now() })
    }

    /// Ends the process, in the background.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// When it was started.
    pub(super) fn started(&self) -> Instant {
        self.started
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop();
    }
}

fn prepare(command: &config::Command) -> process::Command {
    let mut prepared = process::Command::new(&command.program);
    prepared
        .args(&command.arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_inherited(name)))
        .envs(command.env.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = &command.cwd {
        prepared.current_dir(folder);
    }
    prepared
}

fn is_inherited(name: &OsString) -> bool {
    name.to_str().is_some_and(|n| INHERITED.contains(&n) || n.starts_with("LC_"))
}

/// From the start of a process to its end.
async fn live<L: Listener>(
    mut process: process::Child,
    group: Group,
    (stdin, stdout, stderr): (ChildStdin, ChildStdout, ChildStderr),
    orders: mpsc::Receiver<Bytes>,
    listener: Arc<L>,
    noise: Noise,
    stop: CancellationToken,
) {
    let pace = Arc::new(Pace::default());
    let mut hearing = tokio::spawn(hear(stdout, Arc::clone(&listener), Arc::clone(&pace)));
    let mut telling = tokio::spawn(tell(stdin, orders));
    let logging = tokio::spawn(log(stderr, noise, pace));
    let (stopped, status) = tokio::select! {
        status = process.wait() => (false, status.ok()),
        _ = &mut hearing => (false, None),
        _ = &mut telling => (false, None),
        () = stop.cancelled() => (true, None),
    };
    if stopped {
        listener.ended("was stopped");
    }
    telling.abort();
    let status = match status {
        None => timeout(EXIT, process.wait()).await.ok().and_then(Result::ok),
        status => status,
    };
    match status {
        // Nobody is left who could end tidily.
        Some(_) => group.kill(),
        None => group.end(&mut process).await,
    }
    if !stopped {
        if !hearing.is_finished() {
            drop(timeout(REST, &mut hearing).await);
        }
        listener.ended(&how(status));
    }
    hearing.abort();
    drop(timeout(REST, logging).await);
}

/// How a process ended that was not told to.
fn how(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("ended ({status})"),
        None => "closed its input or output".into(),
    }
}

async fn hear<L: Listener>(stdout: ChildStdout, listener: Arc<L>, pace: Arc<Pace>) {
    let mut lines = Lines::new(stdout, MAX_LINE);
    while let Ok(Some(line)) = lines.next().await {
        let bytes = line.length();
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => listener.line(line).await,
            Line::Long(long) => listener.long(&long),
        }
        keep_pace(&pace, bytes).await;
    }
}

/// Until then the pipe is full, and the child waits.
async fn keep_pace(pace: &Pace, bytes: u64) {
    if let Some(until) = pace.take_line(bytes) {
        sleep_until(until).await;
    }
}

/// Ends when the pipe breaks; whoever sends to a full queue waits.
async fn tell(mut stdin: ChildStdin, mut orders: mpsc::Receiver<Bytes>) {
    while let Some(line) = orders.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn log(stderr: ChildStderr, mut noise: Noise, pace: Arc<Pace>) {
    let mut lines = Lines::new(stderr, MAX_LOGGED);
    while let Ok(Some(line)) = lines.next().await {
        let bytes = line.length();
        match line {
            Line::Whole(line) => noise.log(&line),
            Line::Long(long) => noise.log(&long.head),
        }
        keep_pace(&pace, bytes).await;
    }
}
