//! SmartGate: a reverse-proxy sidecar for MCP servers.
//!
//! One call walks through the modules in this order: [`server`] accepts it, [`proxy`] runs the pipeline
//! (authenticate, read, parse, check headers, normalise, route, admit, forward, observe), an
//! [`upstream`] answers it, and [`audit`] records it exactly once. [`mcp`], [`policy`] and [`config`]
//! are leaves: they know nothing of each other and do no I/O on the call path.

pub mod app;
pub mod audit;
mod breaker;
pub mod bridge;
pub mod cli;
pub mod config;
pub mod doctor;
#[cfg(test)]
#[path = "../tests/it/support/free.rs"]
mod free;
pub mod glob;
pub mod hosts;
pub mod inject;
pub mod mcp;
pub mod metrics;
pub mod pages;
pub mod policy;
pub mod proxy;
pub mod reload;
pub mod replay;
pub mod search;
pub mod secrets;
pub mod server;
pub mod signal;
pub mod signing;
pub mod snapshot;
pub mod store;
pub mod systemd;
pub mod telemetry;
#[cfg(test)]
mod testdata;
pub mod text;
pub mod upstream;
pub mod web;
