//! Batches through the whole service, over the model: that items are refused as single requests are, hostile bodies, and
//! what refuses a batch as a whole.

use crate::support::*;

const CREATE: &str = "/api/v2/queues/q/tasks/batch/create";
const CLAIM: &str = "/api/v2/queues/q/tasks/batch/claim";
const REPORT: &str = "/api/v2/queues/q/tasks/batch/report";
const OTHER: &str = "t_0123456789ab";
const MIB: usize = 1 << 20;

async fn items(http: &HttpService, path: &str, body: &str) -> Vec<Value> {
    let answered = expect(http, StatusCode::OK, "POST", path, body).await;
    let json = answered.json();
    assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
    json["items"].as_array().unwrap().clone()
}

fn create_one(id: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"tasks":[{{"id":{id}{comma}{members}}}]}}"#)
}

fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn tasks_are_created_claimed_and_reported_in_the_order_of_the_request() {
    let http = with_queue().await;
    let body = format!(
        r#"{{"tasks":[{{"id":"{TASK}","args":{{"a":1}}}},{{"id":"{OTHER}"}},{{"id":"{OTHER}","priority":1}}]}}"#
    );
    let created = items(&http, CREATE, &body).await;
    assert_eq!(created[0], json!({"id": TASK, "outcome": "created"}));
    assert_eq!(created[1], json!({"id": OTHER, "outcome": "created"}));
    assert_eq!((&created[2]["outcome"], &created[2]["error"]["code"]), (&json!("refused"), &json!("task_id_conflict")));
    let replayed = items(&http, CREATE, &body).await;
    assert_eq!(replayed[0], json!({"id": TASK, "outcome": "existing"}));
    assert_eq!(replayed[2], created[2]);

    let claim =
        r#"{"route":"default","run_ids":["r_000000000001","r_000000000002","r_000000000003"],"worker":{"id":"w"}}"#;
    let claimed = items(&http, CLAIM, claim).await;
    let task = expect(&http, StatusCode::OK, "GET", &format!("/api/v2/queues/q/tasks/{TASK}"), "").await.json();
    assert_eq!(claimed[0]["task"], task, "the task as it is shown everywhere");
    assert_eq!(task["last_run"]["worker"], json!({"id": "w"}));
    let names: Vec<&String> = claimed[0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["lease_expires_at", "outcome", "run_id", "task"]);
    assert_eq!((&claimed[1]["task"]["id"], &claimed[1]["outcome"]), (&json!(OTHER), &json!("claimed")));
    assert_eq!(claimed[2], json!({"run_id": "r_000000000003", "outcome": "none"}));
    assert_eq!(items(&http, CLAIM, claim).await[0], claimed[0], "a repeated claim gives the same");

    let report = format!(
        r#"{{"reports":[{{"task_id":"{TASK}","run_id":"r_000000000001","action":"heartbeat"}},
            {{"task_id":"{TASK}","run_id":"r_000000000001","action":"complete","result":{{"x":1}}}},
            {{"task_id":"{TASK}","run_id":"r_000000000001","action":"heartbeat"}},
            {{"task_id":"{OTHER}","run_id":"r_000000000002","action":"fail","error":{{"type":"E","message":"m"}},"retry":false}},
            {{"task_id":"t_zzzzzzzzzzzz","run_id":"r_000000000002","action":"unclaim"}}]}}"#
    );
    let reported = items(&http, REPORT, &report).await;
    assert_eq!(reported[0]["outcome"], "done");
    assert!(reported[0]["lease_expires_at"].is_string());
    assert_eq!(reported[1], json!({"task_id": TASK, "run_id": "r_000000000001", "outcome": "done"}));
    assert_eq!(reported[2]["error"]["details"], json!({"action": "complete"}));
    assert_eq!(reported[3]["outcome"], "done");
    assert_eq!(reported[4]["error"]["code"], "task_not_found");
    for (id, status) in [(TASK, "succeeded"), (OTHER, "failed")] {
        let task = expect(&http, StatusCode::OK, "GET", &format!("/api/v2/queues/q/tasks/{id}"), "").await.json();
        assert_eq!(task["status"], status);
    }
}

