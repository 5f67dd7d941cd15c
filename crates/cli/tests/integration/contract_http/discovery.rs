//! `/health`, `/openapi.json` and the capabilities (docs/reference/http-api.md §11).

use std::collections::HashSet;

use serde_json::{Value, json};

use super::support::*;

fn schema() -> Value {
    Server::start().get("/openapi.json").expect(200).json()
}

#[test]
fn the_capabilities_are_sorted_names() {
    let server = Server::start();
    let capabilities = server.get("/api/v2/capabilities").expect(200).json();
    let features: Vec<&str> =
        capabilities["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(capabilities, json!({"features": features}));
    let expected = "archive batch bulk-actions delay dependencies explain merge-updates output progress queue-settings \
                    run-info stats telemetry timeout wait";
    assert_eq!(features.join(" "), expected);
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
    let operations = items.flat_map(|item| item.as_object().unwrap().values());
    let mut names = HashSet::new();
    for operation in operations.filter(|operation| operation["responses"].is_object()) {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "{name}");
    }
}
