//! Holds and runs under handles, by tenant.
//!
//! Invariant: a look-up goes to the tenant first, so that a handle of another is as unknown as one that never was, and
//! takes as long to not be found.

use std::{collections::HashMap, sync::Arc};

use super::{book::Refused, wall::Wall};

/// Holds of one tenant, and runs of one, at a time.
const MOST: usize = 1_000;

/// Why a handle cannot be made or used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A wall has too little left.
    Refused(Refused),
    /// No such hold of this tenant, or it has expired.
    NoHold,
    /// No such run of this tenant, or it has expired.
    NoRun,
    /// The tenant has as many as it may have.
    TooMany(usize),
}

/// A hold under a handle.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) walls: Arc<[Wall]>,
    pub(super) tokens: u64,
    pub(super) ends: i64,
}

/// A sub-budget, with its walls.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) walls: Vec<Wall>,
    pub(super) ends: i64,
}

/// What is a tenant's, by handle.
#[derive(Debug, Default)]
pub(super) struct Handles {
    pub(super) holds: HashMap<Arc<str>, Hold>,
    pub(super) runs: HashMap<Arc<str>, Run>,
}

/// What is a tenant's, with its name as the others share it.
pub(super) fn known<'a>(
    tenants: &'a mut HashMap<Arc<str>, Handles>,
    tenant: &str,
) -> Option<(Arc<str>, &'a mut Handles)> {
    let (name, _) = tenants.get_key_value(tenant)?;
    let name = Arc::clone(name);
    tenants.get_mut(tenant).map(|handles| (name, handles))
}

pub(super) fn room(taken: usize) -> Result<(), Fault> {
    if taken >= MOST { Err(Fault::TooMany(MOST)) } else { Ok(()) }
}
