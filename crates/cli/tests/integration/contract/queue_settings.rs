//! The settings of a queue (extension `queue-settings`): the resource, its merge patches, and pausing. Limits are in
//! `running_limits.rs`, what becomes of ended tasks in `retention.rs`.

use serde_json::{Value, json};

use super::support::*;

const DEFAULT: &str = r#"{"paused":false,"max_running":null,"route_limits":{},"retention":{"succeeded_seconds":null,"failed_seconds":null,"cancelled_seconds":null}}"#;

fn settings(server: &Server) -> Response {
    server.get(&in_queue("/settings")).expect(200)
}

/// Changes the settings; they are answered as they are read afterwards.
#[track_caller]
fn change(server: &Server, patch: Value) -> Value {
    let answer = server.patch(&in_queue("/settings"), patch).expect(200);
    assert_eq!(answer.text(), settings(server).text());
    answer.json()
}

#[test]
fn a_queue_has_the_default_settings_until_they_are_changed() {
    let server = Server::with_queue();
    assert_eq!(settings(&server).text(), DEFAULT);
    assert_eq!(change(&server, json!({})).to_string(), settings(&server).json().to_string());
    assert_eq!(settings(&server).text(), DEFAULT);
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]), "queues look as before");
}

#[test]
fn a_server_with_a_default_retention_gives_it_to_queues_that_it_creates() {
    let mut server = Server::with_arguments(&["--queue", "old"]);
    server.terminate();
    let arguments = ["--queue", "old", "--queue", "q", "--default-retention", "30d"];
    let server = Server::launch_on(std::sync::Arc::clone(&server.database), None, &arguments);
    server.put("/api/v2/queues/new", ()).expect(201);
    let retention = |queue: &str| {
        let answer = server.get(&format!("/api/v2/queues/{queue}/settings")).expect(200).json();
        answer["retention"].clone()
    };
    let month = json!({"succeeded_seconds": 2_592_000, "failed_seconds": 2_592_000, "cancelled_seconds": 2_592_000});
    assert_eq!([retention("q"), retention("new")], [month.clone(), month]);
    assert_eq!(retention("old")["succeeded_seconds"], Value::Null, "it was there");
    change(&server, json!({"retention": null}));
    assert_eq!(settings(&server).text(), DEFAULT);
}

#[test]
fn a_patch_changes_what_it_names_and_null_sets_the_default() {
    let server = Server::with_queue();
    change(&server, json!({"paused": true}));
    change(&server, json!({"max_running": 4, "route_limits": {"gpu": 8, "cpu": 0}}));
    change(&server, json!({"retention": {"succeeded_seconds": 86_400}}));
    let all = change(&server, json!({"retention": {"failed_seconds": 0}}));
    let expected = json!({
        "paused": true, "max_running": 4, "route_limits": {"cpu": 0, "gpu": 8},
        "retention": {"succeeded_seconds": 86_400, "failed_seconds": 0, "cancelled_seconds": null},
    });
    assert_eq!(all, expected);
    assert_eq!(change(&server, json!({})), expected);
    assert_eq!(change(&server, json!({"route_limits": {}, "retention": {}})), expected);
    assert_eq!(
        change(&server, json!({"route_limits": {"cpu": null, "none": null}}))["route_limits"],
        json!({"gpu": 8})
    );
    assert_eq!(
        change(&server, json!({"route_limits": {"gpu": 2, "tpu": 1}}))["route_limits"],
        json!({"gpu": 2, "tpu": 1})
    );
    assert_eq!(change(&server, json!({"paused": null}))["paused"], false);
    assert_eq!(change(&server, json!({"max_running": null}))["max_running"], Value::Null);
    let kept = change(&server, json!({"retention": {"succeeded_seconds": null}}))["retention"].clone();
    assert_eq!(kept, json!({"succeeded_seconds": null, "failed_seconds": 0, "cancelled_seconds": null}));
    change(&server, json!({"route_limits": null, "retention": null}));
    assert_eq!(settings(&server).text(), DEFAULT);
    let largest = change(&server, json!({"max_running": i64::MAX, "retention": {"cancelled_seconds": i64::MAX}}));
    assert_eq!(largest["max_running"], i64::MAX);
    assert_eq!(largest["retention"]["cancelled_seconds"], i64::MAX);
}

#[test]
fn settings_are_those_of_one_queue_survive_a_kill_and_go_with_it() {
    let mut server = Server::alone();
    server.create_queue("other");
    change(&server, json!({"paused": true, "max_running": 3}));
    assert_eq!(server.get("/api/v2/queues/other/settings").text(), DEFAULT);
    let before = settings(&server).text();
    server.kill();
    server.start_again();
    assert_eq!(settings(&server).text(), before);
    server.delete("/api/v2/queues/q").expect(204);
    server.get(&in_queue("/settings")).assert_error(404, "queue_not_found");
    server.patch(&in_queue("/settings"), json!({"paused": true})).assert_error(404, "queue_not_found");
    server.create_queue("q");
    assert_eq!(settings(&server).text(), DEFAULT);
}

