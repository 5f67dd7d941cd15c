//! `/health`, `/openapi.json` and the capabilities (docs/reference/http-api.md §11).

use serde_json::{Value, json};

use super::support::*;

/// Every operation of the contract, with `{}` for each path parameter.
const OPERATIONS: [(&str, &str); 36] = [
    ("get", "/health"),
    ("get", "/api/v2/capabilities"),
    ("put", "/api/v2/queues/{}"),
    ("get", "/api/v2/queues"),
    ("delete", "/api/v2/queues/{}"),
    ("put", "/api/v2/queues/{}/tasks/{}"),
    ("get", "/api/v2/queues/{}/tasks/{}"),
    ("get", "/api/v2/queues/{}/tasks"),
    ("get", "/api/v2/queues/{}/tasks/count"),
    ("patch", "/api/v2/queues/{}/tasks/{}"),
    ("patch", "/api/v2/queues/{}/tasks"),
    ("post", "/api/v2/queues/{}/tasks/{}/cancel"),
    ("post", "/api/v2/queues/{}/tasks/{}/requeue"),
    ("delete", "/api/v2/queues/{}/tasks/{}"),
    ("post", "/api/v2/queues/{}/tasks/bulk/cancel"),
    ("post", "/api/v2/queues/{}/tasks/bulk/requeue"),
    ("post", "/api/v2/queues/{}/tasks/bulk/delete"),
    ("get", "/api/v2/queues/{}/workers"),
    ("get", "/api/v2/queues/{}/workers/count"),
    ("put", "/api/v2/queues/{}/workers/{}"),
    ("delete", "/api/v2/queues/{}/workers/{}"),
    ("post", "/api/v2/queues/{}/tasks/claim"),
    ("post", "/api/v2/queues/{}/tasks/{}/heartbeat"),
    ("post", "/api/v2/queues/{}/tasks/{}/complete"),
    ("post", "/api/v2/queues/{}/tasks/{}/fail"),
    ("post", "/api/v2/queues/{}/tasks/{}/unclaim"),
    ("post", "/api/v2/queues/{}/tasks/{}/progress"),
    ("post", "/api/v2/queues/{}/tasks/{}/output"),
    ("get", "/api/v2/queues/{}/tasks/{}/output"),
    ("post", "/api/v2/queues/{}/workers/{}/telemetry"),
    ("get", "/api/v2/queues/{}/tasks/{}/explain"),
    ("get", "/api/v2/queues/{}/settings"),
    ("patch", "/api/v2/queues/{}/settings"),
    ("post", "/api/v2/queues/{}/tasks/batch/create"),
    ("post", "/api/v2/queues/{}/tasks/batch/claim"),
    ("post", "/api/v2/queues/{}/tasks/batch/report"),
];

/// A path of the schema without the names of its parameters.
fn anonymous(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn schema() -> Value {
    Server::start().get("/openapi.json").expect(200).json()
}

#[test]
fn health_reports_that_the_database_works() {
    let server = Server::start();
    let health = server.get("/health").expect(200).json();
    for (member, value) in [("status", json!("ok")), ("database", json!("ok"))] {
        assert_eq!(health[member], value, "{health}");
    }
    assert!(health["api_version"] == json!("2") || health["api_version"] == json!(2), "{health}");
}

#[test]
fn the_capabilities_are_sorted_names() {
    let server = Server::start();
    let capabilities = server.get("/api/v2/capabilities").expect(200).json();
    let features: Vec<&str> =
        capabilities["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(capabilities, json!({"features": features}));
    let expected = [
        "archive",
        "batch",
        "bulk-actions",
        "delay",
        "dependencies",
        "explain",
        "merge-updates",
        "output",
        "progress",
        "queue-settings",
        "run-info",
        "stats",
        "telemetry",
        "timeout",
        "wait",
    ];
    assert_eq!(features, expected);
    assert_eq!(server.get("/api/v2/capabilities?x=1").expect(200).json(), capabilities);
    assert!(server.send(&Request::new("HEAD", "/api/v2/capabilities")).expect(200).body.is_empty());
    for method in ["PUT", "POST", "PATCH", "DELETE", "OPTIONS"] {
        let response = server.call(method, "/api/v2/capabilities", json!({}));
        response.assert_details(405, "method_not_allowed", &json!({"allow": ["GET", "HEAD"]}));
    }
    for path in ["/api/v2/capabilities/", "/capabilities", "/api/v2/capabilities/x"] {
        server.get(path).assert_error(404, "not_found");
    }
}

#[test]
fn the_capabilities_need_the_token_and_are_not_for_web_pages() {
    let server = Server::with_token("s3cret");
    server.get("/api/v2/capabilities").expect(200);
    server.connect().exchange(&Request::new("GET", "/api/v2/capabilities")).unwrap().assert_error(401, "unauthorized");
    let wrong = Request::new("GET", "/api/v2/capabilities").header("Authorization", "Bearer wrong");
    server.send(&wrong).assert_error(401, "unauthorized");
    let open = Server::start();
    let page = Request::new("GET", "/api/v2/capabilities").header("Origin", "https://evil.example");
    open.send(&page).assert_error(403, "forbidden");
}

#[test]
fn the_schema_describes_every_operation() {
    let schema = schema();
    assert!(schema["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{}", schema["openapi"]);
    assert_eq!(schema["info"]["version"].as_str().map(str::is_empty), Some(false));
    let paths = schema["paths"].as_object().unwrap();
    for (method, path) in OPERATIONS {
        let found = paths.iter().any(|(known, item)| anonymous(known) == path && item[method].is_object());
        assert!(found, "{method} {path} is not described");
    }
}

#[test]
fn the_schema_describes_nothing_that_does_not_exist() {
    let server = Server::start();
    let schema = server.get("/openapi.json").expect(200).json();
    for (path, item) in schema["paths"].as_object().unwrap() {
        let concrete = anonymous(path).replace("{}", "x");
        for method in ["get", "put", "post", "patch", "delete"].iter().filter(|&method| item[*method].is_object()) {
            let response = server.call(&method.to_uppercase(), &concrete, ());
            let known =
                response.status < 400 || !matches!(response.code().as_str(), "not_found" | "method_not_allowed");
            assert!(known, "{response:?}");
        }
    }
}

#[test]
fn every_reference_of_the_schema_resolves() {
    fn check(value: &Value, root: &Value) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            assert!(target.is_some(), "{reference} leads nowhere");
        }
        match value {
            Value::Object(members) => members.values().for_each(|member| check(member, root)),
            Value::Array(elements) => elements.iter().for_each(|element| check(element, root)),
            _ => {}
        }
    }
    let schema = schema();
    check(&schema, &schema);
}

#[test]
fn every_operation_has_its_own_name() {
    let schema = schema();
    let items = schema["paths"].as_object().unwrap().values();
    let operations = items
        .flat_map(|item| item.as_object().unwrap().values())
        .filter(|operation| operation["responses"].is_object());
    let mut names: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
}
