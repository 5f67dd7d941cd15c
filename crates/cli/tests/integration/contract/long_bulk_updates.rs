//! Bulk updates whose filter takes long: other clients are served meanwhile, and what is answered 503 `database_busy` is never
//! done (docs/reference/errors.md §3.5, C1 and C5 of docs/reference/invariants.md §6).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

/// How long one bulk update alone takes at least in these tests.
const LONG: Duration = Duration::from_millis(1_200);
/// Documents at most; each is some hundred kilobytes.
const DOCUMENTS: usize = 512;

/// Bulk updates at once: two are planned at a time, so those at the end wait for longer than they may.
const MANY: usize = 24;

/// A filter that looks for many paths in each document and finds none of them.
fn expensive() -> String {
    let predicates: Vec<String> = (0..160).map(|n| format!("args.missing{n} == {n}")).collect();
    predicates.join(" or ")
}

fn document() -> Value {
    let item = |n: usize| json!({"number": n, "text": "x".repeat(40), "more": [n, n + 1, {"deep": n}]});
    json!({"args": {"list": (0..1_000).map(item).collect::<Vec<_>>()}, "routes": ["documents"]})
}

/// Sets the priority of one task; its filter reads every document.
fn bulk(server: &Server, n: usize, priority: usize) -> Response {
    let filter = format!("{} or id == '{}'", expensive(), task_id(n));
    let body = json!({"filter": filter, "changes": {"priority": priority}});
    // Past the rule of the other tests that no answer is a 503.
    server.connect().exchange(&Request::new("PATCH", &in_queue("/tasks")).json(body)).unwrap()
}

/// A server with so many large documents that a bulk update takes long; gives their number.
fn with_documents() -> (Server, usize) {
    let (server, document) = (Server::alone(), document());
    let (mut documents, mut took) = (0, Duration::ZERO);
    while took < LONG && documents < DOCUMENTS {
        let more = documents..(documents * 2).max(1);
        documents = more.end;
        more.for_each(|n| drop(server.create(n, document.clone())));
        let begun = Instant::now();
        assert_eq!(bulk(&server, 0, documents).expect(200).json()["matched"], 1);
        took = begun.elapsed();
    }
    (server, documents)
}

#[test]
fn while_long_bulk_updates_run_others_are_served_at_once() {
    let (server, _) = with_documents();
    server.create(900, json!({"routes": ["run"]}));
    server.claim_for("q", "run", 900).expect(200);
    let done = Mutex::new(Vec::new());
    let bulks = |round: usize| {
        let begun = Instant::now();
        let answer = bulk(&server, 0, round);
        assert!(answer.status == 200 || answer.code() == "database_busy", "{}", answer.text());
        if answer.status == 200 {
            done.lock().unwrap().push(begun.elapsed());
        }
    };
    let mut times = Vec::new();
    let mut timed = |call: &dyn Fn() -> Response, status: u16| {
        let begun = Instant::now();
        call().expect(status);
        times.push(begun.elapsed());
    };
    meanwhile(&[&bulks, &bulks, &bulks, &bulks], || {
        for n in 1_000..1_030 {
            timed(&|| server.act(900, "heartbeat", 900), 200);
            timed(&|| server.put(&of_task(n, ""), json!({"routes": ["small"]})), 201);
            timed(&|| server.claim_for("q", "small", n), 200);
            timed(&|| server.get("/health"), 200);
        }
    });
    times.sort_unstable();
    // Who had to wait for a bulk update would wait for about half of one; the machine may stop one of them for a while.
    let (most, second) = (times[times.len() * 9 / 10], times[times.len() - 2]);
    let done = done.into_inner().unwrap();
    let (shortest, longest) = (done.iter().min().unwrap_or(&LONG), done.iter().max().unwrap_or(&LONG));
    assert!(most < *shortest / 2 && second < *longest, "90 %: {most:?}, second: {second:?}; bulk updates: {done:?}");
}

/// Sends many at once, and compares each task with the answer about it; gives how many were answered busy.
fn busy_answers(server: &Server, round: usize) -> usize {
    let before: Vec<Value> = (0..MANY).map(|n| server.task(n)["priority"].clone()).collect();
    let answers = in_parallel(MANY, |n| bulk(server, n, round * 1_000 + n));
    // When this one is done, the others before it are done, too.
    let last = (0..20).find(|_| bulk(server, MANY, round).status == 200);
    assert!(last.is_some(), "the last one was refused again and again");
    let is_busy = |(n, answer): (usize, &Response)| {
        let priority = server.task(n)["priority"].clone();
        if answer.status == 200 {
            assert_eq!(priority, json!(round * 1_000 + n), "task {n}");
            return false;
        }
        answer.assert_error(503, "database_busy");
        assert_eq!(priority, before[n], "task {n} was answered busy and changed");
        true
    };
    answers.iter().enumerate().filter(|answer| is_busy(*answer)).count()
}

#[test]
fn a_bulk_update_that_was_answered_busy_is_never_done() {
    let (server, mut documents) = with_documents();
    (documents..=MANY).for_each(|n| drop(server.create(n, json!({}))));
    // A faster machine needs more documents until a command waits too long.
    for round in 1..6 {
        if busy_answers(&server, round) > 0 {
            return;
        }
        let (first, document) = (1_000 * round, document());
        (first..first + documents).for_each(|n| drop(server.create(n, document.clone())));
        documents *= 2;
    }
    panic!("nobody had to wait for too long, with {documents} documents");
}
