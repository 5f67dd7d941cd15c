//! The client against a server that sends wrong answers, stalls, redirects and closes connections. That both sides mean the same by
//! each body is proven in `api`; what the client does with the real server, by the commands and the worker of `cli`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod invalid_answers;
mod lists;
mod outcomes;
mod retries;
mod secrecy;
mod server;
mod tasks_that_wait;
mod versions;
