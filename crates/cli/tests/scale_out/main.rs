//! Several servers on one PostgreSQL, tested from outside: real processes, plain HTTP, and faults of both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activity;
mod clocks;
mod crashes;
#[path = "../contract/database.rs"]
#[allow(dead_code, reason = "servers are told of their database here by an argument")]
mod database;
mod graceful_stop;
mod held_heartbeats;
mod histories;
mod kills;
mod limits;
mod output;
mod pooler;
mod servers;
mod start;
#[path = "../contract/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of the contract; not all of it is needed here")]
mod support;
mod waiting;

use support::Server;
use taskqueue_test_postgres::Cluster;

fn fresh_database() -> taskqueue_test_postgres::Database {
    Cluster::shared().database()
}

/// A server on a database.
fn server(url: &str) -> Server {
    Server::with_arguments(&["--database", url])
}
