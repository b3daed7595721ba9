//! Child processes: started, watched through `/proc` and always stopped. Linux only, as the figures are.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::Res;

/// Descriptors a child may open: both ends of 10,000 streams, and room.
const DESCRIPTORS: u32 = 65_536;
/// Descriptors that a proxy needs beside its streams: listeners, journal, exporter.
const OTHER_DESCRIPTORS: u64 = 100;
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running child, stopped when dropped.
pub(crate) struct Process {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Runs this binary in a role; it prints its address when it is ready.
    pub(crate) fn role(args: &[&str]) -> Res<Self> {
        let me = std::env::current_exe()?;
        let mut command = unlimited(&me.to_string_lossy());
        command.arg("--role").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let address = line.trim().parse().map_err(|_| format!("{args:?} did not start: {line}"))?;
        Ok(Self { child, address })
    }

    /// Runs another program that will listen on `address`, and waits until it does.
    pub(crate) fn program(command: &mut Command, address: SocketAddr) -> Res<Self> {
        let mut process = Self { child: command.stdin(Stdio::null()).spawn()?, address };
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.child.try_wait()? {
                return Err(format!("{command:?} ended: {status}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("{command:?} does not listen on {address}").into());
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(process)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> Res<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// Processor seconds used so far by it and its direct children.
    pub(crate) fn cpu_seconds(&self) -> Res<f64> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let mut sum = cpu_seconds(&pid.to_string())?;
        for child in children.split_whitespace() {
            sum += cpu_seconds(child)?;
        }
        Ok(sum)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + STOP_LIMIT;
        while asked.is_ok() && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        if self.child.kill().is_ok() && self.child.wait().is_err() {
            eprintln!("load: process {} could not be stopped", self.child.id());
        }
    }
}

/// A command that runs `program` with as many descriptors as the machine allows, up to [`DESCRIPTORS`].
pub(crate) fn unlimited(program: &str) -> Command {
    let mut command = Command::new("sh");
    let script =
        format!("ulimit -n {DESCRIPTORS} 2>/dev/null || ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\"");
    command.args(["-c", &script, program]);
    command
}

/// Streams that one process can hold open with an end on either side, if `wanted` are too many for it.
pub(crate) fn two_ended(wanted: u64) -> Res<u64> {
    let out = unlimited("sh").args(["-c", "ulimit -n"]).output()?;
    let limit: u64 = String::from_utf8_lossy(&out.stdout).trim().parse()?;
    Ok(wanted.min(limit.saturating_sub(OTHER_DESCRIPTORS) / 2))
}

/// A loopback address that nothing listens on at the moment.
pub(crate) fn free_address() -> Res<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn cpu_seconds(pid: &str) -> Res<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        sum += run_seconds(&thread?.path().join("schedstat"))?;
    }
    Ok(sum)
}

/// Processor seconds that the calling thread has used.
pub(crate) fn own_cpu_seconds() -> Res<f64> {
    run_seconds(Path::new("/proc/thread-self/schedstat"))
}

/// The first field of a `schedstat`: nanoseconds spent running. Finer than the ticks of `stat`, and blind to
/// what else the machine does.
fn run_seconds(file: &Path) -> Res<f64> {
    let text = fs::read_to_string(file)?;
    let nanos: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanos as f64 / 1e9)
}
