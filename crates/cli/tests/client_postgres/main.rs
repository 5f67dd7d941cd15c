//! The typed client against the real binary on PostgreSQL: the tests of `client`, the same files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../client/all_databases.rs"]
mod all_databases;
#[allow(dead_code, reason = "each database of the harness has its own ways")]
#[path = "../contract_postgres/database.rs"]
mod database;
#[allow(dead_code, reason = "the harness of the contract's tests, of which only the server process is needed here")]
#[path = "../contract/support/mod.rs"]
mod support;
