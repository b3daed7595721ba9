//! `subscriptions/listen`. Changes of lists are told when the merged lists have changed, which the catalogs know: told
//! any earlier, a client would read the old list again. So no member is listened to for them by each client; it is for
//! the resources and tasks that a client subscribes to, each at the member that has it.
//!
//! Invariants: one acknowledgement, before anything else; every message has the id of the client's own request; when
//! the client leaves, all streams to members end.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Response, request::Parts};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{Core, member, reply, route::resource, tasks};
use crate::{
    mcp::{
        json::{Raw, Type},
        message::Message,
        sse,
    },
    upstream::{ListsTold, ResponseBody, Told as Lists, catalog::Kind, written},
};

/// The key of a subscription's id in `_meta`.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How long the acknowledgement waits for those of the members.
const ACK_WAIT: Duration = Duration::from_secs(5);
/// Messages that wait for a client; then its members' streams are not read on. That of a task has its whole result.
const WAITING: usize = 8;
/// Most resources that one stream may be about, and most tasks.
const MOST: usize = 1_000;

/// The kinds of change: what a client asks for, who tells, and how.
const CHANGES: [(&str, &str, &[Kind]); 3] = [
    ("toolsListChanged", "tools", &[Kind::Tools]),
    ("promptsListChanged", "prompts", &[Kind::Prompts]),
    ("resourcesListChanged", "resources", &[Kind::Resources, Kind::Templates]),
];

/// One stream of a client.
pub(super) struct Listen {
    pub(super) core: Arc<Core>,
    /// The id of the client's request, as JSON.
    pub(super) id: Box<str>,
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
    /// `_meta` of the client's request, as JSON.
    pub(super) meta: Box<str>,
    /// Which of [`CHANGES`] are told.
    changes: [bool; 3],
    /// Resources and tasks, by who has them.
    shares: BTreeMap<usize, Share>,
}

/// What one member is to tell of.
#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    pub(super) uris: Vec<String>,
    /// The public id of each task, by that at the member.
    pub(super) tasks: BTreeMap<String, String>,
    /// Whether the member may know that the client has the tasks extension.
    pub(super) declares_tasks: bool,
}

impl Share {
    fn is_empty(&self) -> bool {
        self.uris.is_empty() && self.tasks.is_empty()
    }
}

/// What a member's stream tells.
pub(super) enum Told {
    /// It was opened, about these; or refused.
    Answered(usize, Share),
    /// Something for the client.
    Message(String),
}

/// Opens a stream.
pub(super) fn listen(
    core: &Arc<Core>,
    head: &Parts,
    id: &str,
    message: &Message<'_>,
    principal: &str,
) -> Response<ResponseBody> {
    let Some(wanted) = message.params.and_then(|p| p.get("notifications")).filter(Raw::is_object) else {
        return reply::invalid(id, "params.notifications must be an object");
    };
    let index = core.index();
    let asks_for_tasks = wanted.get("taskIds").is_some_and(|ids| ids.elements().next().is_some());
    if asks_for_tasks && core.serves_tasks(&index) && !tasks::declared(message) {
        return tasks::undeclared(id);
    }
    let missing = core.members.iter().any(|m| m.catalog.age().is_none());
    let tells = |capability: &str| {
        missing || index.parts.iter().any(|part| part.about.declares(capability, "listChanged"))
    };
    let changes = CHANGES.map(|(flag, capability, _)| {
        wanted.get(flag).is_some_and(|f| f.text() == "true") && tells(capability)
    });
    let uris = wanted.get("resourceSubscriptions").filter(|u| u.kind() == Type::Array);
    let mut shares: BTreeMap<usize, Share> = BTreeMap::new();
    for uri in uris.into_iter().flat_map(|u| u.elements()).filter_map(|u| u.as_exact_str()).take(MOST) {
        if let Ok(way) = resource(core, &index, &uri)
            && index.parts[way.seat].about.declares("resources", "subscribe")
        {
            shares.entry(way.seat).or_default().uris.push(uri.into_owned());
        }
    }
    for (seat, own, public) in core.tasks_wanted(&index, principal, wanted, MOST) {
        shares.entry(seat).or_default().tasks.insert(own, public);
    }
    for (seat, share) in &mut shares {
        share.declares_tasks = core.may_have_tasks(&index, *seat);
    }
    let listen = Listen {
        core: Arc::clone(core),
        id: id.into(),
        headers: head.headers.clone(),
        extensions: head.extensions.clone(),
        meta: message.meta.map_or("{}", |m| m.text()).into(),
        changes,
        shares,
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let (known, told) = watch::channel(ListsTold { digests: lists(&index.digests), ..ListsTold::default() });
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            _client_left_or_end = Arc::new(listen).run(&sender, &known) => {}
        }
    });
    let mut response = reply::events(written::body(receiver));
    response.extensions_mut().insert(Lists(told));
    response
}

