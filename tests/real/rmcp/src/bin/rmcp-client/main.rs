//! The Rust SDK as a client: runs a plan against a URL and prints what it saw as one JSON line.
//!
//! Owns the walk through the plan. Does not own the wire, which is the SDK's and is what is tested.
//! Usage: `rmcp-client URL --mode auto|pinned|legacy --plan JSON [--ca FILE] [--key SECRET]`.

#![allow(deprecated, reason = "what a revision has given up is still to be tested")]

mod handler;

use std::{error::Error, time::Duration};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
        GetTaskParams, LoggingLevel, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
        ReadResourceRequestParams, ServerNotification, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter,
    },
    service::{PeerRequestOptions, RequestHandle, RunningService, Subscription},
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use handler::{Handler, Heard, hear, made};

type Failure = Box<dyn Error + Send + Sync>;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const WAIT: Duration = Duration::from_secs(20);
/// How long news may take.
const PATIENCE: Duration = Duration::from_secs(8);
/// No progress for so long after the result: there is no more.
const QUIET: Duration = Duration::from_millis(300);

struct Arguments {
    url: String,
    mode: String,
    plan: Value,
    ca: Option<String>,
    key: Option<String>,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("the URL is missing")?;
    let mut parsed = Arguments { url, mode: "auto".into(), plan: Value::Null, ca: None, key: None };
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        match flag.as_str() {
            "--mode" => parsed.mode = value,
            "--plan" => parsed.plan = serde_json::from_str(&value)?,
            "--ca" => parsed.ca = Some(value),
            "--key" => parsed.key = Some(value),
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    Ok(parsed)
}

fn transport(arguments: &Arguments) -> Result<StreamableHttpClientTransport<reqwest::Client>, Failure> {
    let mut builder = reqwest::Client::builder();
    if let Some(file) = &arguments.ca {
        let authority = reqwest::Certificate::from_pem(&std::fs::read(file)?)?;
        builder = builder.tls_certs_only([authority]);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(arguments.url.as_str());
    config.auth_header.clone_from(&arguments.key);
    Ok(StreamableHttpClientTransport::with_client(builder.build()?, config))
}

fn lifecycle(mode: &str) -> ClientLifecycleMode {
    match mode {
        "legacy" => ClientLifecycleMode::Initialize,
        "pinned" => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        _ => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
    }
}

fn params_of(call: &Value) -> Result<CallToolRequestParams, Failure> {
    let name = call[0].as_str().ok_or("a call is [NAME, ARGUMENTS]")?.to_owned();
    let mut params = CallToolRequestParams::new(name);
    params.arguments = call[1].as_object().cloned();
    Ok(params)
}

async fn start(peer: &Peer<RoleClient>, call: &Value) -> Result<RequestHandle<RoleClient>, Failure> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params_of(call)?));
    Ok(peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?)
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|part| part.as_text()).map(|part| part.text.as_str()).collect()
}

/// Calls a tool to its end, with answers to what the server asks meanwhile.
async fn said(client: &RunningService<RoleClient, Handler>, call: &Value) -> Result<String, Failure> {
    Ok(text(&client.call_tool(params_of(call)?).await?))
}

async fn run(arguments: Arguments) -> Result<Value, Failure> {
    let (sender, mut progress) = mpsc::unbounded_channel();
    let heard = Heard::default();
    let handler = Handler {
        progress: sender,
        heard: heard.clone(),
        can_answer: arguments.plan.get("extra").is_some(),
        extensions: if arguments.plan.get("task").is_some() { json!({TASKS: {}}) } else { json!({}) },
    };
    let client = handler.serve_with_lifecycle(transport(&arguments)?, lifecycle(&arguments.mode)).await?;
    let (peer, plan) = (client.peer(), &arguments.plan);
    let info = peer.peer_info().ok_or("the server did not say who it is")?;
    let server = info.server_info.as_ref().map(|about| about.name.as_str());
    let pages = pages_of(peer).await?;
    let echo = said(&client, &plan["echo"]).await?;
    let mut seen = json!({
        "protocol": info.protocol_version.as_str(), "server": server, "pages": pages.len(), "tools": pages.concat(), "echo": echo,
    });
    if plan.get("slow").is_some() {
        walk_long_calls(&client, plan, &mut progress, &mut seen).await?;
    }
    if let Some(extra) = plan.get("extra").and_then(Value::as_object) {
        let mut steps = serde_json::Map::new();
        for (step, call) in extra {
            let answer = one_call(&client, call).await;
            steps.insert(step.clone(), answer.unwrap_or_else(|why| json!({"failed": why.to_string()})));
        }
        seen["extra"] = steps.into();
    }
    if let Some(uri) = plan.get("read").and_then(Value::as_str) {
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        seen["read"] = serde_json::to_value(&read.contents)?[0]["text"].take();
    }
    if plan.get("prompt").is_some() {
        walk_prompts(&client, plan, &mut seen).await?;
    }
    if let Some(call) = plan.get("task") {
        seen["task"] = task_of(&client, call).await?;
    }
    if let Some(notices) = plan.get("notices") {
        seen["notices"] = notices_of(&client, &heard, notices, arguments.mode == "legacy").await?;
        seen["after"] = pages_of(peer).await?.concat().into();
    }
    client.cancel().await?;
    Ok(seen)
}

/// The names of the tools, page by page.
async fn pages_of(peer: &Peer<RoleClient>) -> Result<Vec<Vec<String>>, Failure> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        pages.push(page.tools.into_iter().map(|tool| tool.name.into_owned()).collect());
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(pages);
        }
    }
}

