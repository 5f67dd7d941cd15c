//! `archive`.

use super::*;

/// Three tasks: the first one has succeeded and is archived, the second one has succeeded, the third one is pending.
async fn archived() -> Api {
    let api = Api::new().await;
    for n in 1..=3 {
        api.create(n, "{}").await;
    }
    api.run_to(1, "complete", r#","result":{}"#).await;
    api.run_to(2, "complete", r#","result":{}"#).await;
    assert_eq!(api.update(1, r#"{"archived":true}"#).await["archived"], true);
    api
}

async fn ids(api: &Api, query: &str) -> Vec<String> {
    let page = api.call("GET", &format!("/tasks{query}"), "").await.json();
    page["items"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()[13..].to_owned()).collect()
}

#[tokio::test]
async fn lists_and_counts_leave_archived_tasks_out_unless_they_are_asked_for() {
    let api = archived().await;
    assert_eq!(ids(&api, "?order_by=created_at&descending=false").await.len(), 2);
    assert_eq!(ids(&api, "?include_archived=true").await.len(), 3);
    assert_eq!(ids(&api, "?include_archived=1&filter=archived+%3D%3D+true").await, ["1"]);
    assert_eq!(ids(&api, "?filter=archived+%3D%3D+true").await, [""; 0]);
    assert_eq!(ids(&api, "?include_archived=no&status=succeeded").await, ["2"]);
    for (query, count) in [("", 2), ("?include_archived=true", 3), ("?status=succeeded&include_archived=yes", 2)] {
        assert_eq!(api.call("GET", &format!("/tasks/count{query}"), "").await.json(), json!({"count": count}));
    }
    let groups = api.call("GET", "/tasks/count?group_by=status&include_archived=true", "").await.json();
    assert_eq!(groups["count"], 3);
    assert_eq!(api.call("GET", "/tasks?include_archived=perhaps", "").await.code(), "invalid_request");
    assert_eq!(api.get(1).await["archived"], true, "by its id it is seen");
    assert_eq!(api.get(2).await.get("archived"), None);
    assert_eq!(api.call("DELETE", "", "").await.details()["tasks"], 3, "the queue is not empty");
}

#[tokio::test]
async fn a_cursor_is_bound_to_whether_archived_tasks_are_listed() {
    let api = archived().await;
    let first = api.call("GET", "/tasks?limit=1&include_archived=true", "").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let with = |flag: &str| format!("/tasks?limit=1&cursor={cursor}{flag}");
    assert_eq!(api.call("GET", &with("&include_archived=true"), "").await.status, 200);
    assert_eq!(api.call("GET", &with(""), "").await.code(), "invalid_cursor");
    assert_eq!(api.call("GET", &with("&include_archived=false"), "").await.code(), "invalid_cursor");
}

#[tokio::test]
async fn only_a_task_that_has_ended_is_archived_and_a_requeue_takes_it_back() {
    let api = archived().await;
    let refused = api.call("PATCH", "/tasks/t_000000000003", r#"{"archived":true}"#).await;
    assert_eq!((refused.status, refused.code()), (409, "update_conflict".into()));
    assert_eq!((&refused.details()["field"], &refused.details()["status"]), (&json!("archived"), &json!("pending")));
    api.claim(3).await.unwrap();
    assert_eq!(api.call("PATCH", "/tasks/t_000000000003", r#"{"archived":true}"#).await.code(), "task_running");
    assert_eq!(api.act(3, "cancel", "").await.json()["status"], "cancelled");
    assert_eq!(api.update(3, r#"{"archived":true}"#).await["archived"], true);
    assert_eq!(api.act(3, "requeue", "").await.json().get("archived"), None);
    assert_eq!(api.update(1, r#"{"archived":false}"#).await.get("archived"), None);
}

#[tokio::test]
async fn bulk_requests_leave_archived_tasks_out_unless_they_are_asked_for() {
    let api = archived().await;
    let update = |more: &str| format!(r#"{{"filter":"status == \"succeeded\"","changes":{{"priority":4}}{more}}}"#);
    let updated = async |body: String| api.call("PATCH", "/tasks", &body).await.json();
    assert_eq!(updated(update("")).await, json!({"matched": 1, "updated": 1}));
    assert_eq!(updated(update(r#","include_archived":true"#)).await, json!({"matched": 2, "updated": 1}));
    let conflict = r#"{"filter":"priority >= 0","changes":{"archived":true}}"#;
    assert_eq!(api.call("PATCH", "/tasks", conflict).await.code(), "update_conflict", "one of them is pending");
    let all = r#"{"filter":"status == \"succeeded\"","changes":{"archived":true}}"#;
    assert_eq!(updated(all.to_owned()).await, json!({"matched": 1, "updated": 1}));
    let delete = |more: &str| format!(r#"{{"filter":"status == \"succeeded\""{more}}}"#);
    let deleted = async |body: String| api.call("POST", "/tasks/bulk/delete", &body).await.json();
    assert_eq!(deleted(delete("")).await, json!({"matched": 0, "changed": 0}));
    assert_eq!(deleted(delete(r#","include_archived":true"#)).await, json!({"matched": 2, "changed": 2}));
}
