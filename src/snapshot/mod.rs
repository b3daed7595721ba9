//! The compiled configuration that a call holds to its end. The only place that turns configuration into
//! live objects; what a reload does not change (pools, catalogs, bucket levels) is taken over from before.

mod route;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::route::Server;
pub use self::route::{All, Route};
use crate::{
    bridge::sealed::Sealer,
    config::{self, AuthMode, Coercion, Config, Target},
    glob::Globs,
    mcp::normalize::{self, Rules},
    policy::{
        auth::{Key, KeyTable},
        budget::{Account, Ledger, Scope, Unit, Wall, Wallet, Window},
        origin::OriginPolicy,
        rate_limit::{Buckets, Quota},
    },
    proxy::limits::Limits,
    store::Store,
    text::tokens,
    upstream::{
        Caller, LOCAL, Upstream,
        bounded::Bounded,
        builtin::Builtin,
        catalog::Catalog,
        http::HttpUpstream,
        http_sse::HttpSseUpstream,
        replicas::{Replicas, port},
        stdio::StdioUpstream,
    },
};

/// Longest wait for the answer to one of the gateway's own requests to a server that runs already.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// Folder beside the storage with what is known of each upstream.
const CATALOGS: &str = "catalogs";

/// What a key may do.
#[derive(Debug)]
pub struct KeyFacts {
    /// Public tool names.
    pub tools: Globs,
    /// Its own rate.
    pub rate: Option<Quota>,
    /// Its own `schema_coercion`.
    pub coercion: Option<Coercion>,
    /// Who it is to tools inside the process.
    pub caller: Caller,
}

/// One configuration, compiled.
#[derive(Debug)]
pub struct Snapshot {
    /// As checked.
    pub config: Config,
    /// Which origins and hosts may call.
    pub origin: OriginPolicy,
    /// Who may call.
    pub keys: KeyTable<KeyFacts>,
    /// How often.
    pub limits: Limits,
    /// The storage, where something needs it.
    pub store: Option<Store>,
    /// What has been used of budgets; there is one where there is storage.
    pub ledger: Option<Arc<Ledger>>,
    /// Where to, by name.
    pub routes: BTreeMap<Arc<str>, Arc<Route>>,
    /// Where the endpoint of each leads to: to itself, or to itself as the configuration has it shown.
    pub doors: BTreeMap<Arc<str>, Arc<Route>>,
    /// Where the bare endpoint leads to.
    pub endpoint: Arc<Route>,
    /// What ids, cursors and states are sealed with.
    pub sealer: Arc<Sealer>,
}

impl Snapshot {
    /// Compiles a configuration, taking over from `before` what is the same. New catalogs begin to learn at
    /// once; call it inside the runtime.
    ///
    /// # Errors
    /// An upstream's TLS files or the storage cannot be used; the text names them.
    pub fn build(config: Config, before: Option<&Self>, tasks: &TaskTracker) -> Result<Self, String> {
        let store = match before.and_then(|b| b.store.clone()) {
            Some(store) => Some(store),
            None if needs_store(&config) => {
                Some(Store::open_to_serve(config.storage.path.as_deref(), config.storage.quota)?)
            }
            None => None,
        };
        let new = Self::compile(config, before, store, tasks)?;
        let fresh = new.routes.iter().filter(|(name, route)| {
            let kept = before.and_then(|b| b.routes.get(*name));
            kept.is_none_or(|kept| !Arc::ptr_eq(kept, route))
        });
        fresh.for_each(|(_, route)| route.learn(tasks));
        Ok(new)
    }

    /// Compiles a configuration to see what it would do: nothing is asked of upstreams, and nothing is stored. What
    /// is known of upstreams is what a gateway has kept.
    ///
    /// # Errors
    /// As [`Snapshot::build`].
    pub async fn rehearse(config: Config) -> Result<Self, String> {
        let tasks = TaskTracker::new();
        let store = if needs_store(&config) { Some(Store::open(None, config.storage.quota)?) } else { None };
        let new = Self::compile(config, None, store, &tasks)?;
        for route in new.routes.values() {
            if route.is_builtin() {
                route.catalog.look_once(&route.upstream()).await;
            } else {
                route.catalog.remember().await;
            }
        }
        Ok(new)
    }

