//! The admin pages and their API: what they show, to whom, and how.

use http::{HeaderMap, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{KEY, key, tool};
use crate::support::{
    fake::{Fake, result},
    process::{Answer, Gateway, read_to, send_to, whole},
};

/// The key of the pages.
const ADMIN: &str = "admin-key-0123456789abcdef";
/// A name that is markup wherever it is not escaped.
const HOSTILE: &str = r#"</script><img src=x onerror=alert('1')>&"#;

async fn ask(gate: &Gateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let named = headers.iter().any(|(name, _)| *name == "host");
    let request = Request::builder().method(method).uri(path);
    let request = if named { request } else { request.header("host", "localhost") };
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    whole(send_to(gate.admin, request.body(Full::new(body.to_owned().into())).unwrap()).await).await
}

async fn get(gate: &Gateway, path: &str) -> Answer {
    ask(gate, "GET", path, &[], "").await
}

/// One with a key of Ada's before a server that says yes to everything.
async fn start(more: &str) -> (Fake, Gateway) {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), &format!("{more}{}", key("ada", KEY, ""))).await;
    (fake, gate)
}

async fn call(gate: &Gateway, agent: &str, body: String) {
    let request = gate.request().header("authorization", format!("Bearer {KEY}")).header("user-agent", agent);
    gate.call(request, body).await;
}

