//! The settings of a queue (extension `queue-settings`): the resource and its merge patches. What a pause, a limit and a retention do is
//! proven by the conformance suite, limits of several servers in `scale_out`, every patch and every wrong setting in `api`.

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
    let changed = change(&server, json!({"max_running": i64::MAX, "route_limits": {"gpu": 8, "cpu": 0}}));
    assert_eq!((&changed["max_running"], &changed["route_limits"]), (&json!(i64::MAX), &json!({"cpu": 0, "gpu": 8})));
    change(&server, json!({"max_running": null, "route_limits": {"cpu": null, "gpu": null, "none": null}}));
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
fn wrong_settings_are_refused_and_change_nothing() {
    let server = Server::with_queue();
    let path = in_queue("/settings");
    let limit = json!({"paused": true, "route_limits": {"no route": 1}});
    server.patch(&path, limit).assert_location("invalid_request", &json!(["body", "route_limits", "no route"]));
    for body in ["1", "{\"paused\":tru}", ""] {
        server.patch(&path, body).assert_error(422, "invalid_request");
    }
    assert_eq!(settings(&server).text(), DEFAULT);
    server.put(&path, json!({})).assert_error(405, "method_not_allowed");
    server.delete(&path).assert_error(405, "method_not_allowed");
}