    fn compile(
        config: Config,
        before: Option<&Self>,
        store: Option<Store>,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        if let Some(store) = &store {
            store.divide(tenants(&config));
        }
        let ledger = match (before.and_then(|b| b.ledger.clone()), &store) {
            (None, Some(store)) => Some(Arc::new(Ledger::open(store.clone())?)),
            (kept, _) => kept,
        };
        let mut routes = BTreeMap::new();
        let same =
            before.filter(|b| b.config.sealing == config.sealing && b.config.separator == config.separator);
        let sealer = same.map_or_else(|| Arc::new(sealer(&config)), |b| Arc::clone(&b.sealer));
        let kept = config.storage.path.as_deref().map(|path| path.with_file_name(CATALOGS));
        for spec in &config.upstreams {
            let unchanged = same.and_then(|b| b.routes.get(&spec.name)).filter(|r| r.spec == *spec);
            let route = match unchanged {
                Some(route) => Arc::clone(route),
                None => Arc::new(
                    server(spec, store.as_ref(), kept.as_deref(), ledger.as_ref(), tasks)
                        .map(|server| {
                            Route::to(server, spec, &config.separator, &sealer, heir(&config, same, spec))
                        })
                        .map_err(|e| format!("upstream {}: {e}", spec.name))?,
                ),
            };
            routes.insert(Arc::clone(&spec.name), route);
        }
        let doors = doors(&config, &routes, same, &sealer);
        let endpoint = endpoint(&config, &routes, same, &sealer);
        let limits = Limits {
            concurrency: config.limits.concurrency,
            rate: config.limits.rate.map(quota),
            per_tool: config.limits.per_tool.iter().map(|(g, r)| (g.clone(), quota(*r))).collect(),
        };
        let moved = before.and_then(|b| limits.moved_from(&b.limits));
        if config.keys.iter().any(|k| k.budget.is_some()) {
            // The first call with a budget should not wait for the encoder to load.
            drop(tasks.spawn_blocking(|| tokens::count("")));
        }
        for route in routes.values() {
            if let Some(seat) = &route.seat {
                seat.resize(config.places(&route.spec));
            }
        }
        let compiled = |k| key(k, &limits, before, moved.as_deref(), ledger.as_ref());
        Ok(Self {
            origin: OriginPolicy::new(
                &config.server.allowed_origins,
                &config.server.allowed_hosts,
                config.server.listen.ip().is_loopback(),
            ),
            keys: KeyTable::new(config.keys.iter().map(compiled)),
            limits,
            routes,
            doors,
            endpoint,
            sealer,
            store,
            ledger,
            config,
        })
    }

    /// Whether clients' credentials go to the upstream.
    #[must_use]
    pub fn passthrough(&self) -> bool {
        self.config.auth == AuthMode::Passthrough
    }

    /// Which repairs apply to a call.
    #[must_use]
    pub fn rules(&self, route: &Route, key: Option<&KeyFacts>) -> Rules {
        let n = self.config.normalize;
        let coercion =
            key.and_then(|k| k.coercion).or(route.spec.schema_coercion).unwrap_or(n.schema_coercion);
        Rules {
            params: n.params,
            arguments: n.arguments,
            direct_tool_method: n.direct_tool_method,
            fill_arguments: n.fill_arguments,
            coercion: match coercion {
                Coercion::Off => normalize::Coercion::Off,
                Coercion::Safe => normalize::Coercion::Safe,
                Coercion::Full => normalize::Coercion::Full,
            },
        }
    }

    /// Ends the catalogs that `after` no longer uses.
    pub fn retire(&self, after: Option<&Self>) {
        for (name, route) in &self.routes {
            let kept = after.and_then(|a| a.routes.get(name)).is_some_and(|r| Arc::ptr_eq(r, route));
            if !kept {
                route.retire();
            }
        }
        let ours = self.doors.values().chain([&self.endpoint]).filter(|door| door.all.is_some());
        let theirs: Vec<_> = after.iter().flat_map(|a| a.doors.values().chain([&a.endpoint])).collect();
        ours.filter(|door| !theirs.iter().any(|t| Arc::ptr_eq(t, door))).for_each(|door| door.retire());
    }
}

