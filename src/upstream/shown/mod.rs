//! What it takes to show as a streamable HTTP server what is none (a command over stdio, a server over HTTP+SSE):
//! responses, streams, and what waits for a client.

pub(super) mod answer;
pub(super) mod find;
pub(super) mod mailbox;
pub(super) mod outbox;
pub(super) mod owner;
