//! Who may call what, how often: synchronous decisions over compiled tables. No I/O, no HTTP statuses.

pub mod access;
pub mod auth;
pub mod origin;
pub mod rate_limit;