/// Makes the way to a server; connects to nothing yet.
fn server(
    spec: &config::Upstream,
    store: Option<&Store>,
    kept: Option<&Path>,
    ledger: Option<&Arc<Ledger>>,
    tasks: &TaskTracker,
) -> Result<Server, String> {
    let stop = CancellationToken::new();
    let mut replicas = None;
    let (upstream, address, port, place): (Arc<dyn Upstream>, Arc<str>, _, _) = match &spec.target {
        Target::Http(url) => {
            let host = url.host().unwrap_or_default();
            let upstream: Arc<dyn Upstream> = if spec.http_sse {
                Arc::new(HttpSseUpstream::new(spec, tasks, stop.clone())?)
            } else {
                Arc::new(HttpUpstream::new(spec)?)
            };
            (upstream, host.into(), port(url), url.path_and_query().cloned())
        }
        Target::Replicas(urls) => {
            let [first, ..] = urls.as_slice() else { return Err("no url".into()) };
            let several = Arc::new(Replicas::new(spec, urls)?);
            replicas = Some(Arc::clone(&several));
            let host = first.host().unwrap_or_default();
            (several, host.into(), port(first), first.path_and_query().cloned())
        }
        Target::Command(command) => {
            let upstream = StdioUpstream::new(spec, command, tasks, stop.clone());
            (Arc::new(upstream), command.name().into(), 0, None)
        }
        Target::Builtin => {
            let needs = "a configuration with the built-in tools needs the storage";
            let (store, ledger) = store.zip(ledger).expect(needs);
            let tools = Builtin::new(&spec.smart, store.clone(), Arc::clone(ledger));
            (Arc::new(tools), "builtin".into(), 0, None)
        }
        Target::All => return Err("no server".into()),
    };
    // Tools inside the process keep time themselves.
    let upstream = if spec.target == Target::Builtin {
        upstream
    } else {
        Arc::new(Bounded::new(upstream, spec.max_total_timeout))
    };
    // A package may have to be fetched before a command starts.
    let starts = matches!(spec.target, Target::Command(_));
    let timeout = if starts { spec.timeout } else { spec.timeout.min(LONGEST_LOOK) };
    let mut catalog = Catalog::new(Arc::clone(&spec.name), spec.protocol.as_deref(), timeout);
    if let (Some(origin), Some(folder)) = (origin(&spec.target), kept) {
        catalog = catalog.kept_in(folder, &origin);
    }
    if let Some(file) = &spec.show.pins {
        catalog = catalog.pinned(file.clone());
    }
    Ok(Server { upstream, replicas, address, port, place, catalog: Arc::new(catalog), stop })
}

/// The only upstream as it is, else all as one; the one of before, if nothing in it changed.
fn endpoint(
    config: &Config,
    routes: &BTreeMap<Arc<str>, Arc<Route>>,
    before: Option<&Snapshot>,
    sealer: &Arc<Sealer>,
) -> Arc<Route> {
    let members: Vec<Arc<Route>> =
        config.upstreams.iter().filter_map(|spec| routes.get(&spec.name)).map(Arc::clone).collect();
    if let [only] = members.as_slice()
        && is_shown_as_it_is(&only.spec)
    {
        return Arc::clone(only);
    }
    let before = before.map(|b| &b.endpoint);
    let same = before.filter(|e| e.all.as_ref().is_some_and(|all| all.is_of(&members)));
    // One that stays as a member keeps its clients.
    let left = before.filter(|e| !members.iter().any(|m| Arc::ptr_eq(m, e)));
    same.map_or_else(|| Arc::new(Route::to_all(config, members, sealer, left)), Arc::clone)
}

/// Each upstream by itself, with its own names, but for what else the configuration changes of it.
fn doors(
    config: &Config,
    routes: &BTreeMap<Arc<str>, Arc<Route>>,
    before: Option<&Snapshot>,
    sealer: &Arc<Sealer>,
) -> BTreeMap<Arc<str>, Arc<Route>> {
    let door = |(name, route): (&Arc<str>, &Arc<Route>)| {
        let door = if route.spec.show.changes() {
            let same = before.and_then(|b| b.doors.get(name));
            let only = [Arc::clone(route)];
            let same = same.filter(|d| d.all.as_ref().is_some_and(|all| all.is_of(&only)));
            let left = left(before, name).filter(|d| !Arc::ptr_eq(d, route));
            same.map_or_else(|| Arc::new(Route::to_one(config, route, sealer, left)), Arc::clone)
        } else {
            Arc::clone(route)
        };
        (Arc::clone(name), door)
    };
    routes.iter().map(door).collect()
}

