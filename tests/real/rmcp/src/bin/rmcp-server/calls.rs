//! What the tools do. Invariant: a client of either era is asked and told in the way of its era; `slow` reports its
//! end in the events file, however it ends.

use std::{io::Write, sync::atomic::Ordering, time::Duration};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, InputRequiredResult, LoggingLevel,
        ProgressNotificationParam,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    MODERN, Server, WATCHED,
    tools::{added, question, verdict},
};

const SLOW: Duration = Duration::from_secs(60);

pub(crate) type Answer = Result<CallToolResponse, ErrorData>;

/// The SDK's types cannot be written down without their deprecated parts.
pub(crate) fn made<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|why| ErrorData::internal_error(why.to_string(), None))
}

/// A result, which the SDK takes to be complete only if it says so; towards legacy clients it leaves the word out.
pub(crate) fn complete<T: serde::de::DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = "complete".into();
    made(value)
}

pub(crate) fn failed(why: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(why.to_string(), None)
}

pub(crate) fn says(text: impl Into<String>) -> Answer {
    Ok(complete::<CallToolResult>(json!({"content": [{"type": "text", "text": text.into()}]}))?.into())
}

impl Server {
    pub(crate) fn report(&self, event: &str, tag: &str) -> Result<(), ErrorData> {
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(&*self.events).map_err(failed)?;
        writeln!(file, "{event} {tag}").map_err(failed)
    }

    pub(crate) async fn progress(
        context: &RequestContext<RoleServer>,
        done: u32,
        total: u32,
    ) -> Result<(), ErrorData> {
        let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
        let params = ProgressNotificationParam::new(token, done.into()).with_total(total.into());
        context.peer.notify_progress(params).await.map_err(failed)
    }

    pub(crate) async fn slow(&self, tag: &str, context: &RequestContext<RoleServer>) -> Answer {
        self.report("start", tag)?;
        Self::progress(context, 1, 2).await?;
        tokio::select! {
            () = context.ct.cancelled() => {
                self.report("cancelled", tag)?;
                Err(failed("cancelled"))
            }
            () = tokio::time::sleep(SLOW) => {
                self.report("finished", tag)?;
                says("nobody cancelled")
            }
        }
    }

    /// In the way of each era: an incomplete result, or a request on the call's own stream.
    pub(crate) async fn ask(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Answer {
        let tool = request.name.as_ref();
        if is_modern(context) {
            return match request.input_responses.as_ref().and_then(|all| all.get("asked")) {
                Some(answer) => says(verdict(tool, answer)),
                None => Ok(made::<InputRequiredResult>(json!({
                    "resultType": "input_required", "inputRequests": {"asked": question(tool)}, "requestState": "asked",
                }))?
                .into()),
            };
        }
        let params = question(tool)["params"].take();
        let answer = match tool {
            "greet" | "open_page" => {
                let result = context.peer.create_elicitation(made(params)?).await.map_err(failed)?;
                serde_json::to_value(result)
            }
            "ask_model" => {
                serde_json::to_value(context.peer.create_message(made(params)?).await.map_err(failed)?)
            }
            _ => serde_json::to_value(context.peer.list_roots().await.map_err(failed)?),
        };
        says(verdict(tool, &answer.map_err(failed)?))
    }

    /// Adds a tool in the place of the last one that was added, and tells of it.
    pub(crate) async fn change(&self, context: &RequestContext<RoleServer>) -> Answer {
        let number = self.added.fetch_add(1, Ordering::Relaxed) + 1;
        if self.level(context).is_some_and(|level| level as u8 <= LoggingLevel::Warning as u8) {
            let log = made(json!({"level": "warning", "data": "changed"}))?;
            context.peer.notify_logging_message(log).await.map_err(failed)?;
        }
        if is_modern(context) {
            // Nobody may listen.
            self.changes.send(()).ok();
        } else {
            let updated = made(json!({"uri": WATCHED}))?;
            context.peer.notify_resource_updated(updated).await.map_err(failed)?;
            context.peer.notify_tool_list_changed().await.map_err(failed)?;
        }
        says(added(number))
    }

    /// From where on the client wants log lines: none without a word in the modern era, all in the legacy one.
    fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        if is_modern(context) {
            return context.meta.log_level();
        }
        Some(self.level.lock().map_or(LoggingLevel::Debug, |level| *level))
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= MODERN)
}
