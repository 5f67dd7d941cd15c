//! The document at `/openapi.json`: locked by a snapshot, and complete.

use std::collections::BTreeSet;

use taskqueue_api::paths;

use crate::support::*;

async fn document() -> Value {
    let answered = call(&guarded_server(), "GET", "/openapi.json", "").await;
    assert_eq!((answered.status, answered.header("content-type")), (200, Some("application/json")));
    answered.json()
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

#[tokio::test]
async fn the_document_is_the_one_that_was_reviewed() {
    insta::assert_json_snapshot!("openapi", document().await);
}

#[tokio::test]
async fn the_document_has_every_path_and_no_other() {
    let document = document().await;
    let described: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(described, paths::ALL.into_iter().collect());
    assert_eq!(operations(&document).len(), 41);
}

#[tokio::test]
async fn every_operation_declares_its_errors_and_its_security() {
    for (method, path, operation) in operations(&document().await) {
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.contains_key("413"), "{method} {path}");
        let is_api = path.starts_with("/api/");
        let needs_token = is_api || path == paths::METRICS;
        assert_eq!(operation["security"].is_array(), needs_token, "{method} {path}");
        assert_eq!(responses.contains_key("401"), needs_token, "{method} {path}");
        for (status, response) in responses {
            let versioned = response["headers"][VERSION].is_object();
            let expected = is_api && !["401", "414", "431"].contains(&status.as_str());
            assert_eq!(versioned, expected, "{method} {path} {status}");
        }
        if path.contains("{queue}") {
            assert!(responses.contains_key("422") && responses.contains_key("503"), "{method} {path}");
        }
    }
}
