//! Behaviour over real sockets, one module for each behaviour. Everything listens on port 0 of loopback
//! and waits for conditions, never for a fixed time to pass.

#![allow(clippy::unwrap_used, reason = "a test that unwraps what it must have says so by failing")]

mod audit_commands;
mod audit_query;
mod audit_tampered;
mod audit_verify;
mod docs;
mod doctor;
mod gateway;
mod index;
mod init;
mod io;
mod listings;
mod support;
mod tools;
