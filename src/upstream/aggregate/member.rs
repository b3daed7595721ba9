//! The stream of one member on which it tells of resources and tasks, for one client. Owns its reopening: what may have
//! been missed meanwhile is told when it stands again.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};

use super::{
    edit,
    listen::{Listen, SUBSCRIPTION, Share, Told},
    missed,
    present::quoted,
};
use crate::{
    mcp::{
        headers::{METHOD_HEADER, NAME_HEADER},
        json::{
            self as slices,
            edit::{self as splice, Splice},
        },
        response::Format,
        sse::Scanner,
    },
    upstream::{ResponseBody, UpstreamError, backoff::Backoff},
};

/// Largest message looked at; these are far smaller.
const MAX_EVENT: usize = 64 * 1024;
/// The same where tasks are told of, with the whole result of each.
pub(super) const MAX_TASK_EVENT: usize = 4 * 1024 * 1024;
/// A stream that lived this long was a good one: the next is opened soon.
const LONG_LIVED: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Who may go on after the acknowledgement to the client; `None` before.
pub(super) type Released = watch::Receiver<Option<Arc<HashSet<usize>>>>;

/// Follows the member until the client leaves, or for good if the member refuses.
pub(super) async fn follow(
    listen: Arc<Listen>,
    seat: usize,
    share: Share,
    tell: mpsc::Sender<Told>,
    released: Released,
) {
    let mut member = Member { listen, seat, share, tell, released, acknowledged: false };
    let mut pause = Backoff::up_to(LONGEST_PAUSE);
    loop {
        let opened = Instant::now();
        let gone = match member.open().await {
            Ok(answer) => member.read(answer).await.is_err(),
            Err(_unreachable) => false,
        };
        if gone {
            return;
        }
        if !member.acknowledged {
            // The client is told that these are not followed.
            drop(member.tell.send(Told::Answered(seat, Share::default())).await);
            return;
        }
        if opened.elapsed() >= LONG_LIVED {
            pause.reset();
        }
        sleep(pause.next()).await;
    }
}

struct Member {
    listen: Arc<Listen>,
    seat: usize,
    share: Share,
    tell: mpsc::Sender<Told>,
    released: Released,
    /// Whether it has acknowledged before.
    acknowledged: bool,
}

/// Nobody listens any more.
struct Gone;

impl Member {
    async fn open(&self) -> Result<Response<ResponseBody>, UpstreamError> {
        let core = &self.listen.core;
        let id = core.next_id.fetch_add(1, Relaxed);
        let mut wanted = json!({});
        if !self.share.uris.is_empty() {
            wanted["resourceSubscriptions"] = json!(self.share.uris);
        }
        if !self.share.tasks.is_empty() {
            wanted["taskIds"] = self.share.tasks.keys().cloned().collect();
        }
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{wanted},"_meta":{}}}}}"#,
            edit::meta(&self.listen.meta, self.share.declares_tasks)
        );
        let mut request = Request::new(body.into());
        *request.method_mut() = Method::POST;
        *request.headers_mut() = self.listen.headers.clone();
        request.headers_mut().remove(http::header::CONTENT_LENGTH);
        request.headers_mut().remove(NAME_HEADER);
        request.headers_mut().insert(METHOD_HEADER, HeaderValue::from_static("subscriptions/listen"));
        *request.extensions_mut() = self.listen.extensions.clone();
        let member = &core.members[self.seat];
        member.mark(request.extensions_mut());
        member.upstream.call(request).await
    }

    /// Reads until the stream ends.
    async fn read(&mut self, answer: Response<ResponseBody>) -> Result<(), Gone> {
        if !answer.status().is_success() || !Format::is_sse(answer.headers()) {
            return Ok(());
        }
        let mut body = answer.into_body();
        let largest = if self.share.tasks.is_empty() { MAX_EVENT } else { MAX_TASK_EVENT };
        let mut scanner = Scanner::new(largest);
        let mut messages = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            scanner.feed(data, |event| messages.push(event.data.to_vec()));
            for message in messages.drain(..) {
                self.message(&message).await?;
            }
        }
        Ok(())
    }

    async fn message(&mut self, message: &[u8]) -> Result<(), Gone> {
        let Ok(root) = slices::parse(message) else { return Ok(()) };
        let method = root.get("method").and_then(|m| m.as_str());
        match method.as_deref() {
            Some("notifications/subscriptions/acknowledged") => self.opened(root).await,
            Some("notifications/resources/updated") if self.acknowledged => self.pass(root, None).await,
            Some("notifications/tasks") if self.acknowledged => {
                let id = root.get("params").and_then(|p| p.get("taskId"));
                let public = id.and_then(|id| self.share.tasks.get(&*id.as_exact_str()?));
                // One that the client did not ask about is none of its business.
                let Some((id, public)) = id.zip(public) else { return Ok(()) };
                self.pass(root, Some(Splice::replace(id.range(), quoted(public)))).await
            }
            _ => Ok(()),
        }
    }

    /// Gives a message to the client, with the id of its own request.
    async fn pass(&self, message: slices::Raw<'_>, splice: Option<Splice>) -> Result<(), Gone> {
        let subscription = message.get("params").and_then(|p| p.get("_meta")?.get(SUBSCRIPTION));
        let Some(subscription) = subscription else { return Ok(()) };
        let ours = Splice::replace(subscription.range(), self.listen.id.as_bytes().to_vec());
        let splices = [ours].into_iter().chain(splice).collect();
        let message = splice::apply(message.document().as_bytes(), splices);
        self.tell(Told::Message(String::from_utf8_lossy(&message).into_owned())).await
    }

    async fn opened(&mut self, message: slices::Raw<'_>) -> Result<(), Gone> {
        let honoured = message.get("params").and_then(|p| p.get("notifications"));
        let honoured = |member: &str| -> HashSet<String> {
            let all = honoured.and_then(|n| n.get(member)).into_iter().flat_map(|h| h.elements());
            all.filter_map(|item| Some(item.as_exact_str()?.into_owned())).collect()
        };
        let (uris, tasks) = (honoured("resourceSubscriptions"), honoured("taskIds"));
        if self.acknowledged {
            for uri in self.share.uris.iter().filter(|u| uris.contains(*u)) {
                self.tell(Told::Message(self.listen.updated(uri))).await?;
            }
            for (_, public) in self.share.tasks.iter().filter(|(own, _)| tasks.contains(*own)) {
                if let Some(message) = missed::notification(&self.listen, public).await {
                    self.tell(Told::Message(message)).await?;
                }
            }
            return Ok(());
        }
        self.acknowledged = true;
        self.share.uris.retain(|uri| uris.contains(uri));
        self.share.tasks.retain(|own, _| tasks.contains(own));
        self.tell(Told::Answered(self.seat, self.share.clone())).await?;
        let released = self.released.wait_for(Option::is_some).await.map_err(|_| Gone)?;
        let mine = released.as_ref().is_some_and(|seats| seats.contains(&self.seat));
        if mine { Ok(()) } else { Err(Gone) }
    }

    async fn tell(&self, told: Told) -> Result<(), Gone> {
        self.tell.send(told).await.map_err(|_| Gone)
    }
}