#[tokio::test]
async fn the_api_has_what_the_journal_says_and_filters_it() {
    let (_fake, gate) = start("").await;
    call(&gate, "cursor-vscode/2.1", tool(1, "read", "{}")).await;
    call(&gate, "old-agent/0.9", r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":[]}"#.into())
        .await;
    gate.post(tool(3, "read", "{}")).await;
    let records = gate.recorded(3).await;

    let all = get(&gate, "/api/calls").await.json();
    assert_eq!((all["calls"].as_array().unwrap().len(), all["matching"].as_u64()), (3, Some(3)));
    assert_eq!(all["calls"][0]["reason"], "unauthenticated", "the newest first");
    for (query, clocks) in [
        ("key=ada", 2),
        ("key=-", 1),
        ("tool=read", 1),
        ("tool=tools/*", 1),
        ("outcome=rejected", 1),
        ("outcome=failed&key=ada", 0),
        ("client=CURSOR", 1),
        ("host=cursor", 1),
        ("upstream=files&limit=1", 1),
    ] {
        let found = get(&gate, &format!("/api/calls?{query}")).await.json();
        assert_eq!(found["calls"].as_array().unwrap().len(), clocks, "{query}: {found}");
    }

    for (query, known) in [
        ("calls?principal=ada", "known are key, tool, upstream, outcome, client, host, limit"),
        ("calls?limit=-1", "limit is a whole number"),
        ("calls?limit=all", "limit is a whole number"),
        ("calls?outcome=fine", "known are failed, ok"),
        ("activity?limit=1", "known are"),
        ("events?since=1h", "after"),
    ] {
        let refused = get(&gate, &format!("/api/{query}")).await;
        assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_request")), "{query}");
        assert!(refused.text().contains(known), "{query}: {}", refused.text());
    }

    let (boot, seq) = (records[1]["boot"].as_str().unwrap(), &records[1]["seq"]);
    let one = get(&gate, &format!("/api/calls/{boot}/{seq}")).await;
    let journal = std::fs::read_to_string(gate.journal()).unwrap();
    assert!(journal.lines().any(|line| line == one.text()), "one call is its line, byte for byte");
    assert_eq!(get(&gate, &format!("/api/calls/{boot}/9999")).await.status, 404);
    let page = get(&gate, &format!("/activity/{boot}/{seq}")).await;
    assert!(page.text().contains("params_array") && page.text().contains("old-agent 0.9"), "{}", page.text());
    assert_eq!(get(&gate, "/activity/none/1").await.status, 404);

    let sums = get(&gate, "/api/activity").await.json();
    assert_eq!(sums["calls"]["all"]["calls"], 3);
    let wrong = &sums["calls"]["wrong"][0];
    assert_eq!(
        (&wrong["rule"], &wrong["client"], &wrong["version"], &wrong["calls"]),
        (&json!("params_array"), &json!("old-agent"), &json!("0.9"), &json!(1))
    );
    assert_eq!(sums["gateway"]["upstreams"]["files"]["state"], "ok");
}

#[tokio::test]
async fn pages_are_whole_without_scripts_and_say_what_browsers_may_do() {
    let fake = Fake::start(|seen| async move { result(&seen, &json!({"content": []})) }).await;
    let config = format!("audit.capture = \"redacted\"\n{}", key("ada", KEY, ""));
    let gate = Gateway::before(&fake.url(), &config).await;
    call(&gate, "cursor-vscode/2.1", tool(1, "read", r#"{"n":1,"password":"p4ss"}"#)).await;
    gate.recorded(1).await;
    let first = gate.records()[0].clone();
    let (boot, seq) = (first["boot"].as_str().unwrap().to_owned(), &first["seq"]);
    for (path, mark) in [
        ("/activity", "cursor-vscode 2.1"),
        (&*format!("/activity/{boot}/{seq}"), "Where the time went"),
        ("/connect?host=vscode", ".vscode/mcp.json"),
        ("/connect", &*format!("http://127.0.0.1:{}/mcp", gate.addr.port())),
    ] {
        let page = get(&gate, path).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{path}"
        );
        let text = page.text();
        assert!(text.contains(mark), "{path}: {text}");
        assert!(!text.contains("p4ss"), "{path} shows what the journal masks");
        strict(&page.headers);
        for inline in
            ["<style", " style=", "<script>", "javascript:", " onclick", "http-equiv", "//cdn", "https://"]
        {
            assert!(!text.contains(inline), "{path} has {inline}");
        }
    }
    for asset in ["/assets/pages.css", "/assets/pages.js", "/assets/icon.svg"] {
        let file = get(&gate, asset).await;
        assert_eq!(file.status, 200, "{asset}");
        strict(&file.headers);
    }
    assert_eq!(get(&gate, "/").await.header("location"), Some("/activity"));
    assert_eq!(get(&gate, "/nothing").await.status, 404);
    assert_eq!(ask(&gate, "PUT", "/activity", &[], "").await.status, 405);
}

#[track_caller]
fn strict(headers: &HeaderMap) {
    let policy = headers["content-security-policy"].to_str().unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "style-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-store");
}

#[tokio::test]
async fn a_call_of_an_earlier_run_is_found_in_the_journal() {
    let (fake, gate) = start("").await;
    call(&gate, "old/1", tool(1, "read", "{}")).await;
    let record = gate.recorded(1).await.remove(0);
    let path = format!("{}/{}", record["boot"].as_str().unwrap(), record["seq"]);
    let journal = gate.journal();
    let copy = tempfile::TempDir::new().unwrap();
    let again = copy.path().join("audit.jsonl");
    std::fs::copy(&journal, &again).unwrap();
    gate.stop().await;
    let config = format!("audit.journal.path = {again:?}\n{}", key("ada", KEY, ""));
    let gate = Gateway::before(&fake.url(), &config).await;
    assert_eq!(get(&gate, "/api/calls").await.json()["matching"], 0);
    assert_eq!(get(&gate, &format!("/api/calls/{path}")).await.json(), record);
    assert!(get(&gate, &format!("/activity/{path}")).await.text().contains("old 1"));
}

#[tokio::test]
async fn what_clients_call_themselves_is_text() {
    let (_fake, gate) = start("").await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": HOSTILE, "version": HOSTILE}}});
    call(&gate, "x", hello.to_string()).await;
    call(&gate, "x", tool(2, "evil", "{}").replace("evil", &HOSTILE.replace('"', "\\\""))).await;
    call(&gate, "x", json!({"jsonrpc": "2.0", "id": 3, "method": HOSTILE, "params": []}).to_string()).await;
    let records = gate.recorded(3).await;
    let mut paths = vec![
        "/activity".to_owned(),
        format!(
            "/activity?tool={0}&key={0}&outcome={0}&upstream={0}&client={0}",
            "%22%3E%3Cimg%20src%3Dx%3E"
        ),
        "/connect?host=generic&key=%3Cimg%20src%3Dx%3E".to_owned(),
        "/activity/%3Cimg%20src=x%3E/1".to_owned(),
    ];
    paths.extend(records.iter().map(|r| format!("/activity/{}/{}", r["boot"].as_str().unwrap(), r["seq"])));
    let mut shown = false;
    for path in paths {
        let page = get(&gate, &path).await;
        assert!(!page.text().contains("<img"), "{path}: {}", page.text());
        shown |= page.text().contains("&lt;img src=x onerror=alert(");
    }
    assert!(shown, "it is shown as text");
}

#[tokio::test]
async fn live_calls_come_as_events_and_go_on_where_they_broke_off() {
    let (_fake, gate) = start("").await;
    call(&gate, "first/1", tool(1, "read", "{}")).await;
    gate.recorded(1).await;
    let place = get(&gate, "/api/calls").await.json()["next"].as_str().unwrap().to_owned();
    let open = |path: String, last: &str| {
        let request = Request::get(path).header("host", "localhost").header("last-event-id", last);
        send_to(gate.admin, request.body(Full::default()).unwrap())
    };
    let stream = open("/api/events?tool=read".into(), &place).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    strict(stream.headers());
    let mut body = stream.into_body();
    call(&gate, "second/1", tool(2, "write", "{}")).await;
    call(&gate, "third/1", tool(3, "read", "{}")).await;
    let text = read_to(&mut body, "third").await;
    assert!(!text.contains("second") && !text.contains("first"), "{text}");
    let data = text.lines().find_map(|l| l.strip_prefix("data: ")).unwrap();
    let row: Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (&row["agent"], &row["outcome"], &row["key"]),
        (&json!("third 1"), &json!("ok"), &json!("ada"))
    );
    drop(body);

    // Its id leads on after it, without a gap and without a repetition; an id of another boot leads to the beginning.
    let id = text.lines().find_map(|l| l.strip_prefix("id: ")).unwrap();
    call(&gate, "fourth/1", tool(4, "read", "{}")).await;
    let text = read_to(&mut open("/api/events".into(), id).await.into_body(), "fourth").await;
    assert!(!text.contains("third"), "{text}");
    let text = read_to(&mut open("/api/events".into(), "01ANOTHER.7").await.into_body(), "fourth").await;
    assert!(text.contains("first") && text.contains("second"), "{text}");

    // A stream that is open holds up no end.
    let open = open("/api/events".into(), &place).await;
    assert_eq!(gate.stop().await.len(), 4);
    drop(open);
}

