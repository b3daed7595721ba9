//! The Rust SDK as a server, of both eras: over HTTP at `/mcp`, or over stdio.
//!
//! Owns what a server lists and answers; the tools are in `calls`. Does not own the wire, which is
//! the SDK's and is what is tested. Lists of tools come in two pages. `slow` reports its end in the events file.
//! Usage: `rmcp-server PORT|stdio EVENTS_FILE [REVISION]`, the latter for one legacy revision and no other.

#![allow(deprecated, reason = "what a revision has given up is still to be tested")]

mod calls;
mod tools;

use std::{
    borrow::Cow,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CreateTaskResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, ListPromptsResult, ListResourcesResult, ListToolsResult, LoggingLevel,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
    task_manager::{TaskManager, TaskOptions},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use calls::{Answer, complete, failed, made, says};
use tools::tools;

const MODERN: &str = "2026-07-28";
const WATCHED: &str = "test://rust/watched";
const ABOUT: &str = "test://rust/about";

#[derive(Clone)]
struct Server {
    events: Arc<str>,
    changes: broadcast::Sender<()>,
    tasks: TaskManager,
    /// How often `change` was called, which is told by the list of tools.
    added: Arc<AtomicU64>,
    /// Of one legacy session.
    level: Arc<Mutex<LoggingLevel>>,
    /// What is spoken: one revision, or all.
    revisions: Cow<'static, [ProtocolVersion]>,
}

impl Server {
    fn new(events: &str, revision: Option<&str>) -> Result<Self, ErrorData> {
        let revisions = match revision {
            Some(revision) => Cow::Owned(vec![made(json!(revision))?]),
            None => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        };
        Ok(Self {
            events: events.into(),
            changes: broadcast::Sender::new(16),
            tasks: TaskManager::new(),
            added: Arc::default(),
            level: Arc::new(Mutex::new(LoggingLevel::Debug)),
            revisions,
        })
    }

    /// For another session.
    fn again(&self) -> Self {
        Self { level: Arc::new(Mutex::new(LoggingLevel::Debug)), ..self.clone() }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        made(json!({
            "protocolVersion": MODERN,
            "capabilities": {
                "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
                "prompts": {}, "completions": {}, "logging": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
            "serverInfo": {"name": "smartgate-rmcp-server", "version": "1.0.0"},
        }))
        .expect("what the SDK knows")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.revisions.clone()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools(self.added.load(Ordering::Relaxed));
        let (first, second) = tools.split_at(tools.len() / 2);
        match request.and_then(|page| page.cursor).as_deref() {
            None => complete(json!({"tools": first, "nextCursor": "second"})),
            Some("second") => complete(json!({"tools": second})),
            Some(_) => Err(ErrorData::invalid_params("no such page", None)),
        }
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Answer {
        let given = Value::from(request.arguments.clone().unwrap_or_default());
        match request.name.as_ref() {
            "echo" => says(format!("Echo: {}", given["message"].as_str().unwrap_or_default())),
            "count" => {
                let steps = given["steps"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
                for step in 1..=steps {
                    Self::progress(&context, step, steps).await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                says(format!("Counted to {steps}"))
            }
            "slow" => self.slow(given["tag"].as_str().unwrap_or_default(), &context).await,
            "total" => {
                let sum = given["a"].as_i64().zip(given["b"].as_i64()).map(|(a, b)| a + b);
                Ok(CallToolResult::structured(json!({"total": sum})).into())
            }
            "fail" => Ok(complete::<CallToolResult>(json!({
                "content": [{"type": "text", "text": "this tool always fails"}], "isError": true,
            }))?
            .into()),
            "greet" | "open_page" | "ask_model" | "list_roots" => Self::ask(&request, &context).await,
            "change" => self.change(&context).await,
            "later" if context.client_capabilities().is_some_and(|can| can.supports_tasks()) => {
                let task = self.tasks.spawn(TaskOptions::new().with_poll_interval_ms(20), |_| {
                    Box::pin(async {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Ok(CallToolResult::structured(json!({"done": true})))
                    })
                });
                Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
            }
            "later" => says("done at once"),
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        complete(json!({"resources": [{"uri": ABOUT, "name": "about"}, {"uri": WATCHED, "name": "watched"}]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = "a resource of the Rust server";
        Ok(ReadResourceResponse::Complete(complete(
            json!({"contents": [{"uri": request.uri, "text": text}]}),
        )?))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        complete(json!({"prompts": [{"name": "visit", "arguments": [{"name": "city", "required": true}]}]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let city = Value::from(request.arguments.unwrap_or_default())["city"].take();
        let text = format!("Visit {}", city.as_str().unwrap_or("nowhere"));
        Ok(GetPromptResponse::Complete(complete(
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}),
        )?))
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        complete(json!({"completion": {"values": ["paris"], "total": 1, "hasMore": false}}))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().map_err(failed)? = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        let accepted = context.accepted();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change.map_err(failed)?,
            }
            if accepted.resource_subscriptions.iter().flatten().any(|uri| uri == WATCHED) {
                context.sink().notify_resource_updated(WATCHED).await.map_err(failed)?;
            }
            if accepted.tools_list_changed == Some(true) {
                context.sink().notify_tool_list_changed().await.map_err(failed)?;
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut words = std::env::args().skip(1);
    let (Some(place), Some(events)) = (words.next(), words.next()) else {
        return Err("usage: rmcp-server PORT|stdio EVENTS_FILE [REVISION]".into());
    };
    let server = Server::new(&events, words.next().as_deref())?;
    if place == "stdio" {
        server.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    }
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(
        move || Ok(server.again()),
        sessions,
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", place.parse()?)).await?;
    loop {
        let (connection, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        // A connection that breaks is its client's affair.
        tokio::spawn(async move {
            http1::Builder::new().serve_connection(TokioIo::new(connection), service).await.ok()
        });
    }
}
