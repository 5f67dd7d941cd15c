//! The contract, tested from outside: the real binary, plain HTTP, one module per topic of `docs/reference/`.
//! Here every server has an SQLite file; `contract_postgres` runs the same tests on PostgreSQL.
//! What needs minutes of waiting (lease expiry, outage credit) is tested elsewhere with a passed-in clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod backup_with_secrets;
mod certificates;
mod clock;
mod database;
// As a path, so that its modules are looked for beside it, in both targets.
#[path = "all_databases.rs"]
mod all_databases;
mod files;
mod migrate;
mod monitoring;
mod reloading;
mod restore;
mod startup_sqlite;
mod support;
mod tls;