/// Bodies of a creation that are refused, without their braces.
fn bad_creations() -> Vec<String> {
    let routes: Vec<String> = (0..257).map(|n| format!("\"r{n}\"")).collect();
    let short = r#""x":1 "x":1,"status":"pending","result":{} "name":7 "name":"\n" "name":"\n","args":[] "name":"\ud800"
        "args":null "args":[] "args":{"a":[0,{"b":9223372036854775808}]} "metadata":{"a":1e400} "args":{"a":"\ud800"}
        "args":{"\udc00":1} "\ud800":1 "priority":1.0 "priority":9223372036854775808,"max_attempts":0 "priority":null
        "routes":["ok","-",1] "routes":[] "routes":["a","a"] "args":{"a":1},"args":7"#;
    let mut bad: Vec<String> = short.split_whitespace().map(str::to_owned).collect();
    bad.push(format!(r#""routes":[{}]"#, routes.join(",")));
    bad.push(format!(r#""args":{}"#, deep(65)));
    bad.push(format!(r#""args":{},"name":"\u0001""#, deep(65)));
    bad.push(format!(r#""metadata":{},"priority":null"#, deep(1000)));
    bad.push(format!(r#""x":{}"#, deep(300)));
    bad.push(format!(r#""x":{}"#, deep(150_000)));
    bad.push(format!(r#""args":{}"#, deep(150_000)));
    bad.push(format!(r#""args":{{"a":"{}"}}"#, "x".repeat(MIB)));
    bad.push(format!(r#""name":"{}""#, "x".repeat(257)));
    bad.push(format!(r#""args":{{"a":"{}"}}"#, "x".repeat(MIB - 30)));
    bad
}

#[tokio::test]
async fn a_bad_creation_is_refused_as_the_single_request_is() {
    let http = with_queue().await;
    for members in bad_creations() {
        let single = call(&http, "PUT", &format!("/api/v2/queues/q/tasks/{TASK}"), &format!("{{{members}}}")).await;
        assert!(single.status >= 400, "{}", &members[..members.len().min(99)]);
        let expected = json!({"id": TASK, "outcome": "refused", "error": single.json()["error"]});
        let good = format!(r#"{{"id":"{OTHER}"}}"#);
        let body = format!(r#"{{"tasks":[{good},{{{members},"id":"{TASK}"}},{good}]}}"#);
        let answered = items(&http, CREATE, &body).await;
        assert_eq!(answered[1], expected, "{}", &members[..members.len().min(99)]);
        assert!(answered.len() == 3 && answered[0]["outcome"] != "refused" && answered[2]["outcome"] == "existing");
    }
    for id in ["t_", "x", "t_abcdefghijk", "t_abcdefghijklm", "t_abcdefghijk%C3%A9", "r_abcdefghijkl"] {
        let single = call(&http, "PUT", &format!("/api/v2/queues/q/tasks/{id}"), "{}").await;
        let id = id.replace("%C3%A9", "é");
        let expected = json!({"id": id, "outcome": "refused", "error": single.json()["error"]});
        assert_eq!(items(&http, CREATE, &create_one(&format!("\"{id}\""), "")).await, [expected]);
    }
}

#[tokio::test]
async fn a_bad_report_is_refused_as_the_single_request_is() {
    let http = with_queue().await;
    let cases = [
        ("heartbeat", r#""run_id":"r_abcdefghijkl","result":{}"#.to_owned()),
        ("heartbeat", r#""run_id":"x""#.to_owned()),
        ("heartbeat", r#""run_id":"\ud800""#.to_owned()),
        ("heartbeat", r#""run_id":"r_abcdefghijkl""#.to_owned()),
        ("unclaim", r#""run_id":"r_abcdefghijkl","delay_seconds":1"#.to_owned()),
        ("complete", r#""run_id":"r_abcdefghijkl""#.to_owned()),
        ("complete", r#""run_id":"r_abcdefghijkl","result":null"#.to_owned()),
        ("complete", format!(r#""run_id":"r_abcdefghijkl","result":{}"#, deep(65))),
        ("complete", r#""run_id":"r_abcdefghijkl","result":{"a":1e400}"#.to_owned()),
        ("fail", r#""run_id":"r_abcdefghijkl","error":{"type":"E"}"#.to_owned()),
        ("fail", r#""run_id":"r_abcdefghijkl","error":{"type":"E","message":"m"},"retry":1"#.to_owned()),
        ("fail", r#""run_id":"r_abcdefghijkl","error":{"type":"E","message":"m"}"#.to_owned()),
    ];
    for task in [TASK, "t_x"] {
        for (action, members) in &cases {
            let single =
                call(&http, "POST", &format!("/api/v2/queues/q/tasks/{task}/{action}"), &format!("{{{members}}}"))
                    .await;
            assert!(single.status >= 400, "{members}");
            let body = format!(r#"{{"reports":[{{"task_id":"{task}","action":"{action}",{members}}}]}}"#);
            let answered = items(&http, REPORT, &body).await.remove(0);
            assert_eq!(answered["error"], single.json()["error"], "{action} {members}");
            assert_eq!((&answered["task_id"], &answered["outcome"]), (&json!(task), &json!("refused")));
        }
    }
}

#[tokio::test]
async fn a_bad_run_id_is_refused_as_the_single_claim_is_and_the_others_claim() {
    let http = with_queue().await;
    items(&http, CREATE, &create_one(&format!("\"{TASK}\""), "")).await;
    let body = |run_id: &str| format!(r#"{{"route":"default","run_id":"{run_id}"}}"#);
    let single = call(&http, "POST", "/api/v2/queues/q/tasks/claim", &body("x")).await;
    let claimed =
        items(&http, CLAIM, r#"{"route":"default","run_ids":["x","r_000000000001","\ud800","\ud800"]}"#).await;
    assert_eq!(claimed[0], json!({"run_id": "x", "outcome": "refused", "error": single.json()["error"]}));
    assert_eq!(claimed[1]["task"]["id"], TASK);
    assert_eq!((&claimed[2]["run_id"], &claimed[2]["error"]), (&json!("\u{fffd}"), &single.json()["error"]));

    let cancelled = expect(&http, StatusCode::OK, "POST", &format!("/api/v2/queues/q/tasks/{TASK}/cancel"), "").await;
    assert_eq!(cancelled.json()["status"], "cancelled");
    let stale = call(&http, "POST", "/api/v2/queues/q/tasks/claim", &body("r_000000000001")).await;
    let claimed = items(&http, CLAIM, r#"{"route":"default","run_ids":["r_000000000001","r_000000000002"]}"#).await;
    assert_eq!(claimed[0]["error"], stale.json()["error"]);
    assert_eq!(claimed[1]["outcome"], "none");
}

#[tokio::test]
async fn what_is_wrong_with_the_whole_changes_nothing() {
    let http = with_queue().await;
    let good = format!(r#"{{"id":"{TASK}"}}"#);
    let thousand_and_one = vec![good.as_str(); 1001].join(",");
    let cases = [
        (CREATE, r#"{"tasks":[]}"#.to_owned()),
        (CREATE, format!(r#"{{"tasks":[{thousand_and_one}]}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good},1]}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good},{{}}]}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good},{{"id":null}}]}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good}],"x":1}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good}]"#)),
        (CREATE, format!(r#"{{"tasks":[{good}]}}{{}}"#)),
        (CREATE, format!(r#"{{"tasks":[{good},{}"#, "[".repeat(MIB))),
        (CREATE, "[".repeat(16 * MIB)),
        (CREATE, String::new()),
        (CLAIM, r#"{"route":"default","run_ids":["r_000000000001","r_000000000001"]}"#.to_owned()),
        (CLAIM, r#"{"route":"default","run_ids":["r_000000000001",1]}"#.to_owned()),
        (CLAIM, r#"{"run_ids":["r_000000000001"]}"#.to_owned()),
        (REPORT, format!(r#"{{"reports":[{{"task_id":"{TASK}","run_id":"r_000000000001","action":"output"}}]}}"#)),
        (REPORT, format!(r#"{{"reports":[{{"task_id":"{TASK}","action":"heartbeat"}}]}}"#)),
    ];
    for (path, body) in &cases {
        let answered = call(&http, "POST", path, body).await;
        let seen = (answered.status, answered.code());
        assert_eq!(seen, (422, "invalid_request".to_owned()), "{}", &body[..body.len().min(99)]);
        assert!(answered.details()["errors"].is_array() && answered.body.len() < 10_000);
    }
    expect(&http, StatusCode::NOT_FOUND, "GET", &format!("/api/v2/queues/q/tasks/{TASK}"), "").await;
    let mut plain = Request::builder().method("POST").uri(CREATE).header("host", "localhost");
    plain = plain.header("content-type", "text/plain");
    let answered = send(&http, plain.body(Body::from(format!(r#"{{"tasks":[{good}]}}"#))).unwrap()).await;
    assert_eq!(answered.json()["error"]["message"], "send Content-Type: application/json");
}

#[tokio::test]
async fn a_missing_queue_is_found_whatever_the_items_are_and_after_the_shape() {
    let http = server();
    let report = format!(r#"{{"reports":[{{"task_id":"{TASK}","run_id":"x","action":"unclaim"}}]}}"#);
    let cases = [
        (CREATE, r#"{"tasks":[{"id":"x"}]}"#.to_owned(), 404, "queue_not_found"),
        (CREATE, create_one(&format!("\"{TASK}\""), ""), 404, "queue_not_found"),
        (CREATE, r#"{"tasks":[{}]}"#.to_owned(), 422, "invalid_request"),
        (CLAIM, r#"{"route":"default","run_ids":["x"]}"#.to_owned(), 404, "queue_not_found"),
        (CLAIM, r#"{"route":"default","run_ids":["r_000000000001"]}"#.to_owned(), 404, "queue_not_found"),
        (REPORT, report, 404, "queue_not_found"),
    ];
    for (path, body, status, code) in cases {
        let answered = call(&http, "POST", path, &body).await;
        assert_eq!((answered.status, answered.code().as_str()), (status, code), "{body}");
    }
    let answered = call(&http, "POST", "/api/v2/queues/-/tasks/batch/create", &create_one("\"x\"", "")).await;
    assert_eq!((answered.status, answered.details()["errors"][0]["location"].clone()), (422, json!(["path", "queue"])));
}

/// A batch of exactly so many bytes whose tasks are good.
fn batch_of(bytes: usize) -> String {
    let item = |n: usize, text: usize| format!(r#"{{"id":"t_{n:012}","args":{{"a":"{}"}}}}"#, "x".repeat(text));
    let mut items: Vec<String> = (0..20).map(|n| item(n, bytes / 20 - 100)).collect();
    let left = bytes - format!(r#"{{"tasks":[{}]}}"#, items.join(",")).len();
    items[0] = item(0, bytes / 20 - 100 + left);
    let body = format!(r#"{{"tasks":[{}]}}"#, items.join(","));
    assert_eq!(body.len(), bytes);
    body
}

#[tokio::test]
async fn an_answer_stays_within_16_mib_and_what_does_not_fit_is_not_claimed() {
    let http = with_queue().await;
    for n in 0..2 {
        let body = batch_of(16 * MIB).replace("t_0000000000", &format!("t_{n}000000000"));
        assert_eq!(items(&http, CREATE, &body).await.len(), 20);
    }
    let run_ids: Vec<String> = (0..40).map(|n| format!("\"r_{n:012}\"")).collect();
    let body = format!(r#"{{"route":"default","run_ids":[{}]}}"#, run_ids.join(","));
    let answered = expect(&http, StatusCode::OK, "POST", CLAIM, &body).await;
    assert!(answered.body.len() <= 16 * MIB && answered.body.len() > 15 * MIB, "{}", answered.body.len());
    let json = answered.json();
    let claimed = json["items"].as_array().unwrap().iter().filter(|item| item["outcome"] == "claimed").count();
    assert!((18..20).contains(&claimed), "{claimed}");
    let count = expect(&http, StatusCode::OK, "GET", "/api/v2/queues/q/tasks/count?status=running", "").await;
    assert_eq!(count.json()["count"], claimed);
}

#[tokio::test]
async fn the_paths_of_batches_are_no_paths_of_tasks() {
    let http = with_queue().await;
    assert_eq!(call(&http, "GET", CREATE, "").await.code(), "method_not_allowed");
    assert_eq!(call(&http, "POST", "/api/v2/queues/q/tasks/batch", "").await.code(), "method_not_allowed");
    assert_eq!(call(&http, "GET", "/api/v2/queues/q/tasks/batch", "").await.code(), "invalid_task_id");
    assert_eq!(call(&http, "POST", "/api/v2/queues/q/tasks/batch/cancel", "").await.code(), "invalid_task_id");
    assert_eq!(call(&http, "POST", "/api/v2/queues/q/tasks/batch/other", "{}").await.code(), "not_found");
    let too_large = call(&http, "POST", CREATE, &" ".repeat(16 * MIB + 1)).await;
    assert_eq!((too_large.status, too_large.code().as_str()), (413, "request_too_large"));
    assert_eq!(too_large.details(), json!({"max_bytes": 16 * MIB}));
    let guarded = guarded_server();
    assert_eq!(call(&guarded, "POST", CREATE, &"x".repeat(17 * MIB)).await.code(), "unauthorized");
}
