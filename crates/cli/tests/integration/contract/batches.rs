//! Batches (docs/reference/http-api.md §14.7) with the real server: kills and waits. What is answered is tested in `server`, what is
//! done by the conformance suite of the stores.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

const WAITS_FOR_SEVERAL: &str = "a batch of claims found nothing and waits";

fn path(verb: &str) -> String {
    in_queue(&format!("/tasks/batch/{verb}"))
}

fn creations(numbers: impl Iterator<Item = usize>) -> Value {
    json!({"tasks": numbers.map(|n| json!({"id": task_id(n), "args": {"n": n}})).collect::<Vec<_>>()})
}

fn claims(numbers: impl Iterator<Item = usize>) -> Value {
    json!({"route": "default", "run_ids": numbers.map(run_id).collect::<Vec<_>>()})
}

fn reports(claimed: &[Value], action: &str) -> Value {
    let report = |item: &Value| {
        let mut report = json!({"task_id": item["task"]["id"], "run_id": item["run_id"], "action": action});
        if action == "complete" {
            report["result"] = json!({"of": item["run_id"]});
        }
        report
    };
    json!({"reports": claimed.iter().map(report).collect::<Vec<_>>()})
}

#[track_caller]
fn assert_all(items: &[Value], outcome: &str, count: usize) {
    let others: Vec<&Value> = items.iter().filter(|item| item["outcome"] != outcome).collect();
    assert!(others.is_empty() && items.len() == count, "{} items, {others:?}", items.len());
}

#[test]
fn each_claim_of_a_batch_may_say_what_differs() {
    let server = Server::with_queue();
    server.batch("create", creations(0..2));
    let mut body = claims(0..2);
    body["worker"] = json!({"host": "gpu-3", "slot": null});
    body["workers"] = json!([{"slot": 1}, {"slot": 2, "host": "gpu-4"}]);
    let claimed = server.batch("claim", body);
    let said: Vec<Value> = claimed.iter().map(|item| item["task"]["last_run"]["worker"].clone()).collect();
    assert_eq!(said, [json!({"host": "gpu-3", "slot": 1}), json!({"host": "gpu-4", "slot": 2})]);
}

#[test]
fn every_item_of_an_answer_survives_a_kill() {
    let mut server = Server::alone();
    let address = server.address.clone();
    let (sender, acknowledged) = mpsc::channel();
    let clients: Vec<_> = (0..4)
        .map(|lane| {
            let (sender, address) = (sender.clone(), address.clone());
            thread::spawn(move || {
                let Ok(mut connection) = Connection::tcp(&address) else { return };
                for round in 0.. {
                    let numbers = (0..50).map(|n| lane * 1_000_000 + round * 50 + n);
                    let request = Request::new("POST", &path("create")).json(creations(numbers.clone()));
                    match connection.exchange(&request) {
                        Ok(response) if response.status == 200 => {
                            assert_all(response.json()["items"].as_array().unwrap(), "created", 50);
                            sender.send(numbers.collect::<Vec<usize>>()).unwrap();
                        }
                        _ => return,
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let mut batches: Vec<Vec<usize>> = acknowledged.iter().take(20).collect();
    server.kill();
    batches.extend(acknowledged.iter());
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.start_again();
    for numbers in batches {
        assert_all(&server.batch("create", creations(numbers.into_iter())), "existing", 50);
    }

    let claimed = server.batch("claim", claims(0..100));
    assert_all(&claimed, "claimed", 100);
    server.restart_by("KILL");
    assert_eq!(server.batch("claim", claims(0..100)), claimed);
    assert_all(&server.batch("report", reports(&claimed, "complete")), "done", 100);
    server.restart_by("KILL");
    assert_all(&server.batch("report", reports(&claimed, "complete")), "done", 100);
    assert_eq!(server.count("status=succeeded")["count"], 100);
}

/// Claims with one request, which may wait.
fn claim_all(numbers: std::ops::Range<usize>, seconds: u32) -> Request {
    Request::new("POST", &path("claim")).waiting(seconds).json(claims(numbers))
}

#[test]
fn a_batch_of_claims_waits_until_one_of_them_gets_a_task() {
    let server = Server::with_debug_log();
    let mut waiter = server.begin_until_logged(&claim_all(0..1000, 25), WAITS_FOR_SEVERAL);
    let begun = Instant::now();
    server.create(1, json!({}));
    let response = waiter.read_response(true).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!((response.status, response.header("Preference-Applied")), (200, Some("wait=25")));
    let items = response.json()["items"].as_array().unwrap().clone();
    assert_eq!((&items[0]["outcome"], &items[0]["task"]["id"]), (&json!("claimed"), &json!(task_id(1))));
    assert_all(&items[1..], "none", 999);
    // What is there is given at once, to as many as there is for.
    server.batch("create", creations(10..13));
    let items = server.send(&claim_all(2000..2005, 25)).expect(200).json()["items"].as_array().unwrap().clone();
    assert_all(&items[..3], "claimed", 3);
    assert_all(&items[3..], "none", 2);
}

#[test]
fn the_wait_of_a_batch_ends_in_time_with_nothing_and_errors_do_not_wait() {
    let server = Server::with_queue();
    let begun = Instant::now();
    let response = server.send(&claim_all(0..3, 1)).expect(200);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(response.header("Preference-Applied"), Some("wait=1"));
    assert_all(response.json()["items"].as_array().unwrap(), "none", 3);
    let body = json!({"route": "default", "run_ids": ["x", run_id(1)]});
    let mut refused = Request::new("POST", &path("claim")).waiting(60).json(body);
    let items = server.send(&refused).expect(200).json();
    assert_eq!((&items["items"][0]["outcome"], &items["items"][1]["outcome"]), (&json!("refused"), &json!("none")));
    refused.target = "/api/v2/queues/none/tasks/batch/claim".into();
    server.send(&refused).assert_error(404, "queue_not_found");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}

#[test]
fn a_waiting_batch_whose_client_disconnected_claims_nothing() {
    let server = Server::with_debug_log();
    drop(server.begin_until_logged(&claim_all(0..500, 25), WAITS_FOR_SEVERAL));
    server.await_log_lines("the client of a waiting batch of claims has disconnected", 1);
    server.batch("create", creations(0..20));
    // A claim that would still be under way is before these at the writer.
    server.create_each(100..120, |_| json!({"routes": ["nobody"]}));
    assert_eq!(server.count("status=running")["count"], 0);
}