#[tokio::test]
async fn a_loopback_listener_is_not_for_other_names_nor_for_other_sites() {
    let (_fake, gate) = start("").await;
    for path in ["/activity", "/connect", "/api/calls", "/assets/pages.js", "/"] {
        let foreign = ask(&gate, "GET", path, &[("host", "evil.example")], "").await;
        assert_eq!((foreign.status, &foreign.json()["error"]), (403, &json!("forbidden_origin")), "{path}");
    }
    let fetched = ask(&gate, "GET", "/api/calls", &[("sec-fetch-site", "cross-site")], "").await;
    assert_eq!(fetched.status, 403);
    assert_eq!(ask(&gate, "GET", "/healthz", &[("host", "evil.example")], "").await.status, 200);
    assert_eq!(ask(&gate, "GET", "/activity", &[("host", "127.0.0.1:1")], "").await.status, 200);
}

#[tokio::test]
async fn the_key_is_asked_for_and_a_login_is_a_cookie() {
    let (_fake, gate) = start(&format!("admin.key = \"{ADMIN}\"\n")).await;
    gate.knows("files").await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        let status = get(&gate, path).await.status;
        // Not ready, perhaps, a moment after the start.
        assert!(status == 200 || (status, path) == (503, "/readyz"), "{path} asks for no key: {status}");
    }
    let page = get(&gate, "/activity?key=ada").await;
    assert_eq!((page.status, page.header("location")), (303, Some("/login?next=%2Factivity%3Fkey%3Dada")));
    let api = get(&gate, "/api/calls").await;
    assert_eq!((api.status, api.header("www-authenticate")), (401, Some("Bearer")));
    let bearer = format!("Bearer {ADMIN}");
    assert_eq!(ask(&gate, "GET", "/api/calls", &[("authorization", &bearer)], "").await.status, 200);

    let form = format!("key={ADMIN}&next=%2Fconnect");
    let foreign = ask(&gate, "POST", "/login", &[("origin", "https://evil.example")], &form).await;
    assert_eq!(foreign.status, 403);
    let wrong = ask(&gate, "POST", "/login", &[], "key=no&next=https://evil.example").await;
    assert_eq!(wrong.status, 401);
    assert!(!wrong.text().contains("evil.example"));
    let right = ask(&gate, "POST", "/login", &[("x-forwarded-proto", "https")], &form).await;
    assert_eq!((right.status, right.header("location")), (303, Some("/connect")));
    let cookie = right.header("set-cookie").unwrap().to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    assert!(!gate.log().contains(ADMIN), "the key is in the log");

    let pair = cookie.split(';').next().unwrap();
    let page = ask(&gate, "GET", "/activity", &[("cookie", pair)], "").await;
    assert!(page.status == 200 && page.text().contains("Log out"));
    assert_eq!(ask(&gate, "POST", "/logout", &[("cookie", pair)], "").await.status, 303);
    assert_eq!(ask(&gate, "GET", "/activity", &[("cookie", pair)], "").await.status, 303);

    let mut last = 401;
    for _ in 0..12 {
        last = ask(&gate, "GET", "/api/calls", &[("authorization", "Bearer no")], "").await.status;
    }
    assert_eq!(last, 429, "wrong keys may be tried for ever");
    let limited = ask(&gate, "POST", "/login", &[], &form).await;
    assert!(limited.status == 429 && limited.header("retry-after").is_some());
}

