//! A small process beside the gateway that ends its children when the gateway was killed and cannot. The gateway tells
//! it over a pipe which groups there are; when the pipe ends, so has the gateway.
//!
//! Invariant: it knows the groups that run and no others, and ends none while the gateway lives. It is in a group of
//! its own, so that what kills the gateway's whole group leaves it.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Instant,
};

use rustix::process::{Pid, Signal};

use super::{
    calls::lock,
    group::{GRACE, LOOK, is_there, send},
};

/// The command of the program that is the warden.
pub(crate) const COMMAND: &str = "warden";

/// This program, also when its file was replaced by a newer one.
const SELF: &str = "/proc/self/exe";

/// One for the process, because it is the end of the process that it waits for.
static WARDEN: Mutex<Warden> = Mutex::new(Warden { process: None, groups: BTreeSet::new() });

struct Warden {
    process: Option<Child>,
    groups: BTreeSet<i32>,
}

/// A group has begun.
pub(super) fn knows(group: Pid) {
    let mut warden = lock(&WARDEN);
    warden.groups.insert(number(group));
    warden.tell(&format!("+{}\n", number(group)));
}

/// A group has ended.
pub(super) fn forgets(group: Pid) {
    let mut warden = lock(&WARDEN);
    warden.groups.remove(&number(group));
    warden.tell(&format!("-{}\n", number(group)));
}

fn number(group: Pid) -> i32 {
    group.as_raw_nonzero().get()
}

impl Warden {
    fn tell(&mut self, line: &str) {
        if let Some(mut process) = self.process.take() {
            if write(&mut process, line).is_ok() {
                self.process = Some(process);
                return;
            }
            // It was ended by somebody: another takes its place.
            drop(process.wait());
        }
        let all: String = self.groups.iter().map(|group| format!("+{group}\n")).collect();
        match start().and_then(|mut process| write(&mut process, &all).map(|()| process)) {
            Ok(process) => self.process = Some(process),
            Err(e) => tracing::warn!(
                "nobody ends the commands if the gateway is killed: the warden cannot start: {e}"
            ),
        }
    }
}

fn write(process: &mut Child, text: &str) -> io::Result<()> {
    process.stdin.as_mut().map_or(Ok(()), |pipe| pipe.write_all(text.as_bytes()))
}

fn start() -> io::Result<Child> {
    let program = if Path::new(SELF).exists() { PathBuf::from(SELF) } else { std::env::current_exe()? };
    Command::new(program)
        .arg(COMMAND)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// What the warden does: hears of groups until `gateway` ends, then ends those that are left.
pub(crate) fn run(gateway: impl BufRead) {
    let groups = left(gateway);
    groups.iter().for_each(|group| send(*group, Signal::TERM));
    let asked = Instant::now();
    while asked.elapsed() < GRACE && groups.iter().any(|group| is_there(*group)) {
        std::thread::sleep(LOOK);
    }
    groups.iter().filter(|group| is_there(**group)).for_each(|group| send(*group, Signal::KILL));
}

fn left(gateway: impl BufRead) -> Vec<Pid> {
    let mut groups = BTreeSet::new();
    for line in gateway.lines().map_while(Result::ok) {
        let number = |text: &str| text.parse::<i32>().ok().filter(|number| *number > 1);
        if let Some(begun) = line.strip_prefix('+').and_then(number) {
            groups.insert(begun);
        } else if let Some(ended) = line.strip_prefix('-').and_then(number) {
            groups.remove(&ended);
        }
    }
    groups.into_iter().filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_have_ended_are_left_alone() {
        let left: Vec<i32> =
            left(&b"+12\n+13\n-12\n+14\n+x\n+0\n+-1\n+1\n-99\n"[..]).into_iter().map(number).collect();
        assert_eq!(left, [13, 14]);
    }
}
