//! A task as it stands, told as its server would tell of it: what may have been missed while a stream was away. Unlike
//! a resource, which a client reads again, a task may have nothing more to tell.

use http::{Method, Request, Response, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use serde_json::json;

use super::{call, listen::Listen, member::MAX_TASK_EVENT};
use crate::{
    bridge::hops::Hops,
    mcp::{
        headers::{METHOD_HEADER, NAME_HEADER, name_value},
        json as slices,
        response::Format,
        sse::Scanner,
    },
    upstream::ResponseBody,
};

const METHOD: &str = "tasks/get";

/// A notification of this task, if its server says how it stands.
pub(super) async fn notification(listen: &Listen, public: &str) -> Option<String> {
    let answer = call::call(&listen.core, question(listen, public)?).await.ok()?;
    let answer = read(answer).await?;
    let root = slices::parse(&answer).ok()?;
    let result = root.get("result").filter(|r| r.is_object())?;
    let members = result.members().filter(|m| !m.name.is_string("resultType") && !m.name.is_string("_meta"));
    let members: Vec<String> = members.map(|m| format!("{}:{}", m.name.text(), m.value.text())).collect();
    Some(listen.message("notifications/tasks", &members.join(",")))
}

/// The question, as the client itself would ask it here.
fn question(listen: &Listen, public: &str) -> Option<Request<bytes::Bytes>> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{METHOD}","params":{{"taskId":{},"_meta":{}}}}}"#,
        json!(public),
        listen.meta
    );
    let mut request = Request::new(body.into());
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    *headers = listen.headers.clone();
    headers.remove(CONTENT_LENGTH);
    headers.insert(METHOD_HEADER, http::HeaderValue::from_static(METHOD));
    headers.insert(NAME_HEADER, name_value(public)?);
    *request.extensions_mut() = listen.extensions.clone();
    // The record of the stream is about the stream.
    request.extensions_mut().remove::<Hops>();
    Some(request)
}

/// The response, however it is framed.
async fn read(answer: Response<ResponseBody>) -> Option<Vec<u8>> {
    let events = Format::is_sse(answer.headers());
    let (mut body, mut scanner) = (answer.into_body(), Scanner::new(MAX_TASK_EVENT));
    let (mut whole, mut found) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.ok()?;
        let Some(data) = frame.data_ref() else { continue };
        if events {
            scanner.feed(data, |event| {
                let is_response = slices::parse(event.data).is_ok_and(|m| m.get("result").is_some());
                found = found.take().or_else(|| is_response.then(|| event.data.to_vec()));
            });
            if found.is_some() {
                return found;
            }
        } else if whole.len() + data.len() > MAX_TASK_EVENT {
            return None;
        } else {
            whole.extend_from_slice(data);
        }
    }
    (!events).then_some(whole)
}
