//! The journal on a disk that fills up: new calls are refused, those in flight are not lost, and it recovers.
//! One process writes one journal. Killed or not, what is on disk is a valid chain.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use super::{refused, request, tool};
use crate::support::{
    fake::{Fake, mcp},
    process::{Gateway, program, send_to, whole},
    soon,
};

/// A small disk of its own, unmounted at the end.
struct Disk(TempDir);

impl Disk {
    /// `None` where mounting is not allowed.
    fn new(size: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status();
        mounted.is_ok_and(|s| s.success()).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room there is.
    fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::create(self.path().join("ballast")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|s| s.success()), "the test's disk stays mounted");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_new_calls_loses_none_and_recovers() {
    let Some(disk) = Disk::new("2m") else {
        eprintln!("skipped: mounting a tmpfs needs a privilege that this process has not");
        return;
    };
    let (go, wait) = tokio::sync::watch::channel(false);
    let fake = Fake::start(move |seen| {
        let mut wait = wait.clone();
        async move {
            if seen.json()["params"]["name"] == "slow" {
                wait.wait_for(|gone| *gone).await.unwrap();
            }
            mcp(&seen)
        }
    })
    .await;
    let journal = disk.path().join("audit.jsonl");
    let config = format!("audit.journal.path = \"{}\"\nserver.body_timeout = \"29s\"", journal.display());
    let gate = Gateway::before(&fake.url(), &config).await;
    let read = || {
        let text = fs::read_to_string(&journal).unwrap();
        text.matches("\"kind\":\"call\"").count()
    };
    let (mut passed, mut refusals) = (1, 1);
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    let slow: Vec<_> = (0..5)
        .map(|id| {
            let body = http_body_util::Full::new(tool(id, "slow", "{}").into());
            tokio::spawn(send_to(gate.addr, gate.request().body(body).unwrap()))
        })
        .collect();
    fake.received(6).await;
    disk.fill();
    // The page that the journal ends in may still have room.
    let refusal = soon("a refusal", async {
        loop {
            let answer = gate.post(request(2, "ping")).await;
            if answer.status != 200 {
                return answer;
            }
            passed += 1;
        }
    })
    .await;
    refused(&refusal, 503, 503, "audit_unavailable", None);
    assert_eq!(refusal.header("retry-after"), Some("1"));
    let page = gate.page("/readyz").await;
    assert_eq!((page.status, &page.json()["journal"]["state"]), (503, &"failing".into()));
    // Calls in flight are answered; their records wait.
    go.send(true).unwrap();
    for call in slow {
        assert_eq!(whole(call.await.unwrap()).await.status, 200);
        passed += 1;
    }
    disk.free();
    soon("recovery", async {
        while gate.post(request(3, "ping")).await.status != 200 {
            refusals += 1;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    passed += 1;
    assert_eq!(gate.page("/readyz").await.status, 200);
    let answered = fake.count();
    assert_eq!(answered, passed);
    let mut gate = gate;
    gate.signal("TERM");
    assert!(gate.exit().await.success());
    let text = fs::read_to_string(&journal).unwrap();
    let ok = text.lines().filter(|l| l.contains("\"outcome\":\"ok\"")).count();
    assert_eq!(ok, passed, "{} lines", read());
    let refused =
        text.lines().filter(|l| l.contains("\"outcome\":\"rejected\"") && l.contains("audit_unavailable"));
    assert_eq!(refused.count(), refusals, "refusals are recorded too, once the disk has room");
    assert_eq!(read(), passed + refusals);
    let verified = program().args(["audit", "verify"]).arg(&journal).status().unwrap();
    assert!(verified.success());
}

#[tokio::test]
async fn a_disk_that_is_full_does_not_matter_where_the_file_says_so() {
    let Some(disk) = Disk::new("2m") else {
        eprintln!("skipped: mounting a tmpfs needs a privilege that this process has not");
        return;
    };
    let fake = Fake::plain().await;
    let config = format!(
        "audit.journal.path = \"{}\"\naudit.journal.on_error = \"serve\"",
        disk.path().join("audit.jsonl").display()
    );
    let gate = Gateway::before(&fake.url(), &config).await;
    disk.fill();
    for id in 0..300 {
        assert_eq!(gate.post(request(id, "ping")).await.status, 200);
    }
    assert_eq!(gate.page("/readyz").await.json()["journal"]["state"], "failing");
    disk.free();
    gate.ready_until("the journal to recover", |r| r["journal"]["state"] == "ok").await;
}

#[tokio::test]
async fn a_second_process_on_the_same_journal_exits_64() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let second = tokio::task::spawn_blocking({
        let file = gate.config_file();
        move || program().args(["serve", "-c"]).arg(file).output().unwrap()
    });
    let second = soon("the second process", second).await.unwrap();
    assert_eq!(second.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another process"));
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    assert_eq!(gate.stop().await.len(), 1);
}

#[tokio::test]
async fn a_port_in_use_exits_64_and_names_the_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("smartgate.toml");
    let addr = taken.local_addr().unwrap();
    fs::write(&file, format!("server.listen = \"{addr}\"\nadmin.listen = \"127.0.0.1:0\"\n")).unwrap();
    let run =
        tokio::task::spawn_blocking(move || program().args(["serve", "-c"]).arg(file).output().unwrap());
    let run = soon("the process", run).await.unwrap();
    assert_eq!(run.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&run.stderr).contains("server.listen"));
}

#[tokio::test]
async fn after_a_kill_the_journal_goes_on_and_verifies() {
    let fake = Fake::plain().await;
    let mut gate = Gateway::before(&fake.url(), "").await;
    let mut answered = 0;
    for id in 0..200 {
        assert_eq!(gate.post(request(id, "ping")).await.status, 200);
        answered += 1;
    }
    gate.recorded(answered).await;
    gate.signal("KILL");
    gate.exit().await;
    let folder = std::mem::replace(&mut gate.folder, TempDir::new().unwrap());
    drop(gate);
    let file = folder.path().join("smartgate.toml");
    let gate = Gateway::run(folder, &file, &[]).await;
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    assert_eq!(gate.stop().await.len(), answered + 1);
}
