//! Everything acknowledged survives a stop and a kill (docs/reference/http-api.md §13, I7 to I9 of
//! docs/reference/invariants.md §2).

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

/// Everything that reads show of queue `q`.
fn read_everything(server: &Server) -> Vec<String> {
    let paths = [
        "/api/v2/queues".to_owned(),
        in_queue(&format!("/tasks?{BY_ID}")),
        in_queue("/tasks?order_by=created_at"),
        in_queue("/tasks?order_by=updated_at"),
        in_queue("/tasks/count"),
        in_queue("/tasks/count?group_by=status,routes"),
        in_queue("/workers"),
        in_queue("/settings"),
        of_task(21, "/output"),
    ];
    paths.iter().map(|path| server.get(path).expect(200).text()).collect()
}

/// A queue with settings and with tasks in all states, an updated definition, a retry, tasks that wait, what a run says of itself,
/// observations and a deleted queue.
fn fill(server: &Server) {
    server.create_in_states(0);
    let args = json!({"a\0": [1.0, -0.0, 1e300, i64::MIN]});
    server.create_each(10..16, |n| json!({"priority": n % 2, "name": "é\u{10ffff}", "args": args}));
    server.patch(&of_task(10, ""), json!({"priority": 5, "result": {"r": null}})).expect(200);
    server.claim(1);
    server.act(10, "fail", 1).expect(204);
    server.requeue(12).expect(200);
    server.delete(&of_task(14, "")).expect(204);
    server.put(&of_worker(1), json!({"route": "a", "status": "busy", "task_id": task_id(1)})).expect(204);
    server.post(&(of_worker(1) + "/telemetry"), json!({"telemetry": {"cpu": 1}})).expect(204);
    let later = json!({"not_before": "2099-01-01T00:00:00Z", "retry_delay": {"seconds": 30}, "timeout_seconds": 9});
    server.create(20, later);
    server.create(21, json!({"routes": ["told"], "args": {"a": 1}}));
    server.patch(&of_task(21, ""), json!({"args_patch": {"b": {"c": 2}}})).expect(200);
    server.create(22, json!({"dependencies": [task_id(21)], "on_dependency_failure": "cancel"}));
    let claim = json!({"route": "told", "run_id": run_id(21), "worker": {"host": "gpu-3"}});
    server.post(&in_queue("/tasks/claim"), claim).expect(200);
    server.post(&of_task(21, "/progress"), json!({"run_id": run_id(21), "progress": {"step": 1}})).expect(204);
    server.send(&output_request(21, 21, 0, "abc")).expect(204);
    let settings = json!({"max_running": 9, "route_limits": {"gpu": 2}, "retention": {"failed_seconds": 86_400}});
    server.patch(&in_queue("/settings"), settings).expect(200);
    server.create_queue("deleted");
    server.delete("/api/v2/queues/deleted").expect(204);
}

#[test]
fn all_that_reads_show_survives_a_stop_and_a_kill() {
    for signal in ["TERM", "INT", "KILL"] {
        let mut server = Server::alone();
        fill(&server);
        let before = read_everything(&server);
        server.restart_by(signal);
        assert_eq!(read_everything(&server), before, "SIG{signal}");
        server.restart_by(signal);
        assert_eq!(read_everything(&server), before, "SIG{signal} twice");
    }
}

/// How far a task got: created, claimed, completed.
type Stage = usize;

/// Creates, claims and completes tasks until the server is down; journals each stage after its answer.
fn load(server: &Server, thread: usize, journal: &Sender<(usize, Stage)>) {
    let route = format!("route-{thread}");
    for n in (thread * 100_000)..(thread + 1) * 100_000 {
        let steps = [
            Request::new("PUT", &of_task(n, "")).json(json!({"routes": [route], "args": {"n": n}})),
            claim_request(&route, n),
            Request::new("POST", &of_task(n, "/complete")).json(json!({"run_id": run_id(n), "result": {"n": n}})),
        ];
        for (stage, (request, status)) in (1..).zip(steps.iter().zip([201, 200, 204])) {
            let Ok(response) = server.try_send(request) else { return };
            response.expect(status);
            journal.send((n, stage)).unwrap();
        }
    }
}

/// Lets four threads work until `answers` answers came, then sends the signal; returns the last acknowledged stage of each
/// task.
fn interrupted(server: &Server, first_thread: usize, answers: usize, signal: &str) -> HashMap<usize, Stage> {
    let (sender, journal) = mpsc::channel();
    thread::scope(|scope| {
        for number in first_thread..first_thread + 4 {
            let sender = sender.clone();
            scope.spawn(of_this_test(move || load(server, number, &sender)));
        }
        drop(sender);
        let first: Vec<_> = journal.iter().take(answers).collect();
        server.signal(signal);
        first.into_iter().chain(journal.iter()).collect()
    })
}

/// The stage that a task shows.
fn stage_of(task: &Value) -> Stage {
    match task["status"].as_str().unwrap() {
        "pending" => 1,
        "running" => 2,
        "succeeded" => 3,
        other => panic!("{other} in {task}"),
    }
}

