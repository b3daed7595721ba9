//! Who may call what, how often, how much: decisions over compiled tables that wait for nothing. No HTTP statuses.

pub mod access;
pub mod auth;
pub mod budget;
pub mod origin;
pub mod rate_limit;
