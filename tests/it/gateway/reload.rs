//! The configuration changes while calls go on: a revoked key ends, streams in flight do not; a broken file
//! changes nothing and is reported; what did not change keeps its levels.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use super::{KEY, key, request, tool};
use crate::support::{
    certs::swap,
    fake::{Fake, channel, event, mcp, sse},
    process::{Gateway, next, read_to},
    soon,
};

const BOB: &str = "sg-the-key-of-bob-0123456789abcdef";

/// Asks until the answer has this status.
async fn until_status(gate: &Gateway, key: &str, status: u16) {
    soon("another status", async {
        while gate.post_as(key, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await.status != status {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_is_refused_while_its_stream_goes_on() {
    let slot = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&slot);
    let fake = Fake::start(move |seen| {
        let theirs = Arc::clone(&theirs);
        async move {
            if seen.json()["params"]["name"] != "stream" {
                return mcp(&seen);
            }
            let (sender, body) = channel();
            sender.send(event("{\"method\":\"notifications/progress\"}")).await.unwrap();
            *theirs.lock().unwrap() = Some(sender);
            sse(body)
        }
    })
    .await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let gate = Gateway::start(&format!("{upstream}{}{}", key("ada", KEY, ""), key("bob", BOB, ""))).await;
    let builder = gate.request().header("authorization", format!("Bearer {KEY}"));
    let mut stream = gate.open(builder, tool(1, "stream", "{}")).await;
    read_to(stream.body_mut(), "progress").await;
    let mut kept_alive = gate.raw().await;
    let body = request(2, "ping");
    let again = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    kept_alive.send(&again).await;
    assert_eq!(kept_alive.answer().await.status, 200);
    gate.rewrite(&format!("{upstream}{}", key("bob", BOB, "")));
    until_status(&gate, KEY, 401).await;
    // A connection that was made before is no way around it.
    kept_alive.send(&again).await;
    assert_eq!(kept_alive.answer().await.status, 401);
    assert_eq!(gate.post_as(BOB, request(3, "ping")).await.status, 200);
    let sender = slot.lock().unwrap().take().unwrap();
    sender.send(event(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await.unwrap();
    drop(sender);
    read_to(stream.body_mut(), "result").await;
    assert!(next(stream.body_mut()).await.is_none());
    assert!((gate.metric("smartgate_reloads_total{result=\"ok\"}").await - 1.0).abs() < 0.1);
    gate.stop().await;
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_reported() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let good = format!("{upstream}{}", key("ada", KEY, ""));
    let gate = Gateway::start(&good).await;
    for (nth, broken) in
        ["limits.rate = \"often\"", "[[keys]", "limit.rate = \"1/s\"", "\u{0}"].iter().enumerate()
    {
        gate.rewrite(&format!("{upstream}{broken}"));
        let failed = "smartgate_reloads_total{result=\"failed\"}";
        soon("the failure to count", async {
            while (gate.metric(failed).await as usize) < nth + 1 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        let page = gate.page("/readyz").await;
        assert_eq!(page.status, 200, "the old configuration serves");
        let configuration = page.json()["configuration"].clone();
        assert_eq!(configuration["state"], "not_reloaded");
        assert!(configuration["detail"].as_str().unwrap().contains("smartgate.toml:"), "{configuration}");
        assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 200);
        assert_eq!(gate.post(request(1, "ping")).await.status, 401);
    }
    assert!(gate.log().contains("configuration not reloaded"));
    gate.rewrite(&good);
    gate.ready_until("a good configuration", |r| r["configuration"]["state"] == "ok").await;
    gate.stop().await;
}

#[tokio::test]
async fn a_signal_reads_the_file_at_once_and_settings_of_the_start_are_named() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let gate = Gateway::start(&upstream).await;
    gate.signal("HUP");
    gate.logged("configuration reloaded").await;
    let file = fs::read_to_string(gate.config_file()).unwrap();
    fs::write(
        gate.config_file(),
        file.replace("server.listen = \"127.0.0.1:0\"", "server.listen = \"127.0.0.1:1\""),
    )
    .unwrap();
    gate.logged("this setting takes effect at the next start").await;
    assert!(gate.log().contains("server.listen"));
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
}

#[tokio::test]
async fn the_swap_of_a_mounted_folder_is_seen() {
    let fake = Fake::plain().await;
    let head = "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n";
    let upstream =
        format!("{head}upstreams.files.url = \"{}\"\naudit.journal.path = \"../audit.jsonl\"\n", fake.url());
    let folder = tempfile::TempDir::new().unwrap();
    let mount = folder.path().join("mount");
    fs::create_dir(&mount).unwrap();
    let keyed =
        |secret_file: &str| format!("{upstream}\n[[keys]]\nname = \"ada\"\nfile = \"{secret_file}\"\n");
    swap(&mount, "..one", &[("smartgate.toml", &keyed("secret")), ("secret", KEY)]);
    for name in ["smartgate.toml", "secret"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), mount.join(name)).unwrap();
    }
    let gate = Gateway::run(folder, &mount.join("smartgate.toml"), &[]).await;
    assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 200);
    // Only the secret differs.
    swap(&mount, "..two", &[("smartgate.toml", &keyed("secret")), ("secret", BOB)]);
    until_status(&gate, KEY, 401).await;
    assert_eq!(gate.post_as(BOB, request(1, "ping")).await.status, 200);
    swap(&mount, "..three", &[("smartgate.toml", &keyed("secret")), ("secret", KEY)]);
    fs::remove_dir_all(mount.join("..two")).unwrap();
    until_status(&gate, BOB, 401).await;
    gate.stop().await;
}

#[tokio::test]
async fn levels_of_buckets_survive_what_does_not_concern_them() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let ada = key("ada", KEY, "rate = \"3/h\"");
    let gate = Gateway::start(&format!("{upstream}{ada}")).await;
    assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 200);
    for (nth, more) in
        ["server.body_timeout = \"29s\"\n", "limits.per_tool = { add = \"1/s\" }\n"].iter().enumerate()
    {
        gate.rewrite(&format!("{upstream}{more}{ada}"));
        gate.ready_until("a reload", |_| gate.log().matches("configuration reloaded").count() > nth).await;
        assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 200);
    }
    assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 429);
}

