//! Runs that may be active for a limited time only (extension `timeout`).

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// Sends heartbeats until one is refused; gives the refusal.
fn beat_until_refused(server: &Server, n: usize, run: usize) -> Response {
    let begun = Instant::now();
    loop {
        let answer = server.act(n, "heartbeat", run);
        if answer.status != 200 {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(25), "the run goes on and on");
    }
}

#[test]
fn a_run_that_beats_but_takes_too_long_is_ended() {
    let server = Server::with_queue();
    server.create(1, json!({"timeout_seconds": 1, "max_attempts": 2}));
    server.create(2, json!({"routes": ["other"]}));
    server.claim_for("q", "other", 9).expect(200);
    let claim = server.claim(1);
    let begun = Instant::now();
    let refused = beat_until_refused(&server, 1, 1);
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    refused.assert_details(409, "run_finalized", &json!({"action": "timeout"}));
    for action in ["complete", "fail", "unclaim"] {
        server.act(1, action, 1).assert_details(409, "run_finalized", &json!({"action": "timeout"}));
    }
    let task = server.task(1);
    assert_eq!((&task["status"], &task["attempt"]), (&json!("pending"), &json!(1)));
    assert_eq!(task["last_error"]["type"], "ExecutionTimeout");
    assert_eq!(task["last_error"]["run_id"], run_id(1));
    assert!(micros(&task["finished_at"]) - micros(&claim["task"]["started_at"]) >= 1_000_000, "{task}");
    assert_eq!(server.task(2)["status"], "running", "others go on");
    server.claim(2);
    beat_until_refused(&server, 1, 2);
    assert_eq!(server.task(1)["status"], "failed", "no attempt is left");
}
