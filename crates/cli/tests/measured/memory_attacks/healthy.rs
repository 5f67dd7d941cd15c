//! A client that does what clients do, one thing after the other, and does not hold on to anything.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// How long the client goes on trying before it counts as not served. A 503 says when to try again.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the healthy client has in its queue: small tasks.
pub(crate) const QUEUE: &str = "healthy";

/// What became of the work.
#[derive(Default)]
pub(crate) struct Served {
    rounds: usize,
    busy: usize,
    slowest: Duration,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, busy, slowest } = self;
        write!(f, "{rounds} rounds of requests, the slowest in {slowest:.1?}, {busy} tried again after 503")
    }
}

/// Works until `end`, and at least three rounds.
pub(crate) fn work(server: &Server, end: Instant) -> Served {
    let mut served = Served::default();
    while served.rounds < 3 || Instant::now() < end {
        round(server, &mut served);
    }
    served
}

/// One round.
pub(crate) fn once(server: &Server) {
    round(server, &mut Served::default());
}

fn round(server: &Server, served: &mut Served) {
    let (n, tasks) = (served.rounds, format!("/api/v2/queues/{QUEUE}/tasks"));
    let run = json!({"route": "default", "run_id": run_id(n)});
    let id = |n: usize| format!("{tasks}/{}", task_id(n));
    // Creating is safe to repeat; so are claims with the same run id.
    let requests = [
        (Request::new("GET", "/health"), 200),
        (Request::new("PUT", &id(1000 + n)).json(json!({"name": format!("n{n}")})), 201),
        (Request::new("GET", &id(0)), 200),
        (Request::new("GET", &format!("{tasks}?limit=100")), 200),
        (Request::new("GET", "/api/v2/queues/large/tasks?limit=2"), 200),
        (Request::new("POST", &format!("{tasks}/claim")).json(run), 200),
        (Request::new("DELETE", &id(999_999)), 204),
    ];
    for (request, status) in requests {
        patiently(server, &request, status, served);
    }
    served.rounds += 1;
}

/// Sends a request until it is answered with something else than "busy".
fn patiently(server: &Server, request: &Request, status: u16, served: &mut Served) {
    let (what, begun) = (format!("{} {}", request.method, request.target), Instant::now());
    loop {
        // A new connection for each request: new clients must be served, too.
        match Connection::tcp(&server.address).and_then(|mut connection| connection.exchange(request)) {
            Ok(response) if response.status == status || response.status == 200 => break,
            Ok(response) if response.status == 503 => served.busy += 1,
            Ok(response) => panic!("{response:?}"),
            Err(error) => panic!("{what}: {error}; {served}\n{}", server.stderr()),
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not served within {PATIENCE:?}; {served}");
        thread::park_timeout(Duration::from_millis(100));
    }
    served.slowest = served.slowest.max(begun.elapsed());
}
