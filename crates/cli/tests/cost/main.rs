//! What valid but costly requests may do to others: nothing much. The real binary under attack, by 1, 8 and 64 requests at
//! once, while another client measures. Here on SQLite; `cost_postgres` runs the same attacks on PostgreSQL.
//!
//! `TASKQUEUE_COST_ROWS` sets the number of small tasks of `many_rows.rs`, and `TASKQUEUE_COST_SECONDS` how long each
//! number of requests attacks. The full matrix, by hand, with a release build:
//! `TASKQUEUE_COST_ROWS=1000000 TASKQUEUE_COST_SECONDS=30 cargo test --release -p taskqueue --test cost --test cost_postgres`
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "attacks.rs"]
mod attacks;
#[path = "../integration/sqlite/database.rs"]
#[allow(dead_code, reason = "that of the contract; not all of it is needed here")]
mod database;
#[path = "../integration/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of the contract; not all of it is needed here")]
mod support;
