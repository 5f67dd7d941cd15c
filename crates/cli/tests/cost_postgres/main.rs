//! The attacks of `cost`, the same files, on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../cost/attacks.rs"]
mod attacks;
#[path = "../integration/postgres/database.rs"]
#[allow(dead_code, reason = "that of the contract; not all of it is needed here")]
mod database;
#[path = "../integration/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of the contract; not all of it is needed here")]
mod support;
