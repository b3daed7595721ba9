//! The cases, in the order in which they run, and the set of processes that most of them need.

mod keys;
mod latency;
mod repair;
mod several;
mod start;
mod streams;
mod sweep;
mod throughput;

use tempfile::TempDir;

use crate::{
    Plan, Res,
    gateway::{Gateway, Setting},
    nginx,
    process::Process,
    table::Table,
};

/// Measures one thing and adds its rows.
type Case = fn(&Plan, &mut Table) -> Res<()>;

/// Every case by the name the command line knows it under.
pub(crate) const ALL: [(&str, Case); 8] = [
    ("throughput", throughput::run),
    ("latency", latency::run),
    ("several", several::run),
    ("start", start::run),
    ("streams", streams::run),
    ("keys", keys::run),
    ("sweep", sweep::run),
    ("repair", repair::run),
];

/// An upstream and everything that stands in front of it, in one run.
struct Field {
    folder: TempDir,
    upstream: Process,
    sink: Process,
    bare: Process,
    nginx: Option<Process>,
    gateway: Option<Gateway>,
}

impl Field {
    fn start(plan: &Plan) -> Res<Self> {
        let folder = tempfile::tempdir()?;
        let (upstream, sink) = (Process::role(&["upstream"])?, Process::role(&["sink"])?);
        let bare = Process::role(&["bare", &upstream.address.to_string()])?;
        let nginx = nginx::installed().then(|| nginx::start(folder.path(), upstream.address)).transpose()?;
        let setting = Setting {
            folder: folder.path(),
            upstream: upstream.address,
            sink: sink.address,
            keys: 10,
            upstreams: 1,
            prefixed: false,
        };
        let gateway = plan.gateway.as_ref().map(|program| Gateway::start(program, &setting)).transpose()?;
        gateway.as_ref().map(Gateway::settle).transpose()?;
        Ok(Self { folder, upstream, sink, bare, nginx, gateway })
    }

    /// What calls can be sent to; the first is the upstream itself, without a proxy.
    fn targets(&self) -> Vec<(&'static str, &Process)> {
        let mut targets = vec![("direct", &self.upstream), ("bare", &self.bare)];
        targets.extend(self.nginx.as_ref().map(|nginx| ("nginx", nginx)));
        targets.extend(self.gateway.as_ref().map(|gateway| ("gateway", &gateway.process)));
        targets
    }
}
