//! What it costs to find the member of a call, rename it, and give its answer back, by how many tools there are; and
//! what a whole list costs. Prints a table; asserts nothing.
//!
//! `cargo bench --bench aggregate`. The members answer at once, in this process; a call straight to one is the first
//! column. Each figure is the median of many batches.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use smartgate::{
    bridge::sealed::Sealer,
    config::Show,
    glob::Globs,
    mcp::message::{self, Body},
    upstream::{
        BoxFuture, ResponseBody, Upstream, UpstreamError,
        aggregate::{Aggregate, Member},
        catalog::Catalog,
        seat::Seat,
    },
};
use tokio_util::sync::CancellationToken;

const MEMBERS: usize = 10;
const BATCH: usize = 200;
const BATCHES: usize = 51;

/// Answers from what it was made with.
struct Canned {
    list: String,
}

impl Upstream for Canned {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        let body = str::from_utf8(call.body()).unwrap_or_default();
        let id = body.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or("null");
        let result = match call.headers().get("mcp-method").map(|m| m.as_bytes()) {
            Some(b"server/discover") => {
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}"#
            }
            Some(b"tools/list") => &self.list,
            _ => r#"{"content":[{"type":"text","text":"ok"}],"resultType":"complete"}"#,
        };
        let answer = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        let body = Full::new(answer).map_err(|never| match never {}).boxed_unsync();
        let response = Response::builder().header("content-type", "application/json").body(body);
        Box::pin(async move { Ok(response.expect("valid parts")) })
    }
}

fn member(n: usize, tools: usize) -> Member {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}"#;
    let all: Vec<String> = (0..tools)
        .map(|t| format!(r#"{{"name":"tool_{t}","description":"Does {t}","inputSchema":{schema}}}"#))
        .collect();
    let list = format!(
        r#"{{"tools":[{}],"resultType":"complete","ttlMs":600000,"cacheScope":"public"}}"#,
        all.join(",")
    );
    let name: Arc<str> = format!("m{n}").into();
    let timeout = Duration::from_secs(10);
    Member {
        prefix: name.to_string(),
        tools: Globs::any(),
        show: Show::default(),
        seat: Seat::new(Arc::clone(&name), 64, Some(timeout)),
        upstream: Arc::new(Canned { list }),
        travels: false,
        catalog: Arc::new(Catalog::new(Arc::clone(&name), Some("2026-07-28"), timeout)),
        name,
    }
}

fn request(method: &str, params: &str, name: &str) -> Request<Bytes> {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{meta}}}}}"#);
    let mut request = Request::post("/mcp").header("mcp-protocol-version", "2026-07-28");
    request = request.header("mcp-method", method);
    if !name.is_empty() {
        request = request.header("mcp-name", name);
    }
    let body = Bytes::from(body);
    // As the pipeline does, which has read it before.
    if let Ok(Body::Object(message)) = message::parse(&body)
        && let Some(outline) = message.outline(&body)
    {
        request = request.extension(outline);
    }
    request.body(body).expect("valid parts")
}

/// Nanoseconds for one call.
async fn cost(upstream: &dyn Upstream, request: &Request<Bytes>, batch: usize) -> u128 {
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let began = Instant::now();
        for _ in 0..batch {
            let answer = upstream.call(request.clone()).await.expect("answered");
            black_box(answer.into_body().collect().await.expect("whole"));
        }
        batches.push(began.elapsed().as_nanos() / batch as u128);
    }
    batches.sort_unstable();
    batches[BATCHES / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("| tools | call straight, ns | call routed, ns | added, ns | first page of the list, us |");
    println!("|---|---|---|---|---|");
    for tools in [10, 100, 1_000, 10_000] {
        let members: Vec<_> = (0..MEMBERS).map(|n| member(n, tools / MEMBERS)).collect();
        let direct = Arc::clone(&members[3].upstream);
        let catalogs: Vec<_> = members.iter().map(|m| Arc::clone(&m.catalog)).collect();
        let stop = CancellationToken::new();
        for member in &members {
            let run = Arc::clone(&member.catalog).run(Arc::clone(&member.upstream), stop.clone());
            tokio::spawn(run);
        }
        let aggregate = Aggregate::new(members, "__", Arc::new(Sealer::of_this_process()));
        while catalogs.iter().any(|c| c.age().is_none()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let name = |prefix: &str| format!("{prefix}tool_{}", tools / MEMBERS - 1);
        let call = |name: &str| {
            let params = format!(r#""name":"{name}","arguments":{{"path":"/tmp/a","limit":5}},"#);
            request("tools/call", &params, name)
        };
        let straight = cost(&*direct, &call(&name("")), BATCH).await;
        let routed = cost(&aggregate, &call(&name("m3__")), BATCH).await;
        let list = cost(&aggregate, &request("tools/list", "", ""), 2).await;
        println!(
            "| {tools} | {straight} | {routed} | {} | {} |",
            routed.saturating_sub(straight),
            list / 1000
        );
        stop.cancel();
    }
}
