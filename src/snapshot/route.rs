//! What stands behind one endpoint: an upstream as it is, the same translated for clients of the other era, or all
//! upstreams shown as one. Owns the choice between them, which is made anew for every call. Invariant: what client and
//! upstream both speak is not translated.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, uri::PathAndQuery};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    bridge::{
        face::{self, Face},
        parked,
        sealed::Sealer,
    },
    config::{self, Config, Target},
    glob::Globs,
    mcp::{era::Era, json::hash::FoldState, method::is_work, tools::ToolSet, version::is_modern},
    policy::access::PublicNames,
    secrets::known::Known,
    upstream::{
        BoxFuture, ResponseBody, Upstream, UpstreamError,
        aggregate::{Aggregate, Member},
        catalog::Catalog,
        legacy::{self, Legacy},
        replicas::Replicas,
        seat::{Seat, Seated},
    },
};

/// One endpoint as the pipeline uses it.
pub struct Route {
    /// As configured; compared at reload.
    pub spec: config::Upstream,
    /// What it offers. Nobody fills that of all upstreams as one, whose members have their own.
    pub catalog: Arc<Catalog>,
    /// Host for spans.
    pub address: Arc<str>,
    /// Port for spans; 0 where there is none.
    pub port: u16,
    /// Path of its endpoint, for the well-known paths below it.
    pub path: String,
    /// The same with its configured query.
    pub path_and_query: String,
    /// What its tools are called where all upstreams are shown as one.
    pub names: PublicNames,
    /// Secrets that this endpoint sends to upstreams.
    pub secrets: Arc<Known>,
    /// Where all upstreams are shown as one.
    pub all: Option<All>,
    /// Its places and its breaker; several as one have those of each.
    pub seat: Option<Arc<Seat>>,
    upstream: Arc<dyn Upstream>,
    /// For calls.
    seated: Ways,
    /// For all else.
    open: Ways,
    bridge: Option<Arc<Legacy>>,
    replicas: Option<Arc<Replicas>>,
    face: Arc<Face>,
    /// Ends the catalog's task.
    pub(super) stop: CancellationToken,
}

/// All upstreams as one.
pub struct All {
    /// Answers for them.
    pub aggregate: Aggregate,
    /// Their own routes.
    pub members: Vec<Arc<Route>>,
    by_name: HashMap<Arc<str>, usize, FoldState>,
    /// Which of them is the built-in tools.
    builtin: Option<usize>,
}

/// Who answers clients.
#[derive(Clone)]
struct Ways {
    /// Those who speak as the upstream does.
    alike: Arc<dyn Upstream>,
    modern: Arc<dyn Upstream>,
    legacy: Arc<dyn Upstream>,
}

impl Ways {
    fn seated(&self, seat: &Arc<Seat>) -> Self {
        let seated = |way| Arc::new(Seated { way: Arc::clone(way), seat: Arc::clone(seat) }) as _;
        Self { alike: seated(&self.alike), modern: seated(&self.modern), legacy: seated(&self.legacy) }
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// A server and where it is.
pub(super) struct Server {
    pub(super) upstream: Arc<dyn Upstream>,
    /// The same, where it is several.
    pub(super) replicas: Option<Arc<Replicas>>,
    pub(super) address: Arc<str>,
    pub(super) port: u16,
    pub(super) place: Option<PathAndQuery>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) stop: CancellationToken,
}

impl Route {
    /// The route to one server.
    /// `before` is what served its clients until now.
    pub(super) fn to(
        server: Server,
        spec: &config::Upstream,
        separator: &str,
        sealer: &Arc<Sealer>,
        before: Option<&Arc<Self>>,
    ) -> Self {
        let Server { upstream, replicas, address, port, place, catalog, stop } = server;
        let settings = legacy::Settings::default();
        let version = spec.protocol.as_deref().filter(|v| !is_modern(v));
        let parked = parked::Limits { lifetime: spec.answer_within, ..settings.parked };
        let version = version.map_or(settings.version, Into::into);
        let settings = legacy::Settings { version, parked, catalog: Some(Arc::clone(&catalog)), ..settings };
        let bridge = Arc::new(Legacy::new(Arc::clone(&upstream), Arc::clone(sealer), settings));
        let tools = Box::new(Arc::clone(&catalog));
        let (inner, sealer) = (Arc::clone(&upstream), Arc::clone(sealer));
        let face = Arc::new(Face::new(inner, sealer, tools, bounds(spec, false), before.map(|b| &*b.face)));
        let open = Ways {
            alike: Arc::clone(&upstream),
            modern: Arc::clone(&bridge) as _,
            legacy: Arc::clone(&face) as _,
        };
        // Tools inside the process keep time themselves.
        let timeout = (spec.target != Target::Builtin).then_some(spec.timeout);
        let seat = Seat::new(Arc::clone(&spec.name), usize::MAX, timeout);
        let place = place.as_ref();
        let rename = spec.show.rename.iter();
        let renamed = rename.filter_map(|(own, r)| r.name.clone().map(|name| (own.clone(), name)));
        let separator = if spec.prefix.is_empty() { "" } else { separator };
        Self {
            names: PublicNames { prefix: format!("{}{separator}", spec.prefix), renamed: renamed.collect() },
            path: place.map_or("/", PathAndQuery::path).to_owned(),
            path_and_query: place.map_or("/", PathAndQuery::as_str).to_owned(),
            secrets: Arc::new(secrets([spec])),
            spec: spec.clone(),
            all: None,
            catalog,
            address,
            port,
            upstream,
            seated: open.seated(&seat),
            open,
            seat: Some(seat),
            bridge: Some(bridge),
            face,
            replicas,
            stop,
        }
    }

