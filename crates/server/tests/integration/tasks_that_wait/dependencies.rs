//! `dependencies`.

use super::*;

#[tokio::test]
async fn a_task_is_claimed_when_all_that_it_waits_for_have_succeeded() {
    let api = Api::new().await;
    api.create(1, "{}").await;
    let body = r#"{"dependencies":["t_000000000002","t_000000000001","t_000000000002"]}"#;
    assert_eq!(api.create(3, body).await["dependencies"], json!(["t_000000000001", "t_000000000002"]));
    let other_order = r#"{"dependencies":["t_000000000001","t_000000000002"]}"#;
    expect(&api.http, StatusCode::OK, "PUT", &task_path(3), other_order).await;
    api.run_to(1, "complete", r#","result":{}"#).await;
    assert_eq!(api.claim(9).await, None, "one is missing");
    api.create(2, "{}").await;
    api.run_to(2, "complete", r#","result":{}"#).await;
    assert_eq!(api.claim(3).await.as_deref(), Some("t_000000000003"));
    assert_eq!(api.get(3).await["dependencies"].as_array().unwrap().len(), 2, "they stay");
}

#[tokio::test]
async fn a_task_that_does_not_wait_for_what_has_failed_is_cancelled_with_all_behind_it() {
    let api = Api::new().await;
    let behind =
        |n: usize| format!(r#"{{"dependencies":["t_{n:012}"],"on_dependency_failure":"cancel","max_attempts":1}}"#);
    api.create(1, r#"{"max_attempts":1}"#).await;
    api.create(2, &behind(1)).await;
    api.create(3, &behind(2)).await;
    api.create(4, r#"{"dependencies":["t_000000000001"]}"#).await;
    api.run_to(1, "fail", ERROR).await;
    for (n, cause) in [(2, "t_000000000001"), (3, "t_000000000002")] {
        let task = api.get(n).await;
        assert_eq!((&task["status"], &task["on_dependency_failure"]), (&json!("cancelled"), &json!("cancel")));
        let error = &task["last_error"];
        assert_eq!((&error["type"], &error["run_id"]), (&json!("DependencyFailed"), &Value::Null));
        assert!(error["message"].as_str().unwrap().contains(cause), "{error}");
    }
    assert_eq!(api.get(4).await["status"], "pending", "it waits on");
    assert_eq!(api.create(5, &behind(1)).await["status"], "cancelled", "at its creation already");
    assert_eq!(api.act(2, "requeue", "").await.json()["status"], "cancelled", "and at its requeue");
}

#[tokio::test]
async fn an_update_replaces_the_list_and_the_choice() {
    let api = Api::new().await;
    api.create(1, r#"{"dependencies":["t_000000000001","t_000000000009"]}"#).await;
    assert_eq!(api.claim(1).await, None, "it waits for itself");
    let updated = api.update(1, r#"{"dependencies":["t_000000000009"],"on_dependency_failure":"cancel"}"#).await;
    assert_eq!(updated["dependencies"], json!(["t_000000000009"]));
    let kept = api.update(1, r#"{"priority":1,"on_dependency_failure":null}"#).await;
    assert_eq!(kept["on_dependency_failure"], "cancel");
    let free = api.update(1, r#"{"dependencies":[],"on_dependency_failure":"wait"}"#).await;
    assert_eq!(free.as_object().unwrap().len(), 17);
    assert_eq!(api.claim(2).await.as_deref(), Some("t_000000000001"));
    for bad in [r#"{"dependencies":null}"#, r#"{"dependencies":["x"]}"#, r#"{"on_dependency_failure":"retry"}"#] {
        let refused = api.call("PATCH", "/tasks/t_000000000001", bad).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid_update".into()), "{bad}");
    }
}
