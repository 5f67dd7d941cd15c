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

use taskqueue_test_postgres::{Cluster, eventually};

use crate::support::Server;

/// Log lines of a server with `--log-level debug`: another server has waiters, it tells what it did for those of this one, and what
/// each poll of this one comes to.
const ANNOUNCED: &str = "another server announces that something waits there";
const NOTIFIED: &str = "another server notifies of a task or the end of a run";
const POLLED: &str = "for what waits";
const FOUND: &str = "a poll found something";

fn fresh_database() -> taskqueue_test_postgres::Database {
    Cluster::shared().database()
}

/// A server on a database.
fn server(url: &str) -> Server {
    Server::with_arguments(&["--database", url])
}

/// A server that logs when something waits.
fn logging_server(url: &str) -> Server {
    Server::with_arguments(&["--log-level", "debug", "--database", url])
}

/// Two of them on one database, with the queue `q`.
fn logging_servers(url: &str) -> [Server; 2] {
    let servers = [logging_server(url), logging_server(url)];
    servers[0].create_queue("q");
    servers
}

/// Lets something wait at another server, and waits until this one has heard of it. It is told so about once in a second, and
/// believes it for five.
#[track_caller]
fn announced<T>(here: &Server, wait: impl FnOnce() -> T) -> T {
    let before = here.count_log_lines(ANNOUNCED);
    let waiting = wait();
    here.await_log_lines(ANNOUNCED, before + 1);
    waiting
}

/// Does something of which this server is notified.
#[track_caller]
fn notified(there: &Server, act: impl FnOnce()) {
    let before = there.count_log_lines(NOTIFIED);
    act();
    there.await_log_lines(NOTIFIED, before + 1);
}

/// Does something that the next poll of this server finds. One that began before it may end after it, and finds nothing.
#[track_caller]
fn found_by_next_poll(there: &Server, act: impl FnOnce()) {
    let polls = || -> Vec<bool> {
        there.stderr().lines().filter(|line| line.contains(POLLED)).map(|line| line.contains(FOUND)).collect()
    };
    let before = polls().len();
    act();
    let after = polls().len();
    let found = || polls().iter().skip(before).position(|found| *found).map(|place| before + place);
    eventually("a poll finds it", || found().is_some());
    assert!(found().unwrap() <= after + 1, "{:?} since poll {before}, done at {after}", &polls()[before..]);
}