/// Gets a prompt, and has an argument completed.
async fn walk_prompts(
    client: &RunningService<RoleClient, Handler>,
    plan: &Value,
    seen: &mut Value,
) -> Result<(), Failure> {
    let (prompt, completion) = (&plan["prompt"], &plan["completion"]);
    let params = made(json!({"name": prompt[0], "arguments": prompt[1]}))?;
    let found = serde_json::to_value(client.get_prompt(params).await?)?;
    seen["prompt"] = found["messages"][0]["content"]["text"].clone();
    let params = made(json!({
        "ref": {"type": "ref/prompt", "name": completion[0]},
        "argument": {"name": completion[1], "value": completion[2]},
    }))?;
    seen["completion"] = client.complete(params).await?.completion.values.into();
    Ok(())
}

/// What became of a call that a server may answer with a task: its result, and whether it was one.
async fn task_of(client: &RunningService<RoleClient, Handler>, call: &Value) -> Result<Value, Failure> {
    let created = match client.call_tool_once(params_of(call)?).await? {
        CallToolResponse::Task(created) => created,
        CallToolResponse::Complete(result) => return Ok(json!({"task": false, "text": text(&result)})),
        other => return Err(format!("neither a task nor a result: {other:?}").into()),
    };
    let id = created.task.task_id;
    for _ in 0..100 {
        let found = client.peer().get_task(GetTaskParams::new(id.clone())).await?;
        if found.task.status().is_terminal() {
            let task = serde_json::to_value(&found)?;
            return Ok(
                json!({"task": true, "status": task["status"], "result": task["result"]["structuredContent"]}),
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("the task did not end".into())
}

/// Subscribes, and in each round lets the server change and tells what came of it: the names of the notices, and the
/// texts of the calls.
async fn notices_of(
    client: &RunningService<RoleClient, Handler>,
    heard: &Heard,
    plan: &Value,
    legacy: bool,
) -> Result<Value, Failure> {
    let rounds = plan["rounds"].as_array().ok_or("the rounds are missing")?;
    let uris: Vec<_> = plan["uris"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut events = None;
    let mut seen = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        heard.lock().expect("nobody panics with it").clear();
        let level: LoggingLevel = made(round["level"].clone())?;
        if legacy {
            client.set_level(SetLevelRequestParams::new(level)).await?;
        }
        if number == 0 && legacy {
            for uri in &uris {
                client.subscribe(SubscribeRequestParams::new(*uri)).await?;
            }
        } else if number == 0 {
            let mut filter = SubscriptionFilter::builder().tools_list_changed().resources_list_changed();
            for uri in &uris {
                filter = filter.resource_subscription(*uri);
            }
            events = Some(client.peer().listen(filter.build()).await?);
        }
        let mut texts = Vec::new();
        for call in round["calls"].as_array().into_iter().flatten() {
            let mut params = params_of(call)?;
            if !legacy {
                params.meta.get_or_insert_default().set_log_level(level);
            }
            texts.push(text(&client.call_tool(params).await?));
        }
        let wanted: Vec<_> =
            round["wanted"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let kinds = wait_for(&wanted, heard, &mut events).await?;
        seen.push(json!({"heard": kinds, "texts": texts}));
    }
    Ok(seen.into())
}

/// What was heard when all that is wanted was, or after some seconds.
async fn wait_for(
    wanted: &[&str],
    heard: &Heard,
    events: &mut Option<Subscription>,
) -> Result<Vec<&'static str>, Failure> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let seen = heard.lock().expect("nobody panics with it").clone();
        if wanted.iter().all(|kind| seen.contains(kind)) || tokio::time::Instant::now() > end {
            return Ok(seen.into_iter().collect());
        }
        let Some(events) = events else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match tokio::time::timeout(Duration::from_millis(50), events.next()).await {
            Ok(Ok(Some(ServerNotification::ResourceUpdatedNotification(_)))) => {
                hear(heard, "resources/updated")
            }
            Ok(Ok(Some(ServerNotification::ResourceListChangedNotification(_)))) => {
                hear(heard, "resources/list_changed")
            }
            Ok(Ok(Some(ServerNotification::ToolListChangedNotification(_)))) => {
                hear(heard, "tools/list_changed")
            }
            Ok(Err(why)) => return Err(why.into()),
            _ => {}
        }
    }
}

/// A call to its end; what goes wrong in it does not end the others.
async fn one_call(client: &RunningService<RoleClient, Handler>, call: &Value) -> Result<Value, Failure> {
    let result = client.call_tool(params_of(call)?).await?;
    let error = result.is_error.unwrap_or_default();
    Ok(json!({"text": text(&result), "structured": result.structured_content, "error": error}))
}

/// Progress, a cancelled call, and a call after it.
async fn walk_long_calls(
    client: &RunningService<RoleClient, Handler>,
    plan: &Value,
    progress: &mut mpsc::UnboundedReceiver<ProgressNotificationParam>,
    seen: &mut Value,
) -> Result<(), Failure> {
    seen["counted"] = said(client, &plan["progress"]).await?.into();
    let mut reported = Vec::new();
    while let Ok(Some(step)) = tokio::time::timeout(QUIET, progress.recv()).await {
        reported.push(json!([step.progress, step.total]));
    }
    seen["progress"] = reported.into();

    let waiting = start(client.peer(), &plan["slow"]).await?;
    tokio::time::timeout(WAIT, progress.recv()).await?.ok_or("no progress from the slow call")?;
    waiting.cancel(Some("enough".to_owned())).await?;
    seen["cancelled"] = true.into();

    seen["echo_after"] = said(client, &plan["echo"]).await?.into();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| "a TLS provider is already set")?;
    println!("{}", run(arguments()?).await?);
    Ok(())
}
