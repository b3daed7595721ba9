//! Whom a session belongs to.

use std::sync::Arc;

use crate::upstream::Caller;

/// Whom a session belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::upstream) struct Owner {
    tenant: Arc<str>,
    name: Arc<str>,
}

impl From<&Caller> for Owner {
    fn from(caller: &Caller) -> Self {
        Self { tenant: Arc::clone(&caller.tenant), name: Arc::clone(&caller.name) }
    }
}