#[tokio::test]
async fn elsewhere_pages_are_off_without_a_key() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("smartgate.toml");
    let config =
        |more: &str| format!("server.listen = \"127.0.0.1:0\"\nadmin.listen = \"0.0.0.0:0\"\n{more}");
    std::fs::write(&file, config("")).unwrap();
    let gate = Gateway::run(folder, &file, &[]).await;
    let off = ask(&gate, "GET", "/activity", &[("host", "gate.example")], "").await;
    assert_eq!((off.status, &off.json()["error"]), (403, &json!("pages_off")));
    assert_eq!(get(&gate, "/api/calls").await.status, 403);
    assert_eq!(ask(&gate, "GET", "/healthz", &[("host", "gate.example")], "").await.status, 200);

    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("smartgate.toml");
    std::fs::write(&file, config("admin.key = \"env:PAGES_KEY\"\n")).unwrap();
    let gate = Gateway::run(folder, &file, &[("PAGES_KEY", ADMIN)]).await;
    let bearer = format!("Bearer {ADMIN}");
    let there =
        ask(&gate, "GET", "/api/calls", &[("host", "gate.example"), ("authorization", &bearer)], "").await;
    assert_eq!(there.status, 200);
}

#[tokio::test]
async fn budgets_and_hosts_are_shown_as_they_stand() {
    let fake = Fake::plain().await;
    let keys = key("ada", KEY, "budget = \"5k tokens/day\"");
    let gate = Gateway::start(&format!(
        "[upstreams.files]\nurl = \"{}\"\n[upstreams.smart]\nbuiltin = true\n{keys}",
        fake.url()
    ))
    .await;
    gate.knows("smart").await;
    let before = get(&gate, "/api/activity").await.json();
    let bar = &before["budgets"][0];
    assert_eq!((&bar["key"], &bar["limit"], &bar["used"]), (&json!("ada"), &json!(5_000), &json!(0)));
    call(&gate, "cursor-vscode/1", tool(1, "smart_dedup", r#"{"texts":["one two three","one two three"]}"#))
        .await;
    gate.recorded(1).await;
    let bar = get(&gate, "/api/activity").await.json()["budgets"][0].clone();
    let n = |name: &str| bar[name].as_u64().unwrap();
    assert!(n("used") > 0 && n("used") + n("held") + n("remaining") == n("limit"), "{bar}");
    assert!(get(&gate, "/activity").await.text().contains("tokens a day"));

    let hosts = get(&gate, "/api/connect").await.json();
    assert_eq!(hosts["key"], true);
    let cursor = &hosts["hosts"][0];
    assert_eq!(cursor["first_call"]["client"], "cursor-vscode");
    assert!(hosts["hosts"][1]["first_call"].is_null());
    let printed = crate::support::process::program()
        .args(["connect", "cursor", "-c"])
        .arg(gate.config_file())
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let block = cursor["block"].as_str().unwrap().replace(&gate.addr.port().to_string(), "0");
    assert_eq!(printed.trim_end(), block, "the command and the page show the same");
}
