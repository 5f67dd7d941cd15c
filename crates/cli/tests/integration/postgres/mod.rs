//! On PostgreSQL, where every server has a database of its own on a real one: what `sqlite` runs, too, the same files. What is
//! about SQLite files (`startup_sqlite.rs`) is left out; `startup_postgres.rs` takes its place.

#[path = "../contract/mod.rs"]
mod contract;
mod database;
mod startup_postgres;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of `sqlite`; not all of it is needed here")]
mod support;
