//! Which requests leave a line in the log, what it says, and what it never holds.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::advance;

use crate::support::lines::Lines;
use crate::support::*;

#[tokio::test]
async fn a_request_leaves_one_line_without_query_token_or_body() {
    let (lines, _guard) = Lines::collect();
    let service = guarded_server().log_requests(true);
    let requests = [
        ("PUT", "/api/v2/queues/shown", "Bearer s3cret"),
        ("GET", "/api/v2/queues/shown/tasks?filter=hidden", "Bearer s3cret"),
        ("GET", "/api/v2/queues", "Bearer hidden"),
        ("GET", "/hidden/path", "Bearer s3cret"),
        // The last part stands where that of a queue would.
        ("GET", "/a/b/c/hidden-token", "Bearer s3cret"),
        ("GET", "/api/v2/queues/hidden%20name/tasks", "Bearer s3cret"),
    ];
    for (method, path, authorization) in requests {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", authorization);
        send(&service, request.body(Body::from("hidden body")).unwrap()).await;
    }
    let text = lines.text();
    let logged: Vec<&str> = text.lines().collect();
    let expected = [
        "method=\"PUT\" path=\"/api/v2/queues/{queue}\" queue=\"shown\" status=201 micros=",
        "path=\"/api/v2/queues/{queue}/tasks\" queue=\"shown\" status=422 code=\"invalid_filter\" micros=",
        "method=\"GET\" path=\"/api/v2/queues\" status=401 code=\"unauthorized\" micros=",
        "method=\"GET\" path=\"unmatched\" status=404 code=\"not_found\" micros=",
        "method=\"GET\" path=\"unmatched\" status=404 code=\"not_found\" micros=",
        "method=\"GET\" path=\"/api/v2/queues/{queue}/tasks\" status=422 code=\"invalid_request\" micros=",
    ];
    assert_eq!(logged.len(), expected.len(), "{text}");
    for (line, expected) in logged.iter().zip(expected) {
        assert!(line.contains(expected) && line.contains(" client=unknown request_id="), "{line}");
    }
    assert!(!text.contains("hidden") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn every_failure_of_the_server_is_logged_with_the_id_of_its_answer() {
    let (lines, _guard) = Lines::collect();
    let cases = [(Some(StoreError::Busy), "WARN"), (Some(StoreError::Unavailable), "WARN"), (None, "ERROR")];
    for (failure, expected) in cases {
        let http = service(state_over(Arc::new(FailingStore::new(failure)), Gate::default()));
        let request =
            Request::builder().uri("/api/v2/queues").header("host", "localhost").header("x-request-id", "mine");
        let answered = send(&http, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answered.header("x-request-id"), Some("mine"));
        let text = lines.text();
        let line = text.lines().last().unwrap();
        assert!(line.contains(expected) && line.contains(": answered "), "{line}");
        assert!(line.contains(&format!("status={}", answered.status)), "{line}");
        assert!(line.contains(&format!("code=\"{}\"", answered.code())) && line.contains("request_id=mine"), "{line}");
    }
}

/// A body that ends, empty, when a time has passed.
struct SlowBody(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl hyper::body::Body for SlowBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(passing) = &mut self.0 else { return Poll::Ready(None) };
        ready!(passing.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_logged_and_a_quick_one_is_not() {
    let (lines, _guard) = Lines::collect();
    let http = server();
    for (seconds, logged) in [(1, 0), (2, 1)] {
        let body = Body::new(SlowBody(Some(Box::pin(advance(Duration::from_secs(seconds))))));
        let request = Request::builder().method("PUT").uri("/api/v2/queues/q").header("host", "localhost");
        send(&http, request.body(body).unwrap()).await;
        assert_eq!(lines.text().matches("answered slowly").count(), logged, "{}", lines.text());
    }
}
