//! Dependencies in numbers: many tasks that wait for one, one that waits for many, long chains, and that others are served while
//! what they wait for is worked off. `TASKQUEUE_TEST_CHILDREN` and `TASKQUEUE_TEST_CHAIN` make them larger, for measurements.

use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};

use super::support::*;

/// More than are settled in one transaction.
const CHILDREN: usize = 3_000;
/// More than are settled in one transaction, down a chain.
const CHAIN: usize = 1_500;

/// A number of the environment, for measurements.
fn number(name: &str, usual: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn create_many(server: &Server, range: std::ops::Range<usize>, task: impl Fn(usize) -> Value) {
    for from in range.clone().step_by(1_000) {
        let tasks: Vec<Value> = (from..range.end.min(from + 1_000)).map(&task).collect();
        let made = server.batch("create", json!({"tasks": tasks}));
        assert!(made.iter().all(|item| item["outcome"] == "created"), "{:?}", made[0]);
    }
}

/// Waits until so many tasks have the status; gives how long it took since `begun`.
#[track_caller]
fn await_count(server: &Server, status: &str, count: usize, begun: Instant) -> Duration {
    loop {
        let counted = server.get(&in_queue(&format!("/tasks/count?status={status}"))).expect(200).json();
        if counted["count"] == count {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{counted} are {status}, not {count}");
    }
}

/// Does the work while another client claims and completes tasks of its own; gives the longest time that one request took.
fn longest_beside(server: &Server, work: impl FnOnce() + Send) -> Duration {
    let mut longest = Duration::ZERO;
    thread::scope(|scope| {
        let work = scope.spawn(of_this_test(work));
        for n in 90_000_000.. {
            server.create(n, json!({"routes": ["beside"]}));
            let asked = Instant::now();
            server.claim_for("q", "beside", n).expect(200);
            longest = longest.max(asked.elapsed());
            let asked = Instant::now();
            server.act(n, "complete", n).expect(204);
            longest = longest.max(asked.elapsed());
            if work.is_finished() {
                break;
            }
        }
        work.join().unwrap();
    });
    longest
}

#[test]
fn all_tasks_that_wait_for_one_can_be_claimed_soon_after_it_succeeded() {
    let children = number("TASKQUEUE_TEST_CHILDREN", CHILDREN);
    let server = Server::with_queue();
    server.create(0, json!({}));
    // They are settled in the order of their creation, so that the last one tells when all are.
    create_many(&server, 1..children + 1, |n| {
        let route = if n == children { "last" } else { "child" };
        json!({"id": task_id(n), "dependencies": [task_id(0)], "routes": [route]})
    });
    assert!(!server.finds_a_task("child", 99_000_000));
    server.claim(0);
    let (mut answered, mut all) = (Duration::ZERO, Duration::ZERO);
    let longest = longest_beside(&server, || {
        let begun = Instant::now();
        server.act(0, "complete", 0).expect(204);
        answered = begun.elapsed();
        assert_eq!(server.claimed_in_time("last", 99_000_001), children);
        all = begun.elapsed();
    });
    let mut claimed = 1;
    for from in (0..children).step_by(1_000) {
        let runs: Vec<String> = (from..children.min(from + 1_000)).map(|n| run_id(1_000_000 + n)).collect();
        let items = server.batch("claim", json!({"route": "child", "run_ids": runs}));
        claimed += items.iter().filter(|item| item["outcome"] == "claimed").count();
    }
    assert_eq!(claimed, children);
    // Seconds and 200 ms are measured on a quiet machine; here many tests run at once.
    assert!(answered < Duration::from_secs(5) && longest < Duration::from_secs(5), "{answered:?} {all:?} {longest:?}");
}

#[test]
fn a_chain_is_cancelled_from_its_beginning_to_its_end() {
    let chain = number("TASKQUEUE_TEST_CHAIN", CHAIN);
    let server = Server::with_queue();
    server.create(0, json!({}));
    create_many(
        &server,
        1..chain,
        |n| json!({"id": task_id(n), "dependencies": [task_id(n - 1)], "on_dependency_failure": "cancel"}),
    );
    let (mut answered, mut all) = (Duration::ZERO, Duration::ZERO);
    let longest = longest_beside(&server, || {
        let begun = Instant::now();
        server.cancel(0).expect(200);
        answered = begun.elapsed();
        all = await_count(&server, "cancelled", chain, begun);
    });
    assert!(answered < Duration::from_secs(5) && longest < Duration::from_secs(5), "{answered:?} {all:?} {longest:?}");
    for n in [1, chain / 2, chain - 1] {
        let message = server.task(n)["last_error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&task_id(n - 1)), "each names the one before it: {message}");
    }
}

#[test]
fn a_large_batch_of_tasks_with_many_dependencies_is_judged_item_by_item() {
    let server = Server::with_queue();
    let dependencies: Vec<String> = (0..1_000).map(|n| task_id(100_000 + n)).collect();
    let of = |n: usize| json!({"id": task_id(n), "dependencies": dependencies});
    let made = server.batch("create", json!({"tasks": (0..100).map(of).collect::<Vec<_>>()}));
    assert!(made.iter().all(|item| item["outcome"] == "created"));
    assert!(!server.finds_a_task("default", 1));
    server.post(&in_queue("/tasks/bulk/delete"), json!({"filter": "exists(id)", "expect": 100})).expect(200);
}