    /// The route to all servers as one.
    pub(super) fn to_all(
        config: &Config,
        members: Vec<Arc<Self>>,
        sealer: &Arc<Sealer>,
        before: Option<&Arc<Self>>,
    ) -> Self {
        let shown = members.iter().map(|m| m.as_member()).collect();
        Self::to_several(config, members, shown, sealer, before)
    }

    /// The route to one server as it is shown, under its own names.
    pub(super) fn to_one(
        config: &Config,
        route: &Arc<Self>,
        sealer: &Arc<Sealer>,
        before: Option<&Arc<Self>>,
    ) -> Self {
        let shown = vec![Member { prefix: String::new(), ..route.as_member() }];
        let names = PublicNames { prefix: route.names.prefix.clone(), renamed: BTreeMap::new() };
        Self { names, ..Self::to_several(config, vec![Arc::clone(route)], shown, sealer, before) }
    }

    fn as_member(self: &Arc<Self>) -> Member {
        let spec = &self.spec;
        let seat = self.seat.as_ref().map(Arc::clone).expect("one server has a seat");
        Member::of(spec, seat, Arc::new(AsModern(Arc::clone(self))), Arc::clone(&self.catalog))
    }

    fn to_several(
        config: &Config,
        members: Vec<Arc<Self>>,
        shown: Vec<Member>,
        sealer: &Arc<Sealer>,
        before: Option<&Arc<Self>>,
    ) -> Self {
        let aggregate = Aggregate::new(shown, &config.separator, Arc::clone(sealer));
        let upstream: Arc<dyn Upstream> = Arc::new(aggregate.clone());
        let tools = Box::new(aggregate.clone());
        let spec = spec_of_all(config, &Arc::from(ALL));
        let (inner, sealer) = (Arc::clone(&upstream), Arc::clone(sealer));
        let settings = bounds(&spec, sealer.is_shared());
        let face = Arc::new(Face::new(inner, sealer, tools, settings, before.map(|b| &*b.face)));
        let open = Ways {
            alike: Arc::clone(&upstream),
            modern: Arc::clone(&upstream),
            legacy: Arc::clone(&face) as _,
        };
        let name = Arc::clone(&spec.name);
        Self {
            spec,
            catalog: Arc::new(Catalog::new(name, None, Duration::ZERO)),
            address: Arc::from(""),
            port: 0,
            path: "/".into(),
            path_and_query: "/".into(),
            names: PublicNames::default(),
            secrets: Arc::new(secrets(members.iter().map(|m| &m.spec))),
            all: Some(All::new(aggregate, members)),
            seated: open.clone(),
            open,
            seat: None,
            bridge: None,
            replicas: None,
            face,
            upstream,
            stop: CancellationToken::new(),
        }
    }

    /// Who answers a client of this era that sends this method: the upstream, or what stands before it.
    /// `headers` are those that it sends on.
    pub async fn way(&self, era: Era, method: Option<&str>, headers: &HeaderMap) -> &Arc<dyn Upstream> {
        self.catalog.before(era, &self.upstream, headers).await;
        self.known_way(era, if method.is_some_and(is_work) { &self.seated } else { &self.open })
    }

    fn known_way<'a>(&'a self, era: Era, ways: &'a Ways) -> &'a Arc<dyn Upstream> {
        if self.all.is_none() && (self.is_builtin() || self.catalog.speaks(era)) {
            return &ways.alike;
        }
        match era {
            Era::Modern => &ways.modern,
            Era::Legacy => &ways.legacy,
        }
    }

    /// The same way to a server of a test.
    #[cfg(test)]
    pub(crate) fn to_test(like: &Self, upstream: &Arc<dyn Upstream>, sealer: &Arc<Sealer>) -> Self {
        let server = Server {
            upstream: Arc::clone(upstream),
            replicas: None,
            address: "test".into(),
            port: 0,
            place: None,
            catalog: Arc::clone(&like.catalog),
            stop: CancellationToken::new(),
        };
        let [alike, modern, legacy] = [(); 3].map(|()| Arc::clone(upstream));
        let open = Ways { alike, modern, legacy };
        Self { seated: open.clone(), open, ..Self::to(server, &like.spec, "", sealer, None) }
    }

