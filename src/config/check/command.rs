//! `command` of an upstream and the keys that belong to it.

use std::path::PathBuf;

use super::{Checker, word};
use crate::config::{
    Command, Secret, Target,
    file::{self, IDLE_STOP, SHARING, START},
    text::{self, At},
};

impl Checker<'_> {
    pub(super) fn command(
        &mut self,
        name: &str,
        written: &At<Vec<String>>,
        upstream: &file::Upstream,
    ) -> Option<Command> {
        let of = |key: &str| format!("upstreams.{name}.{key}");
        let Some((program, arguments)) = written.value.split_first().filter(|(p, _)| !p.is_empty()) else {
            self.findings.problem(written.at, format!("`{}` names no program", of("command")));
            return None;
        };
        if written.value.iter().any(|word| word.contains('\0')) {
            self.findings.problem(written.at, format!("`{}`: a word holds a null character", of("command")));
        }
        let mut env = std::collections::BTreeMap::new();
        for (variable, value) in &upstream.env {
            match self.variable(variable, &value.value.0) {
                Ok(secret) => drop(env.insert(variable.clone(), secret)),
                Err(why) => self.findings.problem(value.at, format!("`{}.{variable}`: {why}", of("env"))),
            }
        }
        let program = if program.contains('/') { self.resolve(program) } else { PathBuf::from(program) };
        let idle = self.value(&of("idle_stop"), upstream.idle_stop.as_ref(), IDLE_STOP, text::idle);
        Some(Command {
            program,
            arguments: arguments.to_vec(),
            env,
            cwd: upstream.cwd.as_ref().map(|folder| self.folder(&of("cwd"), folder)),
            at_once: matches!(word(upstream.start.as_ref(), START), file::Start::Now),
            idle_stop: idle,
            shared: matches!(word(upstream.sharing.as_ref(), SHARING), file::Sharing::Shared),
        })
    }

    /// Refuses a command's keys where there is none.
    pub(super) fn only_with_command(&mut self, name: &str, upstream: &file::Upstream, target: &Target) {
        if matches!(target, Target::Command(_)) || upstream.command.is_some() {
            return;
        }
        let keys = [
            ("env", upstream.env.values().next().map(|v| v.at)),
            ("cwd", upstream.cwd.as_ref().map(|v| v.at)),
            ("start", upstream.start.as_ref().map(|v| v.at)),
            ("idle_stop", upstream.idle_stop.as_ref().map(|v| v.at)),
            ("sharing", upstream.sharing.as_ref().map(|v| v.at)),
        ];
        for (key, at) in keys {
            if let Some(at) = at {
                self.findings.problem(at, format!("`upstreams.{name}.{key}` needs `command`"));
            }
        }
    }

    fn variable(&mut self, name: &str, value: &str) -> Result<Secret, String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("is no name of an environment variable".into());
        }
        let value = self.secret(value)?;
        if value.contains('\0') {
            return Err("its value holds a null character".into());
        }
        Ok(Secret::new(&value))
    }

    fn folder(&mut self, key: &str, written: &At<text::PathText>) -> PathBuf {
        let path = self.resolve(&written.value.0);
        if !path.is_dir() {
            self.findings.problem(written.at, format!("`{key}`: {} is no folder", path.display()));
        }
        path
    }
}
