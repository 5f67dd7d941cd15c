//! `queue-settings`.

use taskqueue_store::StoreExt;
use taskqueue_store::command::Upkeep;

use super::*;

async fn change(api: &Api, patch: &str) -> Value {
    let answered = api.call("PATCH", "/settings", patch).await;
    assert_eq!(answered.status, 200, "{patch}: {}", String::from_utf8_lossy(&answered.body));
    answered.json()
}

#[tokio::test]
async fn a_patch_merges_and_answers_with_all_settings() {
    let api = Api::new().await;
    let none = json!({"succeeded_seconds": null, "failed_seconds": null, "cancelled_seconds": null});
    let defaults = json!({"paused": false, "max_running": null, "route_limits": {}, "retention": none});
    let settings = async || api.call("GET", "/settings", "").await;
    let text = concat!(
        r#"{"paused":false,"max_running":null,"route_limits":{},"retention":{"succeeded_seconds":null,"#,
        r#""failed_seconds":null,"cancelled_seconds":null}}"#
    );
    assert_eq!(String::from_utf8(settings().await.body).unwrap(), text);
    assert_eq!(change(&api, "{}").await, defaults);
    let set = r#"{"paused":true,"max_running":0,"route_limits":{"gpu":8,"cpu":0},"retention":{"failed_seconds":60}}"#;
    let changed = change(&api, set).await;
    assert_eq!(changed["route_limits"], json!({"cpu": 0, "gpu": 8}));
    assert_eq!(changed["retention"]["failed_seconds"], 60);
    assert_eq!(settings().await.json(), changed);
    let fewer = change(&api, r#"{"paused":null,"route_limits":{"gpu":null,"tpu":1}}"#).await;
    assert_eq!((&fewer["paused"], &fewer["max_running"]), (&json!(false), &json!(0)));
    assert_eq!(fewer["route_limits"], json!({"cpu": 0, "tpu": 1}));
    assert_eq!(change(&api, r#"{"max_running":null,"route_limits":null,"retention":null}"#).await, defaults);
}

#[tokio::test]
async fn a_patch_that_is_wrong_changes_nothing() {
    let api = Api::new().await;
    for patch in ["[]", r#"{"paused":"yes"}"#, r#"{"pause":true}"#, r#"{"paused":true,"max_running":-1}"#] {
        let refused = api.call("PATCH", "/settings", patch).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid_request".into()), "{patch}");
    }
    let limits = |range: std::ops::Range<usize>| {
        let limits: Vec<String> = range.map(|n| format!(r#""r{n}":1"#)).collect();
        format!(r#"{{"route_limits":{{{}}}}}"#, limits.join(","))
    };
    change(&api, &limits(0..256)).await;
    let too_many = api.call("PATCH", "/settings", &limits(256..257)).await;
    assert_eq!((too_many.status, too_many.code()), (422, "invalid_request".into()));
    assert_eq!(too_many.details()["errors"][0]["location"], json!(["body", "route_limits"]));
    let settings = api.call("GET", "/settings", "").await.json();
    assert_eq!((settings["route_limits"].as_object().unwrap().len(), &settings["paused"]), (256, &json!(false)));
    for (method, body) in [("GET", ""), ("PATCH", "{}")] {
        let missing = call(&api.http, method, "/api/v2/queues/none/settings", body).await;
        assert_eq!(missing.code(), "queue_not_found");
    }
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_but_what_a_run_has_already() {
    let api = Api::new().await;
    api.create(1, "{}").await;
    api.create(2, "{}").await;
    api.claim(1).await.unwrap();
    change(&api, r#"{"paused":true}"#).await;
    assert_eq!(api.claim(2).await, None);
    assert_eq!(api.claim(1).await.as_deref(), Some("t_000000000001"), "the replay of an active claim");
    assert_eq!(api.act(1, "complete", &run_body(1, r#","result":{}"#)).await.status, 204);
    change(&api, r#"{"paused":false}"#).await;
    assert_eq!(api.claim(2).await.as_deref(), Some("t_000000000002"));
}

#[tokio::test]
async fn no_more_tasks_are_running_than_the_limits_say() {
    let api = Api::new().await;
    for n in 1..=4 {
        api.create(n, "{}").await;
    }
    change(&api, r#"{"max_running":2}"#).await;
    for n in 1..=2 {
        assert!(api.claim(n).await.is_some());
    }
    assert_eq!(api.claim(3).await, None);
    assert_eq!(api.act(1, "complete", &run_body(1, r#","result":{}"#)).await.status, 204);
    assert!(api.claim(4).await.is_some());
    change(&api, r#"{"max_running":null,"route_limits":{"default":2}}"#).await;
    assert_eq!(api.claim(5).await, None);
    change(&api, r#"{"route_limits":null}"#).await;
    assert!(api.claim(6).await.is_some());
}

#[tokio::test]
async fn ended_tasks_go_when_they_are_as_old_as_the_retention_says() {
    let api = Api::new().await;
    for n in 1..=2 {
        api.create(n, r#"{"max_attempts":1}"#).await;
    }
    api.run_to(1, "complete", r#","result":{}"#).await;
    api.run_to(2, "fail", ERROR).await;
    change(&api, r#"{"retention":{"succeeded_seconds":60}}"#).await;
    let upkeep = async || api.store.write(Upkeep).await.unwrap().deleted;
    api.clock.advance_seconds(59);
    assert_eq!(upkeep().await, 0);
    api.clock.advance_seconds(1);
    assert_eq!(upkeep().await, 1);
    assert_eq!(api.call("GET", "/tasks/t_000000000001", "").await.code(), "task_not_found");
    assert_eq!(api.get(2).await["status"], "failed", "it is kept");
}
