//! One request: answered here, or sent to the member that it is for.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    Core,
    answer::{self, Back},
    edit, listen, lists, reply,
    route::{self, Way},
    sessions,
    tasks::{self, Asked},
};
use crate::{
    bridge::hops::Hops,
    mcp::{
        message::{self, Body, Kind as MessageKind, Message, Outline},
        method::is_work,
    },
    upstream::{Caller, ClientSession, LOCAL, ResponseBody, UpstreamError, catalog::Kind, refusal},
};

const HEADER_MISMATCH: i64 = -32020;
/// How long a call waits for a member's tools to be listed again, after it refused the mirrored headers.
const RELIST: Duration = Duration::from_secs(3);

pub(super) async fn call(
    core: &Arc<Core>,
    request: Request<Bytes>,
) -> Result<Response<ResponseBody>, UpstreamError> {
    let (mut head, body) = request.into_parts();
    if head.method == Method::DELETE && head.extensions.get::<ClientSession>().is_some() {
        sessions::end(core, &head).await;
        return Ok(reply::bare(StatusCode::OK));
    }
    if head.method != Method::POST {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(reply::error(status, None, reply::INVALID_REQUEST, "Only POST is served here."));
    }
    let wrong = |why| Ok(reply::error(StatusCode::BAD_REQUEST, None, reply::INVALID_REQUEST, why));
    let outlined = head.extensions.remove::<Outline>().and_then(|outline| outline.of(&body));
    let message = match outlined {
        Some(message) => message,
        None => {
            let Ok(Body::Object(message)) = message::parse(&body) else {
                return wrong("Send one JSON-RPC object.");
            };
            if let Some(why) = message.refusal(false) {
                return wrong(why);
            }
            message
        }
    };
    let (id, method) = match (message.kind(), message.id(), message.method.as_deref()) {
        (MessageKind::Request, Some(id), Some(method)) => (id, method),
        // What a client may notify of is told by the end of its streams.
        (MessageKind::Notification, ..) => return Ok(reply::bare(StatusCode::ACCEPTED)),
        _ => return wrong("This revision has no responses from clients."),
    };
    let principal = head.extensions.get::<Caller>().map_or_else(|| LOCAL.into(), |c| Arc::clone(&c.name));
    if let Some(kind) = Kind::of_method(method) {
        return Ok(lists::list(core, kind, id, &message, &principal));
    }
    match method {
        "server/discover" => {
            sessions::open(core, &head, &body).await;
            Ok(lists::discover(core, id))
        }
        "subscriptions/listen" => Ok(listen::listen(core, &head, id, &message, &principal)),
        work if is_work(work) => Box::pin(forward(core, &head, id, &message, principal)).await,
        task if tasks::is_about_task(task) && core.serves_tasks(&core.index()) => {
            match tasks::declared(&message) {
                true => Box::pin(forward(core, &head, id, &message, principal)).await,
                false => Ok(tasks::undeclared(id)),
            }
        }
        _ => {
            let message = "There is no such method here.";
            Ok(reply::error(StatusCode::NOT_FOUND, Some(id), reply::METHOD_NOT_FOUND, message))
        }
    }
}

/// Sends a request to the member that it is for. One that refuses the mirrored headers is looked at again and asked
/// once more: its schema has changed (2026-07-28, streamable HTTP).
async fn forward(
    core: &Arc<Core>,
    head: &Parts,
    id: &str,
    message: &Message<'_>,
    principal: Arc<str>,
) -> Result<Response<ResponseBody>, UpstreamError> {
    let (mut again, mut stale) = (false, true);
    loop {
        let index = if stale { core.index() } else { core.fresh_index().await };
        let way = match route::find(core, &index, id, message, &principal) {
            Ok(way) => way,
            // What it does not know may be what the one that is being made has.
            Err(_) if stale && !core.is_fresh(&index) => {
                stale = false;
                continue;
            }
            Err(refusal) => return Ok(*refusal),
        };
        let member = &core.members[way.seat];
        let catalog = &member.catalog;
        if let Some(hops) = head.extensions.get::<Hops>() {
            hops.note(|seen| {
                seen.upstream = Some(Arc::clone(&member.name));
                seen.upstream_version = catalog.version();
            });
        }
        let known = catalog.offers_version();
        let tasks = core.may_have_tasks(&index, way.seat);
        let request = edited(core, head, message, &way, tasks);
        // What asks for a task is no call, as it is none in front of one server.
        let answer = match message.method.as_deref().is_some_and(is_work) {
            true => member.seat.call(&member.upstream, request).await?,
            false => member.seat.pass(&member.upstream, request).await?,
        };
        let (answer, refused) = match answer.status() {
            StatusCode::BAD_REQUEST => mismatch(answer).await?,
            _ => (answer, false),
        };
        if refused {
            catalog.nudge();
            if !again && relisted(core, || catalog.told_version() != known).await {
                (again, stale) = (true, false);
                continue;
            }
        }
        let back = Back {
            core: Arc::clone(core),
            seat: way.seat,
            id: id.into(),
            token: message.progress_token.map(|t| t.text().into()),
            tasks,
            asked: Asked::of(&way, message),
            principal,
            method: message.method.as_deref().unwrap_or_default().to_owned(),
            target: way.target,
        };
        return answer::give(answer, back);
    }
}

/// The request as it goes to the member.
fn edited(core: &Core, head: &Parts, message: &Message<'_>, way: &Way<'_>, tasks: bool) -> Request<Bytes> {
    let body = Bytes::from(edit::body(message, way, core.next_id.fetch_add(1, Relaxed), tasks));
    let method = message.method.as_deref().unwrap_or_default();
    let headers = edit::headers(head.headers.clone(), method, way, &body);
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    *request.extensions_mut() = head.extensions.clone();
    core.members[way.seat].mark(request.extensions_mut());
    request
}

/// Whether a refusal is about the mirrored headers; and the refusal again.
async fn mismatch(answer: Response<ResponseBody>) -> Result<(Response<ResponseBody>, bool), UpstreamError> {
    #[derive(Deserialize)]
    struct Refusal {
        error: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    let json = |v: &http::HeaderValue| v.as_bytes().starts_with(b"application/json");
    if !answer.headers().get(CONTENT_TYPE).is_some_and(json) {
        return Ok((answer, false));
    }
    let (answer, whole) = refusal::read(answer).await?;
    let code = serde_json::from_slice::<Refusal>(&whole).map(|r| r.error.code);
    Ok((answer, code.is_ok_and(|code| code == HEADER_MISMATCH)))
}

/// Waits for a change of a catalog; whether it came.
async fn relisted(core: &Core, changed: impl Fn() -> bool) -> bool {
    let mut bell = core.bell.subscribe();
    let rung = async {
        while !changed() {
            if bell.changed().await.is_err() {
                return;
            }
        }
    };
    timeout(RELIST, rung).await.is_ok() && changed()
}
