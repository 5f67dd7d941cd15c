//! Several servers on one PostgreSQL, tested from outside: real processes, plain HTTP, and faults of both.

mod activity;
mod clocks;
mod crashes;
mod graceful_stop;
mod held_heartbeats;
mod histories;
mod kills;
mod limits;
mod output;
mod pooler;
mod servers;
mod start;
mod waiting;

use taskqueue_test_postgres::Cluster;

use crate::support::Server;

fn fresh_database() -> taskqueue_test_postgres::Database {
    Cluster::shared().database()
}

/// A server on a database.
fn server(url: &str) -> Server {
    Server::with_arguments(&["--database", url])
}