    /// The server itself, with nothing before it.
    pub(super) fn upstream(&self) -> Arc<dyn Upstream> {
        Arc::clone(&self.upstream)
    }

    /// The upstream as it is: for documents, which are of no era.
    #[must_use]
    pub fn direct(&self) -> &Arc<dyn Upstream> {
        &self.upstream
    }

    /// What modern clients of a legacy server have in between; it keeps sessions and waiting calls.
    #[must_use]
    pub fn bridge(&self) -> Option<&Legacy> {
        self.bridge.as_deref()
    }

    /// What legacy clients of a modern server, or of several, have in between; it remembers their sessions.
    #[must_use]
    pub fn face(&self) -> &Face {
        &self.face
    }

    /// Its replicas, if it has several.
    #[must_use]
    pub fn replicas(&self) -> Option<&Replicas> {
        self.replicas.as_deref()
    }

    /// Whether the tools inside the process answer.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        self.spec.target == Target::Builtin
    }

    /// The tools that clients see here.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolSet> {
        match &self.all {
            Some(all) => all.aggregate.tools(),
            None => self.catalog.tools(),
        }
    }

    /// Where several are shown as one: the server that answers calls of a tool, and the tool's name there.
    #[must_use]
    pub fn server_of(&self, tool: &str) -> Option<(&Arc<Self>, Arc<str>)> {
        let all = self.all.as_ref()?;
        let (name, own) = all.aggregate.owner(tool)?;
        Some((all.member(&name)?, own))
    }

    /// The built-in tools, if it is they who answer calls of this tool.
    #[must_use]
    pub fn builtin_of(self: &Arc<Self>, tool: Option<&str>) -> Option<&Arc<Self>> {
        let Some(all) = &self.all else { return Some(self).filter(|route| route.is_builtin()) };
        let builtin = all.members.get(all.builtin?)?;
        let (name, _) = all.aggregate.owner(tool?)?;
        Some(builtin).filter(|route| route.spec.name == name)
    }

    /// Ends what runs for this route alone.
    pub(super) fn retire(&self) {
        self.stop.cancel();
        self.face.retire();
        if let Some(all) = &self.all {
            all.aggregate.retire();
        }
    }

    pub(super) fn learn(&self, tasks: &TaskTracker) {
        let (catalog, upstream) = (Arc::clone(&self.catalog), Arc::clone(&self.upstream));
        tasks.spawn(catalog.run(upstream, self.stop.clone()));
    }
}

impl All {
    fn new(aggregate: Aggregate, members: Vec<Arc<Route>>) -> Self {
        let by_name = members.iter().enumerate().map(|(n, m)| (Arc::clone(&m.spec.name), n)).collect();
        let builtin = members.iter().position(|m| m.is_builtin());
        Self { aggregate, members, by_name, builtin }
    }

    /// Whether these are its members.
    pub(super) fn is_of(&self, members: &[Arc<Route>]) -> bool {
        self.members.len() == members.len()
            && self.members.iter().zip(members).all(|(before, now)| Arc::ptr_eq(before, now))
    }

    /// The route of a member.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Arc<Route>> {
        self.members.get(*self.by_name.get(name)?)
    }
}

/// A server as one of several: whatever it speaks, it is spoken to in the modern way. Calls are seated by who sends them.
struct AsModern(Arc<Route>);

impl Upstream for AsModern {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        self.0.known_way(Era::Modern, &self.0.open).call(call)
    }

    fn sleeps(&self) -> bool {
        self.0.upstream.sleeps()
    }
}

fn secrets<'a>(specs: impl IntoIterator<Item = &'a config::Upstream>) -> Known {
    let values = specs.into_iter().flat_map(|spec| spec.headers.values());
    Known::of_headers(values.map(|value| value.expose().as_bytes()))
}

fn bounds(spec: &config::Upstream, names_sessions: bool) -> face::Settings {
    let limits = face::Limits::default();
    face::Settings { answer_within: spec.answer_within, limits, names_sessions }
}

/// No upstream can be called so.
const ALL: &str = "*";

/// The longest times of all upstreams; those of each count behind it.
fn spec_of_all(config: &Config, name: &Arc<str>) -> config::Upstream {
    let longest =
        |time: fn(&config::Upstream) -> Duration| config.upstreams.iter().map(time).max().unwrap_or_default();
    config::Upstream {
        name: Arc::clone(name),
        target: Target::All,
        protocol: None,
        http_sse: false,
        prefix: String::new(),
        tools: Globs::any(),
        headers: BTreeMap::new(),
        timeout: longest(|u| u.timeout),
        idle_timeout: longest(|u| u.idle_timeout),
        max_total_timeout: longest(|u| u.max_total_timeout),
        answer_within: longest(|u| u.answer_within),
        connect_timeout: longest(|u| u.connect_timeout),
        retries: 0,
        schema_coercion: None,
        tls: config::UpstreamTls::default(),
        smart: config::Smart::default(),
        show: config::Show::default(),
    }
}
