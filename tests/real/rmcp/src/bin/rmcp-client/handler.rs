//! What the client answers and hears by itself: questions of the server, progress and notices. Invariant: the same
//! question has the same answer in every client of these tests.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientInfo, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
        ResourceUpdatedNotificationParam,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Sends every progress notification on to the walk, which reads them call by call.
pub(crate) struct Handler {
    pub(crate) progress: mpsc::UnboundedSender<ProgressNotificationParam>,
    pub(crate) can_answer: bool,
    pub(crate) extensions: Value,
    pub(crate) heard: Heard,
}

/// Kinds of notices that came.
pub(crate) type Heard = Arc<Mutex<BTreeSet<&'static str>>>;

pub(crate) fn hear(heard: &Heard, kind: &'static str) {
    heard.lock().expect("nobody panics with it").insert(kind);
}

/// The SDK's types cannot be written down without their deprecated parts.
pub(crate) fn made<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|why| ErrorData::internal_error(why.to_string(), None))
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientInfo {
        let mut info = ClientInfo::default();
        if self.can_answer {
            info.capabilities =
                made(json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": self.extensions}))
                    .expect("capabilities as the SDK knows them");
        }
        info
    }

    async fn on_resource_updated(
        &self,
        _params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        hear(&self.heard, "resources/updated");
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        hear(&self.heard, "tools/list_changed");
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        hear(&self.heard, "resources/list_changed");
    }

    async fn on_logging_message(
        &self,
        _params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        hear(&self.heard, "message");
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if matches!(request, ElicitRequestParams::UrlElicitationParams { .. }) {
            return made(json!({"action": "accept"}));
        }
        made(json!({"action": "accept", "content": {"name": "Ada"}}))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        made(json!({"role": "assistant", "content": {"type": "text", "text": "sampled"}, "model": "test"}))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        made(json!({"roots": [{"uri": "file:///home/ada", "name": "ada"}]}))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.send(params).expect("the walk reads until the client is closed");
    }
}
