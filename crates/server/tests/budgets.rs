//! What answers that nobody reads may hold in memory. How a connection lets go of them is tested beside the accept loop.

#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

mod support;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use hyper::{Request, StatusCode};
use support::*;
use taskqueue_core::time::Timestamp;
use taskqueue_server::budget::Budgets;
use taskqueue_server::edge::{Edge, service};
use taskqueue_server::state::AppState;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::model::ModelStore;

const MIB: usize = 1_048_576;

/// A server with a page of 15 MiB in the queue `q`.
async fn server_with_a_large_page(pages_bytes: usize) -> Edge {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    let store = Arc::new(ModelStore::new(Arc::new(clock)));
    let edge = service(AppState::with_limits(store, None, Budgets::new(pages_bytes, MIB), 1));
    expect(&edge, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    let body = format!("{{\"args\":{{\"a\":\"{}\"}}}}", "x".repeat(MIB - 4096));
    for n in 0..15 {
        expect(&edge, StatusCode::CREATED, "PUT", &format!("/api/v2/queues/q/tasks/t_{n:012}"), &body).await;
    }
    edge
}

/// The answer to a list, unread.
async fn list(edge: &Edge, limit: u16) -> Response {
    let request = Request::builder().uri(format!("/api/v2/queues/q/tasks?limit={limit}")).header("host", "localhost");
    edge.call(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn pages_that_nobody_reads_stay_within_the_budget() {
    let edge = server_with_a_large_page(48 * MIB).await;
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(list(&edge, 1000).await);
    }
    // The third found room because the others had given back what they did not need.
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::OK));

    let refused = call(&edge, "GET", "/api/v2/queues/q/tasks?limit=1000", "").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "database_busy"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(list(&edge, 1).await.status(), StatusCode::OK, "a short page still has room");

    drop(unread.pop());
    assert_eq!(list(&edge, 1000).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_read_or_small_hold_nothing() {
    let edge = server_with_a_large_page(17 * MIB).await;
    for _ in 0..5 {
        expect(&edge, StatusCode::OK, "GET", "/api/v2/queues/q/tasks?limit=1000", "").await;
    }
    expect(&edge, StatusCode::CREATED, "PUT", "/api/v2/queues/small", "").await;
    let request = || {
        let request = Request::builder().uri("/api/v2/queues/small/tasks?limit=1000").header("host", "localhost");
        request.body(Body::empty()).unwrap()
    };
    let mut unread = Vec::new();
    for _ in 0..100 {
        unread.push(edge.call(request()).await);
        assert_eq!(unread.last().unwrap().status(), StatusCode::OK);
    }
}
