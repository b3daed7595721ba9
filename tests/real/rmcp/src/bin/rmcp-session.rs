//! The Rust SDK as a client that holds one session and obeys commands from its input: they come as JSON lines, each is
//! answered by one JSON line.
//!
//! Owns the loop and the shape of answers. Invariant: a command that fails is answered with `{"failed": ...}`, and the
//! session goes on. Usage: `rmcp-session URL --mode auto|legacy`.

#![allow(deprecated, reason = "what a revision has given up is still to be tested")]

use std::error::Error;

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, ClientInfo, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, GetPromptRequestParams, ProtocolVersion,
        ReadResourceRequestParams,
    },
    service::{RequestContext, RunningService},
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Failure = Box<dyn Error + Send + Sync>;

/// Answers what servers ask.
struct Handler;

/// The SDK's types cannot be written down without their deprecated parts.
fn made<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|why| ErrorData::internal_error(why.to_string(), None))
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientInfo {
        let mut info = ClientInfo::default();
        info.capabilities =
            made(json!({"elicitation": {}, "sampling": {}})).expect("capabilities as the SDK knows them");
        info
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        made(json!({"action": "accept", "content": {"name": "Ada"}}))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        made(json!({"role": "assistant", "content": {"type": "text", "text": "sampled"}, "model": "test"}))
    }
}

fn lifecycle(mode: &str) -> ClientLifecycleMode {
    match mode {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| "a TLS provider is already set")?;
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [url, flag, mode] = &words[..] else { return Err("usage: rmcp-session URL --mode MODE".into()) };
    if flag != "--mode" {
        return Err(format!("unknown flag {flag}").into());
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
    let client = Handler.serve_with_lifecycle(transport, lifecycle(mode)).await?;
    serve(&client).await?;
    client.cancel().await?;
    Ok(())
}

/// Obeys until the input ends.
async fn serve(client: &RunningService<RoleClient, Handler>) -> Result<(), Failure> {
    let info = client.peer().peer_info().ok_or("the server did not say who it is")?;
    println!("{}", json!({"protocol": info.protocol_version.as_str()}));
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let command: Value = serde_json::from_str(&line)?;
        let answer = obey(client, &command).await;
        println!("{}", answer.unwrap_or_else(|why| json!({"failed": why.to_string()})));
    }
    Ok(())
}

/// Reading the standard input blocks, so it has a thread.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn obey(client: &RunningService<RoleClient, Handler>, command: &Value) -> Result<Value, Failure> {
    let name = command["name"].as_str().unwrap_or_default();
    let arguments = command["arguments"].as_object().cloned();
    Ok(match command["do"].as_str() {
        Some("lists") => json!({
            "tools": each(&client.list_all_tools().await?, "name")?,
            "prompts": each(&client.list_all_prompts().await?, "name")?,
            "resources": each(&client.list_all_resources().await?, "uri")?,
            "templates": each(&client.list_all_resource_templates().await?, "uriTemplate")?,
        }),
        Some("call") => {
            let mut params = CallToolRequestParams::new(name.to_owned());
            params.arguments = arguments;
            let result = serde_json::to_value(client.call_tool(params).await?)?;
            json!({"text": joined(&result["content"], "/text"), "error": result["isError"] == true})
        }
        Some("prompt") => {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = arguments;
            let result = serde_json::to_value(client.get_prompt(params).await?)?;
            json!({"text": joined(&result["messages"], "/content/text")})
        }
        Some("read") => {
            let uri = command["uri"].as_str().ok_or("the URI is missing")?;
            let result = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
            json!({"text": joined(&serde_json::to_value(&result.contents)?, "/text")})
        }
        other => return Err(format!("unknown command {other:?}").into()),
    })
}

fn each<T: Serialize>(entries: &[T], member: &str) -> Result<Vec<Value>, Failure> {
    entries.iter().map(|entry| Ok(serde_json::to_value(entry)?[member].take())).collect()
}

fn joined(entries: &Value, pointer: &str) -> String {
    entries.as_array().into_iter().flatten().filter_map(|entry| entry.pointer(pointer)?.as_str()).collect()
}