#[test]
fn wrong_settings_are_refused_and_change_nothing() {
    let server = Server::with_queue();
    let path = in_queue("/settings");
    for (patch, location) in [
        (json!({"paused": 1}), json!(["body", "paused"])),
        (json!({"paused": "true"}), json!(["body", "paused"])),
        (json!({"max_running": -1}), json!(["body", "max_running"])),
        (json!({"max_running": 1.5}), json!(["body", "max_running"])),
        (json!({"max_running": "4"}), json!(["body", "max_running"])),
        (json!({"max_running": 1e30}), json!(["body", "max_running"])),
        (json!({"max_running": true}), json!(["body", "max_running"])),
        (json!({"max_running": 9_223_372_036_854_775_808_u64}), json!(["body", "max_running"])),
        (json!({"route_limits": []}), json!(["body", "route_limits"])),
        (json!({"route_limits": {"no route": 1}}), json!(["body", "route_limits", "no route"])),
        (json!({"route_limits": {"gpu": -1}}), json!(["body", "route_limits", "gpu"])),
        (json!({"route_limits": {"gpu": {}}}), json!(["body", "route_limits", "gpu"])),
        (json!({"retention": 60}), json!(["body", "retention"])),
        (json!({"retention": {"pending_seconds": 60}}), json!(["body", "retention", "pending_seconds"])),
        (json!({"retention": {"failed_seconds": -60}}), json!(["body", "retention", "failed_seconds"])),
        (json!({"retention": {"failed_seconds": [null]}}), json!(["body", "retention", "failed_seconds"])),
        (json!({"paused": true, "resumed": true}), json!(["body", "resumed"])),
    ] {
        server.patch(&path, &patch).assert_location("invalid_request", &location);
    }
    for body in ["[]", "null", "1", "\"paused\"", "{\"paused\":tru}", ""] {
        let refused = server.patch(&path, body);
        assert!((400..500).contains(&refused.status), "{body}: {refused:?}");
    }
    let routes =
        |from: usize, to: usize| (from..to).map(|n| (format!("r{n}"), json!(1))).collect::<serde_json::Map<_, _>>();
    server.patch(&path, json!({"route_limits": routes(0, 257)})).assert_error(422, "invalid_request");
    assert_eq!(settings(&server).text(), DEFAULT);
    change(&server, json!({"route_limits": routes(0, 256)}));
    server.patch(&path, json!({"route_limits": routes(256, 257)})).assert_error(422, "invalid_request");
    change(&server, json!({"route_limits": {"r0": null, "r256": 1}}));
    server.put(&path, json!({})).assert_error(405, "method_not_allowed");
    server.delete(&path).assert_error(405, "method_not_allowed");
    server.get("/api/v2/queues/.bad/settings").assert_error(422, "invalid_request");
}

#[test]
fn a_paused_queue_gives_no_task_and_its_runs_go_on() {
    let server = Server::with_queue();
    for n in 1..5 {
        server.create(n, json!({}));
    }
    let claim = server.claim(1);
    change(&server, json!({"paused": true}));
    server.claim_for("q", "default", 2).expect(204);
    assert_eq!(
        server.batch("claim", json!({"route": "default", "run_ids": [run_id(1), run_id(3)]}))[1]["outcome"],
        "none"
    );
    assert_eq!(server.claim(1), claim, "the repetition of an active claim is answered");
    server.act(1, "heartbeat", 1).expect(200);
    server.act(1, "complete", 1).expect(204);
    server.create(5, json!({}));
    server.create_queue("other");
    server.create_in("other", 6, json!({}));
    server.claim_for("other", "default", 6).expect(200);
    server.claim_for("q", "default", 2).expect(204);
    change(&server, json!({"paused": false}));
    assert_eq!(server.claimed(2), 2);
}

#[test]
fn a_pause_survives_a_restart_and_the_end_of_it_wakes_waiting_claims() {
    let mut server = Server::with_arguments(&["--log-level", "debug"]);
    server.create_queue("q");
    server.create(1, json!({}));
    change(&server, json!({"paused": true}));
    server.restart();
    server.claim_for("q", "default", 1).expect(204);
    let body = json!({"route": "default", "run_id": run_id(2)});
    let request = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body);
    let mut waiter = server.connect();
    waiter.write(&request.to_bytes()).unwrap();
    server.await_log_lines(WAITS, 1);
    let begun = std::time::Instant::now();
    change(&server, json!({"paused": false}));
    assert_eq!(waiter.read_response(true).unwrap().expect(200).json()["task"]["id"], json!(task_id(1)));
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn the_server_names_what_it_can_do() {
    let server = Server::start();
    let features = server.get("/api/v2/capabilities").expect(200).json()["features"].clone();
    let features: Vec<&str> = features.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(features.is_sorted(), "{features:?}");
    for name in ["archive", "delay", "dependencies", "explain", "queue-settings", "timeout"] {
        assert!(features.contains(&name), "{name} is missing in {features:?}");
    }
}
