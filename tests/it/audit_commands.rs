//! The commands of docs/audit.md, run in its order in one folder, and what the page says of keys and self-tests.

use crate::support::free::free;
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{fake::Fake, process::Gateway};

fn smartgate(folder: &Path, args: &[&str]) -> Output {
    let mut command = crate::support::process::program();
    command.args(args).current_dir(folder).env("XDG_STATE_HOME", folder);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The lines of console blocks that begin with `$ `, each with its output.
fn commands() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/audit.md")).unwrap();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => found.push((command.to_owned(), Vec::new())),
                None => found.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
    }
    found
}

/// A collector over HTTP that takes everything.
fn collector() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = Vec::new();
            let mut part = [0; 65_536];
            // The whole request is here once its body is as long as it says.
            while !is_whole(&read) {
                let n = stream.read(&mut part).unwrap();
                read.extend_from_slice(&part[..n]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    port
}

fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read).into_owned();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap_or("0");
    read.len() >= head.len() + 4 + length.parse::<usize>().unwrap()
}

/// First words: what is the same in every run.
fn shape(line: &str) -> Vec<String> {
    let words = line.split_whitespace().filter(|w| !w.contains(|c: char| c.is_ascii_digit()));
    words.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_commands_of_the_page_do_what_it_shows() {
    let fake = Fake::plain().await;
    let folder = tempfile::tempdir().unwrap();
    let all = commands();
    assert!(all.len() >= 6, "{all:?}");
    let (first, rest) = all.split_first().unwrap();
    run(folder.path(), &first.0, &first.1);
    let config =
        format!("audit.signing_key = \"file:audit.key\"\nupstreams.files.url = \"{}\"\n", fake.url());
    let gate = Gateway::try_start(folder, &config, &[("SMARTGATE_LOG", "info")]).await;
    for id in 0..4 {
        assert_eq!(gate.post(super::gateway::tool(id, "add", "{}")).await.status, 200);
    }
    gate.recorded(4).await;
    // A running gateway would answer for a configuration of its own port; the page's has none.
    let (log, folder) = gate.end().await;
    fs::write(folder.path().join("gateway.log"), log).unwrap();
    let lines = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    fs::write(folder.path().join("spans.jsonl"), lines.lines().nth(3).unwrap()).unwrap();
    let port = collector();
    for (command, shown) in rest {
        run(
            folder.path(),
            &command.replace("127.0.0.1:4318", &format!("127.0.0.1:{port} --protocol http/protobuf")),
            shown,
        );
    }
}

#[test]
fn without_a_file_and_a_journal_in_the_state_directory_it_is_said_what_to_name() {
    let folder = tempfile::tempdir().unwrap();
    let export = ["audit", "export", "--otlp", "http://127.0.0.1:1"];
    for command in
        [&["audit", "verify"][..], &["audit", "tail"], &["audit", "query"], &["audit", "stats"], &export]
    {
        let out = smartgate(folder.path(), command);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{command:?}: {said}");
        let place = folder.path().join("smartgate/audit.jsonl");
        for part in ["there is no journal at", place.to_str().unwrap(), "name a FILE", "audit.journal.path"] {
            assert!(said.contains(part), "{command:?}: {said}");
        }
    }
}

fn run(folder: &Path, command: &str, shown: &[String]) {
    let program = Path::new(env!("CARGO_BIN_EXE_smartgate")).parent().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("SMARTGATE_LOG", "off");
    let out = shell.env("PATH", format!("{}:/usr/bin:/bin", program.display())).output().unwrap();
    assert!(out.status.success(), "{command}: {}", text(&out.stderr));
    if shown.is_empty() {
        return;
    }
    let told: Vec<_> = text(&out.stdout).lines().map(shape).collect();
    let shown: Vec<_> = shown.iter().map(|l| shape(l)).collect();
    assert_eq!(told, shown, "{command}");
}

#[test]
fn a_private_key_is_for_its_owner_alone_and_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let made = smartgate(folder.path(), &["audit", "keygen", "my.key"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let path = folder.path().join("my.key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let private = fs::read_to_string(&path).unwrap();
    let secret = private.lines().nth(1).unwrap();
    assert!(private.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    assert!(!text(&made.stdout).contains(secret) && !text(&made.stderr).contains(secret));
    let again = smartgate(folder.path(), &["audit", "keygen", "my.key"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&path).unwrap(), private);
    let printed = smartgate(folder.path(), &["audit", "keygen", "--print"]);
    assert!(text(&printed.stdout).starts_with("-----BEGIN PRIVATE KEY-----\n"));
    assert!(text(&printed.stderr).contains("# public key "));
    // The stanza is one that the gateway takes.
    fs::write(folder.path().join("c.toml"), made.stdout).unwrap();
    assert!(smartgate(folder.path(), &["check", "c.toml"]).status.success());
    fs::write(folder.path().join("c.toml"), "audit.signing_key = \"hunter2\"").unwrap();
    let refused = smartgate(folder.path(), &["check", "c.toml"]);
    let why = text(&refused.stderr) + &text(&refused.stdout);
    assert!(
        why.contains("`audit.signing_key`: is no Ed25519 private key") && !why.contains("hunter2"),
        "{why}"
    );
}

#[tokio::test]
async fn serve_says_at_its_start_that_records_arrive_and_a_running_gateway_is_asked() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.logged("self-test passed: record 1 of boot").await;
    let ready = gate.ready_until("the self-test", |r| r["selftest"]["state"] == "ok").await;
    let detail = ready["selftest"]["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("is in the journal; no collector is configured"), "{detail}");
    // The file says port 0, which nobody can ask.
    let unreachable = selftest(gate.config_file(), None).await;
    assert_eq!(unreachable.status.code(), Some(1));
    assert!(
        text(&unreachable.stderr).contains("in use by a running gateway"),
        "{}",
        text(&unreachable.stderr)
    );
    let asked = selftest(gate.config_file(), Some(gate.admin)).await;
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    assert!(text(&asked.stdout).contains(&format!("the gateway at http://{} was asked", gate.admin)));
    let lines = fs::read_to_string(gate.journal()).unwrap();
    assert_eq!(lines.matches("\"kind\":\"selftest\"").count(), 2);
    // Another journal than the one that this gateway writes.
    let other = tempfile::tempdir().unwrap();
    let held = fs::File::create(other.path().join("audit.jsonl.lock")).unwrap();
    held.lock().unwrap();
    fs::write(other.path().join("audit.jsonl"), "").unwrap();
    let config = other.path().join("smartgate.toml");
    fs::write(&config, "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n").unwrap();
    let wrong = selftest(config, Some(gate.admin)).await;
    assert!(text(&wrong.stderr).contains("writes another journal"), "{}", text(&wrong.stderr));
    assert_eq!(gate.stop().await.len(), 0);
}

/// Runs it with the admin address put into a copy of the file.
async fn selftest(config: std::path::PathBuf, admin: Option<std::net::SocketAddr>) -> Output {
    tokio::task::spawn_blocking(move || {
        let mut text = fs::read_to_string(&config).unwrap();
        if let Some(admin) = admin {
            text = text.replace("admin.listen = \"127.0.0.1:0\"", &format!("admin.listen = \"{admin}\""));
        }
        let copy = config.with_file_name("copy.toml");
        fs::write(&copy, text).unwrap();
        let mut command = crate::support::process::program();
        command.args(["audit", "selftest", "-c"]).arg(copy).stdin(Stdio::null()).output().unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_collector_that_does_not_answer_holds_up_nothing_and_is_told() {
    let dead = free();
    let fake = Fake::plain().await;
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "upstreams.files.url = \"{}\"\n[telemetry]\notlp = \"http://{dead}\"\nprotocol = \"grpc\"\n",
        fake.url()
    );
    let gate = Gateway::try_start(folder, &config, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "500")]).await;
    gate.ready_until("it serves", |r| r["ready"] == true).await;
    gate.logged("self-test failed: record 1 of boot").await;
    let ready = gate.ready_until("the self-test", |r| r["selftest"]["state"] == "failed").await;
    let detail = ready["selftest"]["detail"].as_str().unwrap();
    assert!(detail.contains("is in the journal; the collector took no span: "), "{detail}");
}
