//! The real program with a configuration file in a folder of its own, and clients for it. What it wrote
//! (journal, log) is read back; its end is checked like everything else.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, request::Builder};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::{raw::Raw, soon, until};

/// A running gateway.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) folder: TempDir,
    log: Arc<Mutex<String>>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    /// `error.data.reason` of a refusal.
    pub(crate) fn reason(&self) -> String {
        self.json()["error"]["data"]["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// Everything before the tables: loopback, free ports.
const HEAD: &str = "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n";

impl Gateway {
    /// Starts it with `config` (dotted keys first, tables after) on free ports.
    pub(crate) async fn start(config: &str) -> Self {
        Self::try_start(TempDir::new().unwrap(), config, &[]).await
    }

    /// Starts it in front of one upstream called `files`.
    pub(crate) async fn before(url: &str, config: &str) -> Self {
        Self::start(&format!("upstreams.files.url = \"{url}\"\n{config}")).await
    }

    pub(crate) async fn try_start(folder: TempDir, config: &str, env: &[(&str, &str)]) -> Self {
        let file = folder.path().join("smartgate.toml");
        fs::write(&file, format!("{HEAD}{config}")).unwrap();
        Self::run(folder, &file, env).await
    }

    /// Starts it with a file that is there already.
    pub(crate) async fn run(folder: TempDir, file: &std::path::Path, env: &[(&str, &str)]) -> Self {
        let mut child = program()
            .args(["serve", "-c"])
            .arg(file)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (theirs, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = theirs.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let greeting = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            // The line before the block to paste.
            while !text.contains("admin ") && out.read_line(&mut text).is_ok_and(|n| n > 0) {}
            std::thread::spawn(move || {
                let mut rest = String::new();
                drop(out.read_to_string(&mut rest));
            });
            text
        });
        let greeting = soon("the greeting", greeting).await.unwrap();
        let address = |mark: &str| {
            let line = greeting.lines().find(|l| l.starts_with(mark));
            let line = line.unwrap_or_else(|| panic!("{greeting}\n{}", log.lock().unwrap()));
            let authority = line.split("://").nth(1).unwrap().split('/').next().unwrap();
            let port = authority.rsplit(':').next().unwrap();
            format!("127.0.0.1:{port}").parse().unwrap()
        };
        let (addr, admin) = (address("endpoint"), address("admin"));
        Self { child, addr, admin, folder, log }
    }

    /// Memory that it holds, in bytes (Linux).
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.folder.path().join("smartgate.toml")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// Replaces the configuration in one step.
    pub(crate) fn rewrite(&self, config: &str) {
        let next = self.folder.path().join("next.toml");
        fs::write(&next, format!("{HEAD}{config}")).unwrap();
        fs::rename(next, self.config_file()).unwrap();
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) async fn logged(&self, text: &str) {
        until(&format!("{text:?} in the log"), || self.log().contains(text)).await;
    }

    /// The records of calls so far, in order.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.journal()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        lines.filter(|l| l["kind"] == "call").collect()
    }

    /// Waits for so many records.
    pub(crate) async fn recorded(&self, n: usize) -> Vec<Value> {
        until(&format!("{n} records"), || self.records().len() >= n).await;
        self.records()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        soon("the end of the process", async {
            loop {
                match self.child.try_wait().unwrap() {
                    Some(status) => return status,
                    None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                }
            }
        })
        .await
    }

    /// Ends it with SIGTERM; its records, after the chain was verified.
    pub(crate) async fn stop(mut self) -> Vec<Value> {
        self.signal("TERM");
        let status = self.exit().await;
        assert!(status.success(), "{status}: {}", self.log());
        self.verify();
        assert!(!self.log().contains("panicked"), "{}", self.log());
        self.records()
    }

    /// Ends it with SIGTERM; what it logged, and its folder.
    pub(crate) async fn end(mut self) -> (String, TempDir) {
        self.signal("TERM");
        assert!(self.exit().await.success(), "{}", self.log());
        (self.log(), std::mem::replace(&mut self.folder, TempDir::new().unwrap()))
    }

    /// Checks the journal's chain as a user does.
    pub(crate) fn verify(&self) {
        let checked = program().args(["audit", "verify"]).arg(self.journal()).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }

    /// Waits until the tools of the upstream `name` are known.
    pub(crate) async fn knows(&self, name: &str) {
        self.ready_until(&format!("the tools of {name}"), |r| r["upstreams"][name]["state"] == "ok").await;
    }

    /// Waits for something in `/readyz`.
    pub(crate) async fn ready_until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        soon(what, async {
            loop {
                let state = self.page("/readyz").await.json();
                if condition(&state) {
                    return state;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await
    }

    /// A page of the admin listener.
    pub(crate) async fn page(&self, path: &str) -> Answer {
        let request = Request::get(path).header("host", "localhost").body(Full::default()).unwrap();
        whole(send_to(self.admin, request).await).await
    }

    /// The value of a sample in `/metrics`, 0 if it is not there.
    pub(crate) async fn metric(&self, sample: &str) -> f64 {
        let page = self.page("/metrics").await;
        let line = page.text().lines().find_map(|l| l.strip_prefix(sample)?.strip_prefix(' '));
        line.map_or(0.0, |v| v.parse().unwrap())
    }

    /// Until this many calls are between their head and their end.
    pub(crate) async fn in_flight(&self, calls: u32) {
        soon("the calls in flight", async {
            while (self.metric("smartgate_calls_in_flight").await - f64::from(calls)).abs() > 0.1 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub(crate) async fn raw(&self) -> Raw {
        Raw::connect(self.addr).await
    }

    /// A POST with what every legacy client sends.
    pub(crate) fn request(&self) -> Builder {
        Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header("host", self.addr.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    /// POSTs a body.
    pub(crate) async fn post(&self, body: impl Into<Bytes>) -> Answer {
        self.call(self.request(), body).await
    }

    /// POSTs a body with a key.
    pub(crate) async fn post_as(&self, key: &str, body: impl Into<Bytes>) -> Answer {
        self.call(self.request().header("authorization", format!("Bearer {key}")), body).await
    }

    pub(crate) async fn call(&self, request: Builder, body: impl Into<Bytes>) -> Answer {
        whole(self.open(request, body).await).await
    }

    /// Sends; the answer's body is still to be read. Dropping it is leaving.
    pub(crate) async fn open(&self, request: Builder, body: impl Into<Bytes>) -> Response<Incoming> {
        send_to(self.addr, request.body(Full::new(body.into())).unwrap()).await
    }

    /// An HTTP/2 client with one connection.
    pub(crate) async fn http2(&self) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
        let io = TcpStream::connect(self.addr).await.unwrap();
        io.set_nodelay(true).unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        sender
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program under test, deaf to the settings of whoever runs the tests.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") || name == "RUST_LOG" || name == "SMARTGATE_LOG" {
            command.env_remove(name);
        }
    }
    command.env("SMARTGATE_LOG", "debug");
    command
}

pub(crate) fn signal(pid: u32, name: &str) {
    assert!(try_signal(pid, name));
}

/// Whether there was such a process.
pub(crate) fn try_signal(pid: u32, name: &str) -> bool {
    Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success()
}

/// Sends one request over a connection of its own.
pub(crate) async fn send_to(addr: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    soon("an answer", async {
        let io = TcpStream::connect(addr).await.unwrap();
        io.set_nodelay(true).unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.unwrap();
        // How the connection ends is seen in the answer.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.unwrap()
    })
    .await
}

pub(crate) async fn whole(response: Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = soon("a body", body.collect()).await.unwrap().to_bytes();
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// The next bytes of a body; `None` at its clean end.
pub(crate) async fn next(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match soon("a frame", body.frame()).await? {
            Ok(frame) => {
                // HTTP/2 may end a stream with a frame that is empty.
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    return Some(Ok(data));
                }
            }
            Err(e) => return Some(Err(e)),
        }
    }
}

/// Reads until `mark` has come; everything up to the end of that frame.
pub(crate) async fn read_to(body: &mut Incoming, mark: &str) -> String {
    // A frame may end within a character.
    let (mut read, mut looked_at) = (Vec::new(), 0);
    while memchr::memmem::find(&read[looked_at..], mark.as_bytes()).is_none() {
        looked_at = read.len().saturating_sub(mark.len());
        let text = || String::from_utf8_lossy(&read);
        let piece = next(body).await.unwrap_or_else(|| panic!("ended before {mark:?}, after {:?}", text()));
        read.extend_from_slice(&piece.unwrap());
    }
    String::from_utf8_lossy(&read).into_owned()
}
