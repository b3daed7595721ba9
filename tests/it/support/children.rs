//! A gateway before `child.py`, and what became of the processes that it started.

use std::{fs, path::PathBuf, process::Command, sync::OnceLock};

use http::{Method, request::Builder};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    process::{Answer, Gateway},
    until,
};

/// A gateway whose upstream `files` is the scripted child.
pub(crate) struct Children {
    pub(crate) gate: Gateway,
    events: PathBuf,
}

impl Children {
    /// `own` are further keys of the upstream, `more` the rest of the configuration.
    pub(crate) async fn start(own: &str, more: &str) -> Self {
        Self::with(&[], own, more).await
    }

    /// The same with arguments for the child.
    pub(crate) async fn with(arguments: &[&str], own: &str, more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let events = folder.path().join("events");
        fs::write(folder.path().join("child.py"), include_str!("child.py")).unwrap();
        let script = folder.path().join("child.py");
        let command = [&[python(), script.to_str().unwrap()], arguments].concat();
        let config = format!(
            "upstreams.files.command = {command:?}\nupstreams.files.env.EVENTS = {events:?}\n{own}\n{more}"
        );
        let gate = Gateway::try_start(folder, &config, &[("HOME", "/nowhere"), ("HIDDEN", "hunter2")]).await;
        Self { gate, events }
    }

    /// The words of every event so far that begins with `what`.
    pub(crate) fn events(&self, what: &str) -> Vec<String> {
        let text = fs::read_to_string(&self.events).unwrap_or_default();
        let told = text.lines().filter_map(|l| l.strip_prefix(what));
        told.filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(|r| r.trim().to_owned()).collect()
    }

    pub(crate) async fn event(&self, what: &str) -> String {
        until(&format!("the event {what}"), || !self.events(what).is_empty()).await;
        self.events(what).pop().unwrap()
    }

    /// Every process that was started and still is there.
    pub(crate) fn alive(&self) -> Vec<u32> {
        self.started().into_iter().filter(|pid| is_alive(*pid)).collect()
    }

    fn started(&self) -> Vec<u32> {
        let started = self.events("start").into_iter().chain(self.events("grandchild"));
        started.map(|e| e.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// Ends the gateway; none of its children may be left then. Its records.
    pub(crate) async fn stop(self) -> Vec<Value> {
        let started = self.started();
        let records = self.gate.stop().await;
        let left: Vec<_> = started.into_iter().filter(|pid| is_alive(*pid)).collect();
        assert!(left.is_empty(), "{left:?} are left");
        records
    }

    pub(crate) async fn all_gone(&self) {
        until("the end of every child", || self.alive().is_empty()).await;
    }

    /// Waits until the catalog has learned, so that no child of it is left.
    pub(crate) async fn learned(&self) {
        self.gate.knows("files").await;
        self.all_gone().await;
    }

    /// Opens a session; its id.
    pub(crate) async fn session(&self) -> String {
        let opened = self.gate.post(initialize()).await;
        assert_eq!(opened.status, 200, "{}", opened.text());
        assert_eq!(opened.json()["result"]["serverInfo"]["name"], "child");
        let id = opened.header("mcp-session-id").unwrap().to_owned();
        let told = self.in_session(&id, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!((told.status, told.text()), (202, ""));
        id
    }

    pub(crate) fn request(&self, method: Method, session: &str) -> Builder {
        self.gate.request().method(method).header("mcp-session-id", session)
    }

    pub(crate) async fn in_session(&self, session: &str, body: impl Into<bytes::Bytes>) -> Answer {
        self.gate.call(self.request(Method::POST, session), body).await
    }
}

pub(crate) fn initialize() -> &'static str {
    r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"host","version":"3"}}}"#
}

/// A client's answer to the question on a stream.
pub(crate) fn answer_to(question: &str, role: &str) -> String {
    let data = question.lines().find_map(|l| l.strip_prefix("data: ")).unwrap();
    let question: Value = serde_json::from_str(data).unwrap();
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"role":"{role}"}}}}"#, question["id"])
}

/// A process that has ended but that nobody has asked for is none.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|s| !s.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// The interpreter itself, not a script that starts it.
fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let out = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    })
}
