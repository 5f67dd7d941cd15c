//! The typed client against the real binary: every endpoint once, with what the types promise. What the client does with
//! servers that misbehave is tested in `crates/client/tests`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "all_databases.rs"]
mod all_databases;
#[allow(dead_code, reason = "each database of the harness has its own ways")]
#[path = "../contract/database.rs"]
mod database;
#[allow(dead_code, reason = "the harness of the contract's tests, of which only the server process is needed here")]
#[path = "../contract/support/mod.rs"]
mod support;