/// Whose clients a new route to one server goes on with; nobody's, if it is reached through a door.
fn heir<'a>(
    config: &Config,
    before: Option<&'a Snapshot>,
    spec: &config::Upstream,
) -> Option<&'a Arc<Route>> {
    match config.upstreams.as_slice() {
        [only] if is_shown_as_it_is(only) => before.map(|b| &b.endpoint),
        _ if spec.show.changes() => None,
        _ => left(before, &spec.name),
    }
}

/// What served one upstream's clients, unless it was the bare endpoint too: whatever serves that now goes on with them.
fn left<'a>(before: Option<&'a Snapshot>, name: &str) -> Option<&'a Arc<Route>> {
    before.and_then(|b| b.doors.get(name).filter(|door| !Arc::ptr_eq(door, &b.endpoint)))
}

fn sealer(config: &Config) -> Sealer {
    match config.sealing.as_slice() {
        [] => Sealer::of_this_process(),
        keys => Sealer::new(keys.iter().map(|key| key.expose().as_bytes())),
    }
}

fn tenant(key: &config::Key) -> &Arc<str> {
    key.team.as_ref().unwrap_or(&key.name)
}

/// Whom the storage is divided among: the tenants of all keys, and that of calls without one.
#[must_use]
pub fn tenants(config: &Config) -> Vec<String> {
    let keys = config.keys.iter().map(|key| tenant(key).to_string());
    keys.chain([LOCAL.to_owned()]).collect()
}

/// What stands behind an upstream's name, hashed, because a URL may hold a token; `None` if that is this program.
fn origin(target: &Target) -> Option<String> {
    let mut digest = Sha256::new();
    match target {
        Target::Http(url) => digest.update(url.to_string()),
        Target::Replicas(urls) => digest.update(format!("{urls:?}")),
        Target::Command(command) => {
            digest.update(format!("{:?}{:?}{:?}", command.program, command.arguments, command.cwd));
        }
        Target::Builtin | Target::All => return None,
    }
    Some(hex::encode(digest.finalize()))
}

/// Whether the lists of an upstream that stands alone are its own answers, and not made from its catalog.
fn is_shown_as_it_is(spec: &config::Upstream) -> bool {
    spec.prefix.is_empty() && !spec.show.changes()
}

/// Without the built-in tools and budgets nothing is stored, and the file is not made.
fn needs_store(config: &Config) -> bool {
    config.upstreams.iter().any(|u| u.target == Target::Builtin)
        || config.keys.iter().any(|k| k.budget.is_some())
}

/// `moved`: where its per-tool buckets were before, if they are in other places now.
fn key(
    key: &config::Key,
    limits: &Limits,
    before: Option<&Snapshot>,
    moved: Option<&[Option<usize>]>,
    ledger: Option<&Arc<Ledger>>,
) -> Key<KeyFacts> {
    let same = before.and_then(|b| b.keys.by_hash(&key.sha256));
    let buckets = match (same, moved) {
        (None, _) => Arc::new(Buckets::new(limits.per_tool.len())),
        (Some(same), None) => Arc::clone(&same.buckets),
        (Some(same), Some(from)) => Arc::new(same.buckets.carried(from)),
    };
    let facts = KeyFacts {
        tools: key.tools.clone(),
        rate: key.rate.map(quota),
        coercion: key.schema_coercion,
        caller: Caller {
            name: Arc::clone(&key.name),
            tenant: Arc::clone(tenant(key)),
            program: key.caller == config::CallerKind::Program,
            memory: key.memory.clone().into(),
            index_fetches: key.index_fetches,
            nested: None,
            wallet: key.budget.zip(ledger).map(|(b, l)| Wallet::new(Arc::clone(l), walls(key, b))),
            held: 0,
        },
    };
    Key { name: Arc::clone(&key.name), sha256: key.sha256, expires: key.expires, buckets, facts }
}

/// What a key may use. Teams and plans will add walls of theirs.
fn walls(key: &config::Key, budget: config::Budget) -> Arc<[Wall]> {
    let window = match budget.window {
        config::Window::Day => Window::Day,
        config::Window::Month => Window::Month,
    };
    let account = Account { scope: Scope::Key, name: Arc::clone(&key.name), window, unit: Unit::Tokens };
    [Wall { account, limit: budget.tokens }].into()
}

fn quota(rate: config::Rate) -> Quota {
    Quota::new(rate.count, rate.per)
}
