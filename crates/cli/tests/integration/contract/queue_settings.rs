//! The settings of a queue (extension `queue-settings`): the resource and its merge patches. What becomes of ended tasks is in
//! `retention.rs`, limits of several servers in `scale_out`; what a pause and a limit do is proven by the conformance suite.

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
fn settings_are_those_of_one_queue_and_go_with_it() {
    let server = Server::with_queue();
    server.create_queue("other");
    change(&server, json!({"paused": true, "max_running": 3}));
    assert_eq!(server.get("/api/v2/queues/other/settings").text(), DEFAULT);
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
        (json!({"paused": "true"}), json!(["body", "paused"])),
        (json!({"max_running": 1e30}), json!(["body", "max_running"])),
        (json!({"route_limits": {"no route": 1}}), json!(["body", "route_limits", "no route"])),
        (json!({"retention": {"failed_seconds": [null]}}), json!(["body", "retention", "failed_seconds"])),
        (json!({"paused": true, "resumed": true}), json!(["body", "resumed"])),
    ] {
        server.patch(&path, &patch).assert_location("invalid_request", &location);
    }
    for body in ["1", "\"paused\"", "{\"paused\":tru}", ""] {
        let refused = server.patch(&path, body);
        assert!((400..500).contains(&refused.status), "{body}: {refused:?}");
    }
    assert_eq!(settings(&server).text(), DEFAULT);
    let routes: serde_json::Map<_, _> = (0..256).map(|n| (format!("r{n}"), json!(1))).collect();
    change(&server, json!({"route_limits": routes}));
    server.patch(&path, json!({"route_limits": {"r256": 1}})).assert_error(422, "invalid_request");
    change(&server, json!({"route_limits": {"r0": null, "r256": 1}}));
    server.put(&path, json!({})).assert_error(405, "method_not_allowed");
    server.delete(&path).assert_error(405, "method_not_allowed");
    server.get("/api/v2/queues/.bad/settings").assert_error(422, "invalid_request");
}
