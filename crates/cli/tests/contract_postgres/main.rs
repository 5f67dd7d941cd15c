//! The contract on PostgreSQL: the tests of `contract`, the same files, but every server has a database of its own on a
//! real PostgreSQL. What is about SQLite files (`startup_sqlite.rs`) is left out; `startup_postgres.rs` takes its place.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../contract/all_databases.rs"]
mod all_databases;
mod database;
mod startup_postgres;
#[path = "../contract/support/mod.rs"]
mod support;
