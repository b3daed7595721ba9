//! What the built-in upstream answers, before it becomes an HTTP response: one JSON-RPC message, or nothing.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json, value::RawValue};

use super::usage::Usage;

/// An answer.
#[derive(Debug)]
pub(super) enum Reply {
    /// To notifications and responses.
    Accepted,
    /// To requests.
    Message {
        /// HTTP status.
        status: StatusCode,
        /// The JSON-RPC message.
        body: Bytes,
        /// Of a tool that ran to its end.
        usage: Option<Usage>,
    },
}

impl Reply {
    pub(super) fn result(id: &RawValue, result: &impl serde::Serialize) -> Self {
        let result = serde_json::to_string(result).expect("results are maps with string keys");
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.get());
        Self::Message { status: StatusCode::OK, body: body.into(), usage: None }
    }

    /// `id` is `None` where none could be read.
    pub(super) fn error(
        status: StatusCode,
        id: Option<&RawValue>,
        code: i64,
        message: &str,
        data: Option<Value>,
    ) -> Self {
        let id = id.map(|id| format!(r#""id":{},"#, id.get())).unwrap_or_default();
        let mut error = json!({"code": code, "message": message});
        if let Some(data) = data {
            error["data"] = data;
        }
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#);
        Self::Message { status, body: body.into(), usage: None }
    }

    pub(super) fn with_usage(mut self, used: Option<Usage>) -> Self {
        if let Self::Message { usage, .. } = &mut self {
            *usage = used;
        }
        self
    }
}