/// The client has left.
struct Left;

type Sender = mpsc::Sender<Bytes>;

impl Listen {
    async fn run(self: Arc<Self>, client: &Sender, known: &watch::Sender<ListsTold>) -> Result<(), Left> {
        let mut bell = self.core.bell.subscribe();
        bell.mark_unchanged();
        let digests = lists(&self.core.fresh_index().await.digests);
        known.send_modify(|told| told.digests = digests);
        let (tell, mut told) = mpsc::channel(WAITING);
        let (release, released) = watch::channel(None);
        let mut members = JoinSet::new();
        for (seat, share) in &self.shares {
            let (this, share) = (Arc::clone(&self), share.clone());
            members.spawn(member::follow(this, *seat, share, tell.clone(), released.clone()));
        }
        let honoured = self.answers(&mut told).await;
        let seats: HashSet<usize> = honoured.keys().copied().collect();
        send(client, self.acknowledgement(honoured.into_values())).await?;
        release.send_replace(Some(Arc::new(seats)));
        loop {
            tokio::select! {
                Some(told) = told.recv() => {
                    // One that answers late is left out.
                    if let Told::Message(message) = told {
                        send(client, message).await?;
                    }
                }
                Ok(()) = bell.changed() => self.changed(client, known).await?,
                () = self.core.stop.cancelled() => return send(client, self.end()).await,
            }
        }
    }

    /// Waits for the members' acknowledgements: all, or those in time.
    async fn answers(&self, told: &mut mpsc::Receiver<Told>) -> BTreeMap<usize, Share> {
        let by = Instant::now() + ACK_WAIT;
        let mut honoured = BTreeMap::new();
        let mut left = self.shares.len();
        while left > 0 {
            match timeout_at(by, told.recv()).await {
                Ok(Some(Told::Answered(seat, share))) => {
                    left -= 1;
                    if !share.is_empty() {
                        honoured.insert(seat, share);
                    }
                }
                Ok(Some(Told::Message(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        honoured
    }

    /// Tells of the lists that are other ones now.
    async fn changed(&self, client: &Sender, known: &watch::Sender<ListsTold>) -> Result<(), Left> {
        let now = lists(&self.core.fresh_index().await.digests);
        let mut tells = [false; 3];
        known.send_modify(|told| {
            for n in 0..now.len() {
                tells[n] = now[n] != told.digests[n] && self.changes[n];
                told.notices[n] += u32::from(tells[n]);
            }
            told.digests = now;
        });
        for ((_, name, _), _) in CHANGES.iter().zip(tells).filter(|(_, tells)| *tells) {
            let method = format!("notifications/{name}/list_changed");
            send(client, self.message(&method, "")).await?;
        }
        Ok(())
    }

    fn acknowledgement(&self, shares: impl Iterator<Item = Share>) -> String {
        let (mut uris, mut tasks) = (Vec::new(), Vec::new());
        for share in shares {
            uris.extend(share.uris);
            tasks.extend(share.tasks.into_values());
        }
        let told = CHANGES.iter().zip(self.changes).filter(|(_, yes)| *yes);
        let mut honoured: Value =
            told.map(|((flag, ..), _)| ((*flag).to_owned(), Value::Bool(true))).collect();
        if !uris.is_empty() {
            uris.sort();
            honoured["resourceSubscriptions"] = uris.into();
        }
        if !tasks.is_empty() {
            tasks.sort();
            honoured["taskIds"] = tasks.into();
        }
        self.message("notifications/subscriptions/acknowledged", &format!(r#""notifications":{honoured}"#))
    }

    /// That a resource may have changed.
    pub(super) fn updated(&self, uri: &str) -> String {
        self.message("notifications/resources/updated", &format!(r#""uri":{}"#, Value::from(uri)))
    }

    /// A notification of this stream; `params` are members in JSON.
    pub(super) fn message(&self, method: &str, params: &str) -> String {
        let comma = if params.is_empty() { "" } else { "," };
        let id = &self.id;
        format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}{comma}"_meta":{{"{SUBSCRIPTION}":{id}}}}}}}"#
        )
    }

    /// The response to the client's request, with which a stream ends in order.
    fn end(&self) -> String {
        let id = &self.id;
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"{SUBSCRIPTION}":{id}}}}}}}"#
        )
    }
}

/// Of each of [`CHANGES`], from those of each kind.
fn lists(digests: &[u64; 4]) -> [u64; 3] {
    CHANGES.map(|(_, _, kinds)| {
        let fold = |all: u64, kind: &Kind| all.rotate_left(1) ^ digests[*kind as usize];
        kinds.iter().fold(0, fold)
    })
}

async fn send(client: &Sender, message: String) -> Result<(), Left> {
    client.send(sse::frame(message.as_bytes()).into()).await.map_err(|_| Left)
}
