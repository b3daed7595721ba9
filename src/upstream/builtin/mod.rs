//! The tools inside this process, as an upstream that needs no network. Owns the HTTP face of them: statuses
//! and headers. It speaks both eras and keeps no sessions.
//!
//! Invariant: what `tools/list` shows and what `tools/call` finds come from the same table, `tool::TOOLS`.

mod arguments;
mod context;
mod protocol;
mod reply;
mod smart_budget_guard;
mod smart_context_gate;
mod smart_dedup;
mod smart_fetch;
mod smart_memory;
mod smart_pipe;
mod smart_search;
mod tool;
mod usage;

#[cfg(test)]
mod docs;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::{BoxFuture, Caller, ResponseBody, Upstream, UpstreamError};
use crate::{config, mcp::era::VERSION_HEADER, policy::budget::Ledger, store::Store};
use context::{Context, Services};
use reply::Reply;

pub use usage::Usage;

/// The tool that no budget is charged for: it must answer when there is none left.
pub const FREE: &str = smart_budget_guard::TOOL.name;

/// The built-in upstream. A finished tool call's response carries its [`Usage`] as an extension.
#[derive(Debug)]
pub struct Builtin {
    services: Arc<Services>,
}

impl Builtin {
    /// Costs nothing until a tool is called: tables that tools need load on first use.
    #[must_use]
    pub fn new(settings: &config::Smart, store: Store, ledger: Arc<Ledger>) -> Self {
        Self { services: Arc::new(Services::new(settings, store, ledger)) }
    }

    async fn answer(&self, call: Request<Bytes>) -> Response<ResponseBody> {
        if call.method() != Method::POST {
            let mut response = with_body(StatusCode::METHOD_NOT_ALLOWED, Bytes::new());
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let version = call.headers().get(VERSION_HEADER).cloned();
        let caller = call.extensions().get::<Caller>().cloned().unwrap_or_default();
        let context = Context::new(Arc::clone(&self.services), caller);
        match protocol::answer(version.as_ref(), call.body(), context).await {
            Reply::Accepted => with_body(StatusCode::ACCEPTED, Bytes::new()),
            Reply::Message { status, body, usage } => {
                let mut response = with_body(status, body);
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if let Some(usage) = usage {
                    response.extensions_mut().insert(usage);
                }
                response
            }
        }
    }
}

/// The definition of every tool as `tools/list` shows it, in its order.
#[must_use]
pub fn definitions() -> Vec<Value> {
    tool::TOOLS.iter().map(tool::Tool::listed).collect()
}

impl Builtin {
    /// Calls a tool for a program in this process: its structured result, or the error object of a failed call.
    ///
    /// # Errors
    /// `None`: there is no such tool.
    pub async fn run(&self, tool: &str, arguments: Value, caller: Caller) -> Option<Result<Value, Value>> {
        let tool = tool::TOOLS.iter().find(|t| t.name == tool)?;
        let context = Context::new(Arc::clone(&self.services), caller);
        Some(tool::run(tool, arguments, context).await.0.map_err(|error| error.to_json()))
    }
}

impl Upstream for Builtin {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move { Ok(self.answer(call).await) })
    }
}

fn with_body(status: StatusCode, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}