/// Three times load, signal, restart; then every acknowledged stage must be there, and at most one more per thread.
fn assert_nothing_acknowledged_is_lost(signal: &str) {
    let mut server = Server::alone();
    let mut acknowledged = HashMap::new();
    for round in 0..3 {
        acknowledged.extend(interrupted(&server, round * 4 + 1, 300, signal));
        server.wait();
        server.start_again();
        let found = server.tasks_by_number(BY_ID);
        let mut ahead = 0;
        for (n, stage) in &acknowledged {
            let task = found.get(n).unwrap_or_else(|| panic!("SIG{signal}: task {n} is lost after stage {stage}"));
            let now = stage_of(task);
            assert!(now == *stage || now == stage + 1, "SIG{signal}: acknowledged {stage}, found {task}");
            assert_eq!(task["result"], if now == 3 { json!({"n": n}) } else { json!({}) }, "{task}");
            ahead += now - stage;
        }
        ahead += found.len() - acknowledged.len();
        assert!(ahead <= 4 * (round + 1), "SIG{signal}: {ahead} stages that nobody asked for");
        assert_eq!(server.count("group_by=status")["count"], found.len());
    }
}

#[test]
fn no_acknowledged_write_is_lost_by_kill_9_under_load() {
    assert_nothing_acknowledged_is_lost("KILL");
}

#[test]
fn no_acknowledged_write_is_lost_by_sigterm_under_load() {
    assert_nothing_acknowledged_is_lost("TERM");
}

/// How many tasks were created in the last hour, according to the activity.
fn counted_as_created(server: &Server) -> u64 {
    server.get(&in_queue("/stats")).expect(200).json()["activity"]["last_hour"]["created"].as_u64().unwrap()
}

#[test]
fn no_activity_is_lost_by_a_stop() {
    let mut server = Server::alone();
    for n in 1..=3 {
        server.create(n, json!({}));
        server.restart();
        assert_eq!(counted_as_created(&server), n as u64);
    }
}

#[test]
fn activity_that_is_older_than_five_seconds_survives_a_kill() {
    let mut server = Server::alone();
    server.create(1, json!({}));
    // The server saves every five seconds.
    let age = || server.get(&in_queue("/stats")).expect(200).json()["routes"][0]["oldest_pending_seconds"].as_f64();
    eventually("the task is six seconds old", || age() >= Some(6.0));
    server.restart_by("KILL");
    assert_eq!(counted_as_created(&server), 1);
}

/// The server itself deletes them, without a request.
#[test]
fn ended_tasks_go_when_their_time_is_over_also_after_a_kill() {
    let mut server = Server::alone();
    server.create_in_states(0);
    let retention = json!({"succeeded_seconds": 0, "failed_seconds": 1});
    server.patch(&in_queue("/settings"), json!({"retention": retention})).expect(200);
    server.restart_by("KILL");
    let left = || server.ids(&format!("{BY_ID}&include_archived=true"));
    eventually("two are deleted", || left().len() == 3);
    assert_eq!(left(), [0, 1, 4]);
    server.act(1, "complete", 1_001).expect(204);
    eventually("what ends later goes too", || left() == [0, 4]);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
}

#[test]
fn output_that_was_acknowledged_before_a_kill_is_there_and_nothing_that_was_not_sent() {
    let mut server = Server::alone();
    for n in 0..4 {
        server.create_running(n);
        server.send(&output_request(n, n, 0, "abc")).expect(204);
    }
    let mut sent = [3; 4];
    for round in 0..3 {
        let line = |offset: usize| format!("{round} {offset}\n");
        let acknowledged = thread::scope(|scope| {
            let lanes: Vec<_> = (0..4)
                .map(|n| {
                    let (server, mut offset) = (&server, sent[n]);
                    scope.spawn(of_this_test(move || {
                        loop {
                            let text = line(offset);
                            match server.try_send(&output_request(n, n, offset, &text)) {
                                Ok(response) => drop(response.expect(204)),
                                Err(_) => return offset,
                            }
                            offset += text.len();
                        }
                    }))
                })
                .collect();
            let progressing = || server.get(&of_task(3, &format!("/output?offset={}", sent[3] + 500))).json();
            eventually("something is kept", || progressing()["text"] != "");
            server.signal("KILL");
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect::<Vec<usize>>()
        });
        server.wait();
        server.start_again();
        for (n, acknowledged) in acknowledged.into_iter().enumerate() {
            let output = server.get(&of_task(n, &format!("/output?offset={}", sent[n]))).expect(200).json();
            let mut expected = String::new();
            while sent[n] + expected.len() < acknowledged {
                expected += &line(sent[n] + expected.len());
            }
            let text = output["text"].as_str().unwrap();
            let unanswered = line(acknowledged);
            assert!(text == expected || text == expected + &unanswered, "{n}: {text:?}");
            sent[n] += text.len();
        }
    }
}
