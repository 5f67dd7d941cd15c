//! The client against a server that sends wrong answers, stalls, redirects and closes connections. What the client and the real server do together
//! is tested in `crates/cli/tests/integration/client`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod invalid_answers;
mod outcomes;
mod retries;
mod secrecy;
mod server;
mod tasks_that_wait;
mod versions;
