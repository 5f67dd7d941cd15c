//! `/metrics` of the real binary with a real database (docs/reference/metrics.md). Its format and its addresses are tested in `server`
//! and in `contract_http`.

use serde_json::json;
use taskqueue_test_postgres::eventually;

use super::support::*;

/// The value of a series in a scrape.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_tell_what_happened_and_how_the_queues_are() {
    let server = Server::alone();
    server.create(1, json!({}));
    server.create(2, json!({}));
    server.claim(1);
    // What was computed before may be given for a second.
    eventually("two tasks are counted", || {
        let text = server.get("/metrics").expect(200).text();
        let expected = [
            (r#"taskqueue_tasks{queue="q",status="pending"}"#, 1.0),
            (r#"taskqueue_tasks{queue="q",status="running"}"#, 1.0),
            (r#"taskqueue_task_events_total{queue="q",event="created"}"#, 2.0),
            (r#"taskqueue_task_wait_seconds_count{queue="q"}"#, 1.0),
            ("taskqueue_figures_up", 1.0),
            ("taskqueue_ready", 1.0),
        ];
        let known = ["taskqueue_database_bytes", "taskqueue_writer_commit_seconds_count", "process_open_fds"];
        expected.iter().all(|(series, expected)| value(&text, series) == Some(*expected))
            && known.iter().all(|series| value(&text, series).is_some_and(|value| value > 0.0))
    });
}
