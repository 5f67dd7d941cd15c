//! The line that every request leaves in the log, and what it never holds.

#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use hyper::Request;
use support::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_request_leaves_one_line_without_query_token_or_body() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let service = guarded_server();
    let requests = [
        ("PUT", "/api/v2/queues/hidden-queue", "Bearer s3cret"),
        ("GET", "/api/v2/queues/hidden-queue/tasks?filter=hidden", "Bearer s3cret"),
        ("GET", "/api/v2/queues", "Bearer hidden"),
        ("GET", "/hidden/path", "Bearer s3cret"),
    ];
    for (method, path, authorization) in requests {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", authorization);
        send(&service, request.body(Body::from("hidden body")).unwrap()).await;
    }
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let logged: Vec<&str> = text.lines().collect();
    let expected = [
        "method=PUT path=\"/api/v2/queues/{queue}\" status=201",
        "method=GET path=\"/api/v2/queues/{queue}/tasks\" status=422",
        "method=GET path=\"/api/v2/queues\" status=401",
        "method=GET path=\"unmatched\" status=404",
    ];
    assert_eq!(logged.len(), expected.len(), "{text}");
    for (line, expected) in logged.iter().zip(expected) {
        assert!(line.contains(expected) && line.contains("micros=") && line.contains("request_id="), "{line}");
    }
    assert!(!text.contains("hidden") && !text.contains("s3cret"), "{text}");
}
