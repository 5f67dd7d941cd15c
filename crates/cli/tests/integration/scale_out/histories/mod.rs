//! Random histories of tasks that wait for each other, for times, for pauses and for room, at two servers on one database: what
//! clients were told must be possible in some order, and in the end every task is where the rules say.
//! `TASKQUEUE_TEST_SECONDS` makes it longer, for a proof by hand; `TASKQUEUE_TEST_SEED` repeats the choices of one.

mod client;
mod end;
mod judge;

use std::env;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::fresh_database;
use super::server;
use crate::support::*;

const CLIENTS: usize = 6;
const SECONDS: u64 = 5;
/// A history goes on until there were so many, also on a busy machine.
const CLAIMS: usize = 80;
/// So few that clients meet at them.
const TASKS: usize = 40;
/// Tasks that nobody changes before their time has come.
const DELAYED: std::ops::Range<usize> = 1_000..1_030;

/// What was asked, when, and what was answered: both times are of the one clock of the test.
struct Call {
    begun: Instant,
    ended: Instant,
    what: What,
}

enum What {
    /// A new run asked for a task.
    Claim {
        answer: Option<Claimed>,
    },
    /// A task was completed, by the answer.
    Complete {
        task: usize,
        done: bool,
    },
    /// A run ended in another way, or may have.
    End {
        task: usize,
    },
    Delete {
        task: usize,
        done: bool,
    },
    /// The queue was paused, or its pause ended.
    Pause {
        paused: bool,
    },
}

struct Claimed {
    task: usize,
    dependencies: Vec<usize>,
    /// Microseconds since 1970.
    started_at: i64,
    attempt: i64,
}

/// Numbers that look random, the same for the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        // Marsaglia's xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn now_micros() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
#[allow(clippy::print_stderr, reason = "the only way to say which history failed, and shown only when one does")]
fn random_histories_of_waiting_tasks_at_two_servers_obey_the_rules() {
    let seconds = number("TASKQUEUE_TEST_SECONDS", SECONDS);
    let seed = number("TASKQUEUE_TEST_SEED", now_micros().unsigned_abs());
    eprintln!("TASKQUEUE_TEST_SEED={seed}");
    let database = fresh_database();
    let servers = [server(&database.url()), server(&database.url())];
    servers[0].create_queue("q");
    let times: Vec<i64> = DELAYED.map(|n| now_micros() + (n as i64 - 1_000) * 100_000).collect();
    for (n, time) in DELAYED.zip(&times) {
        servers[0].create(n, json!({"routes": ["delayed"], "not_before": at_offset(*time, 0)}));
    }
    let claims = &AtomicUsize::new(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let calls: Vec<Call> = thread::scope(|scope| {
        let run = |lane: usize| {
            let server = &servers[lane % 2];
            let choices = Choices((seed + lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            scope.spawn(move || client::run(server, lane, choices, until, claims))
        };
        let clients: Vec<_> = (0..CLIENTS).map(run).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client fails")).collect()
    });
    judge::claims_were_allowed(&calls);
    judge::delayed_tasks_were_not_early(&calls, &times);
    judge::runs_followed_each_other(&calls);
    judge::pauses_were_kept(&calls);
    end::every_task_is_where_it_belongs(&servers);
    run(&["check", "--database", &database.url()], &[]).ok();
}
