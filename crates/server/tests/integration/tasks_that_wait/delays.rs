//! `delay` and `timeout`.

use super::*;

#[tokio::test]
async fn a_delayed_task_is_claimed_when_its_time_has_come_and_not_before() {
    let api = Api::new().await;
    let body = r#"{"not_before":"1970-01-01T02:00:11+02:00"}"#;
    assert_eq!(api.create(1, body).await["not_before"], "1970-01-01T00:00:11.000000Z");
    assert_eq!(expect(&api.http, StatusCode::OK, "PUT", &task_path(1), body).await.status, 200, "a repetition");
    let other = call(&api.http, "PUT", &task_path(1), "{}").await;
    assert_eq!(other.code(), "task_id_conflict", "used fields are part of the identity");
    assert_eq!(api.claim(1).await, None);
    api.clock.advance_seconds(10);
    assert_eq!(api.claim(2).await.as_deref(), Some("t_000000000001"));
    assert_eq!(api.get(1).await.get("not_before"), None, "a claim clears it");
    let again = expect(&api.http, StatusCode::OK, "PUT", &task_path(1), body).await;
    assert_eq!(again.json()["status"], "running", "the creation is still recognised");
}

#[tokio::test]
async fn a_failure_delays_the_next_attempt_as_the_task_or_the_run_says() {
    let api = Api::new().await;
    api.create(1, r#"{"retry_delay":{"seconds":10},"max_attempts":5}"#).await;
    api.run_to(1, "fail", ERROR).await;
    assert_eq!(api.get(1).await["not_before"], "1970-01-01T00:00:11.000000Z");
    api.clock.advance_seconds(10);
    assert_eq!(api.claim(2).await.as_deref(), Some("t_000000000001"));
    let after = format!(r#"{ERROR},"retry_after_seconds":0.5"#);
    assert_eq!(api.act(1, "fail", &run_body(2, &after)).await.status, 204);
    assert_eq!(api.get(1).await["not_before"], "1970-01-01T00:00:11.500000Z", "instead of its own delay");
    api.clock.advance_seconds(1);
    assert_eq!(api.claim(3).await.as_deref(), Some("t_000000000001"));
    let at_once = format!(r#"{ERROR},"retry_after_seconds":0"#);
    assert_eq!(api.act(1, "fail", &run_body(3, &at_once)).await.status, 204);
    assert_eq!(api.get(1).await.get("not_before"), None);
    assert_eq!(api.claim(4).await.as_deref(), Some("t_000000000001"));
    assert_eq!(api.act(1, "unclaim", &run_body(4, r#","delay_seconds":60"#)).await.status, 204);
    assert_eq!(api.get(1).await["not_before"], "1970-01-01T00:01:12.000000Z");
    assert_eq!(api.act(1, "requeue", "").await.json().get("not_before"), None, "a requeue clears it");
    assert_eq!(api.claim(5).await.as_deref(), Some("t_000000000001"));
}

#[tokio::test]
async fn a_batch_of_reports_delays_like_single_ones() {
    let api = Api::new().await;
    for n in 1..=2 {
        api.create(n, "{}").await;
        api.claim(n).await.unwrap();
    }
    let reports = [
        format!(r#"{{"task_id":"t_{:012}","action":"fail","run_id":"r_{:012}"{ERROR},"retry_after_seconds":9}}"#, 1, 1),
        format!(r#"{{"task_id":"t_{:012}","action":"unclaim","run_id":"r_{:012}","delay_seconds":9.0}}"#, 2, 2),
        format!(r#"{{"task_id":"t_{:012}","action":"unclaim","run_id":"r_{:012}","delay_seconds":"9"}}"#, 2, 2),
    ];
    let body = format!(r#"{{"reports":[{}]}}"#, reports.join(","));
    let answer = api.call("POST", "/tasks/batch/report", &body).await.json();
    let outcomes: Vec<&str> =
        answer["items"].as_array().unwrap().iter().map(|item| item["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["done", "done", "refused"]);
    for n in 1..=2 {
        assert_eq!(api.get(n).await["not_before"], "1970-01-01T00:00:10.000000Z");
    }
}

#[tokio::test]
async fn an_update_sets_and_clears_what_delays_a_task() {
    let api = Api::new().await;
    api.create(1, "{}").await;
    let set = r#"{"not_before":"2026-01-31T12:00:00Z","retry_delay":{"seconds":1},"timeout_seconds":5}"#;
    let updated = api.update(1, set).await;
    assert_eq!(updated["not_before"], "2026-01-31T12:00:00.000000Z");
    assert_eq!(updated["retry_delay"], json!({"seconds": 1, "factor": 2, "max_seconds": 86_400}));
    assert_eq!(updated["timeout_seconds"], 5);
    assert_eq!(api.claim(1).await, None);
    let cleared = api.update(1, r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null}"#).await;
    assert_eq!(cleared.as_object().unwrap().len(), 17);
    assert_eq!(api.claim(2).await.as_deref(), Some("t_000000000001"));
    assert_eq!(api.call("PATCH", "/tasks/t_000000000001", r#"{"timeout_seconds":0}"#).await.code(), "invalid_update");
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_over_at_its_next_call() {
    let api = Api::new().await;
    api.create(1, r#"{"timeout_seconds":60,"max_attempts":2}"#).await;
    api.claim(1).await.unwrap();
    api.clock.advance_seconds(59);
    assert_eq!(api.act(1, "heartbeat", &run_body(1, "")).await.status, 200);
    api.clock.advance_seconds(1);
    let over = api.act(1, "complete", &run_body(1, r#","result":{}"#)).await;
    assert_eq!((over.code(), &over.details()["action"]), ("run_finalized".into(), &json!("timeout")));
    let task = api.get(1).await;
    assert_eq!((&task["status"], &task["last_error"]["type"]), (&json!("pending"), &json!("ExecutionTimeout")));
    assert_eq!(task["last_error"]["run_id"], "r_000000000001");
}

#[tokio::test]
async fn a_batch_creates_delayed_tasks_and_refuses_the_bad_ones_alone() {
    let api = Api::new().await;
    let body = concat!(
        r#"{"tasks":[{"id":"t_000000000001","not_before":"1970-01-01T00:00:11Z","dependencies":[]},"#,
        r#"{"id":"t_000000000002","timeout_seconds":0},{"id":"t_000000000003","dependencies":null}]}"#
    );
    let answer = api.call("POST", "/tasks/batch/create", body).await.json();
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items[0]["outcome"], "created");
    assert_eq!(
        (&items[1]["error"]["code"], &items[2]["error"]["code"]),
        (&json!("invalid_task"), &json!("invalid_task"))
    );
    assert_eq!(api.get(1).await["not_before"], "1970-01-01T00:00:11.000000Z");
}