#[tokio::test]
async fn a_new_tool_rate_binds_those_who_called_before() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    for (start, ada) in [("limits.rate = \"1000/h\"\n", String::new()), ("", key("ada", KEY, ""))] {
        let gate = Gateway::start(&format!("{upstream}{start}{ada}")).await;
        assert_eq!(gate.post_as(KEY, tool(1, "add", "{}")).await.status, 200);
        gate.rewrite(&format!(
            "{upstream}{start}limits.per_tool = {{ \"f*\" = \"5/h\", add = \"1/h\" }}\n{ada}"
        ));
        gate.logged("configuration reloaded").await;
        assert_eq!(gate.post_as(KEY, tool(2, "add", "{}")).await.status, 200);
        assert_eq!(gate.post_as(KEY, tool(3, "add", "{}")).await.status, 429, "keys: {}", !ada.is_empty());
        // Another order of the same globs moves no bucket to another glob.
        gate.rewrite(&format!("{upstream}{start}limits.per_tool = {{ add = \"1/h\" }}\n{ada}"));
        gate.ready_until("a reload", |_| gate.log().matches("configuration reloaded").count() == 2).await;
        gate.post_as(KEY, tool(4, "add", "{}")).await;
        assert_eq!(gate.post_as(KEY, tool(5, "add", "{}")).await.status, 429);
    }
}

#[tokio::test]
async fn a_file_that_is_being_written_never_opens_the_door() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let gate = Gateway::start(&format!("{upstream}{}", key("ada", KEY, ""))).await;
    let file = gate.config_file();
    let whole = fs::read_to_string(&file).unwrap();
    let writer = std::thread::spawn(move || {
        // As an editor that truncates and then writes, again and again. An empty file asks for no keys at all.
        for _ in 0..100 {
            fs::write(&file, "").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(&file, &whole).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    while !writer.is_finished() {
        assert_eq!(gate.post(request(1, "ping")).await.status, 401);
    }
    writer.join().unwrap();
    until_status(&gate, KEY, 202).await;
}

#[tokio::test]
async fn a_changed_upstream_is_used_and_its_tools_are_learned() {
    let (one, two) = (Fake::plain().await, Fake::plain().await);
    let gate = Gateway::before(&one.url(), "").await;
    gate.knows("files").await;
    gate.rewrite(&format!("upstreams.other.url = \"{}\"\n", two.url()));
    gate.knows("other").await;
    assert_eq!(gate.post(request(1, "add")).await.status, 200);
    assert_eq!((one.count(), two.only().rpc()), (0, "tools/call".to_owned()));
    assert_eq!(gate.call(gate.request().uri("/mcp/files"), request(1, "ping")).await.status, 404);
    let metrics = gate.page("/metrics").await;
    assert!(!metrics.text().contains("upstream_up{upstream=\"files\"}"), "a gone upstream is still shown");
    gate.stop().await;
}
