//! A server is killed under load and started again with `--queue`, many times: it starts at once, whatever the killed one was
//! doing, and the other server goes on answering meanwhile.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fresh_database;
use crate::support::*;

/// A few, which cost seconds. `TASKQUEUE_TEST_KILLS=50` is the full number.
const KILLS: usize = 6;
/// For the first requests of a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the killed server does: small commands of many clients, and long ones, which need the queue for themselves.
fn requests() -> [Box<dyn Fn(usize) -> Request + Sync>; 5] {
    let create = |n: usize| Request::new("PUT", &of_task(n, "")).json(json!({}));
    let claim = |n: usize| claim_request("default", n);
    let settings =
        |n: usize| Request::new("PATCH", &in_queue("/settings")).json(json!({"max_running": 100_000 + n % 2}));
    let update = |n: usize| {
        let body: Value = json!({"filter": "priority < 100", "changes": {"priority": n % 7}});
        Request::new("PATCH", &in_queue("/tasks")).json(body)
    };
    [Box::new(create), Box::new(create), Box::new(claim), Box::new(settings), Box::new(update)]
}

/// Sends to the victim until it does not answer any more. Counts what was answered.
fn load(address: &str, numbers: impl Iterator<Item = usize>, request: &dyn Fn(usize) -> Request, done: &AtomicUsize) {
    let Ok(mut connection) = Connection::tcp(address) else { return };
    for n in numbers {
        if connection.exchange(&request(n)).is_err() {
            return;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates tasks by the other server until `stop` is set.
fn go_on(server: &Server, numbers: impl Iterator<Item = usize>, stop: &AtomicBool) {
    for n in numbers.take_while(|_| !stop.load(Ordering::Relaxed)) {
        server.call("PUT", &of_task(n, ""), json!({})).expect(201);
    }
}

#[test]
fn a_server_with_a_queue_starts_at_once_after_each_kill_and_the_other_one_goes_on() {
    let kills = env::var("TASKQUEUE_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let database = fresh_database();
    let url = database.url();
    let arguments = ["--database", url.as_str(), "--queue", "q"];
    let (mut victim, other) = (Server::with_arguments(&arguments), Server::with_arguments(&arguments));
    let requests = requests();
    for kill in 0..kills {
        let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let first = |client: usize| (kill * 10 + client + 1) * 1_000_000;
        thread::scope(|scope| {
            for (client, request) in requests.iter().enumerate() {
                let (address, done) = (victim.address.clone(), &done);
                scope.spawn(move || load(&address, first(client).., request, done));
            }
            // Each time at another moment of what it does.
            let until = Instant::now() + PATIENCE;
            while done.load(Ordering::Relaxed) < 40 + kill {
                assert!(Instant::now() < until, "the server answers nothing");
                thread::yield_now();
            }
            victim.kill();
        });
        thread::scope(|scope| {
            scope.spawn(|| go_on(&other, first(9).., &stop));
            let _stop = StopAtTheEnd(&stop);
            victim.start_again();
        });
    }
}
