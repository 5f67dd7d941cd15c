//! What tokens with scopes and patterns open: the route table covers every operation, and an answer is 403 exactly when
//! the table says so.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use taskqueue_api::paths;
use taskqueue_core::access::{Grant, QueuePattern, Scope};
use taskqueue_server::auth::{Gate, NamedToken, SharedTokens, digest};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"];

/// A server with the queues `exp-1` and `prod`, and the token `t0ken` that has these scopes and patterns.
async fn opened_by(scopes: &[Scope], patterns: &[&str]) -> HttpService {
    let queues = patterns.iter().map(|text| QueuePattern::parse(text).unwrap()).collect();
    let grant = Grant { scopes: scopes.iter().copied().collect(), queues };
    let tokens = [(digest(b"t0ken"), NamedToken::new("name", grant, None))].into_iter().collect();
    let gate = Gate::new(taskqueue_server::auth::Token::parse("s3cret"), Some(SharedTokens::new(tokens)));
    let http = service(state_over(Arc::new(model()), gate));
    for queue in ["exp-1", "prod"] {
        assert_eq!(sent(&http, "PUT", &format!("/api/v2/queues/{queue}"), "s3cret").await.status, 201);
    }
    http
}

async fn sent(http: &HttpService, method: &str, path: &str, token: &str) -> Answered {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    send(http, request.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap()).await
}

/// The method and path of every operation, and the scope that the document says it needs.
async fn operations() -> Vec<(String, String, Option<Scope>)> {
    let document = call(&server(), "GET", "/openapi.json", "").await.json();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scopes = &operation["security"][0]["bearer"];
            let scope = scopes[0].as_str().map(|text| Scope::parse(text).unwrap());
            operations.push((method.to_uppercase(), path.clone(), scope));
        }
    }
    operations
}

fn path_in(template: &str, queue: &str) -> String {
    template.replace("{queue}", queue).replace("{task_id}", TASK).replace("{id}", WORKER)
}

#[tokio::test]
async fn every_operation_of_the_route_table_has_a_scope() {
    let unscoped = opened_by(&[], &["*"]).await;
    for (method, template, scope) in operations().await {
        let answered = sent(&unscoped, &method, &path_in(&template, "exp-1"), "t0ken").await;
        let is_api = template.starts_with("/api/");
        let is_open = !is_api && template != paths::METRICS || template == paths::CAPABILITIES;
        assert_eq!(scope.is_none(), is_open, "{method} {template} has no line in endpoints.rs");
        if let Some(scope) = scope {
            assert_eq!((answered.status, answered.code().as_str()), (403, "forbidden"), "{method} {template}");
            assert_eq!(answered.details(), json!({"scope": scope.as_str()}), "{method} {template}");
            assert_eq!(answered.header(VERSION).is_some(), is_api, "{method} {template}: the token is valid");
        } else {
            assert_eq!(answered.status, 200, "{method} {template}");
        }
    }
}

#[tokio::test]
async fn no_method_of_any_path_is_open_to_a_token_without_scopes() {
    let unscoped = opened_by(&[], &["*"]).await;
    let closed = |path: &&str| path.starts_with("/api/") && *path != paths::CAPABILITIES || *path == paths::METRICS;
    for template in paths::ALL.into_iter().filter(closed) {
        for method in METHODS {
            let answered = sent(&unscoped, method, &path_in(template, "exp-1"), "t0ken").await;
            assert!(matches!(answered.status, 403 | 405), "{method} {template}: {}", answered.status);
        }
    }
}

#[tokio::test]
async fn reading_is_for_read_and_what_a_worker_does_is_for_work() {
    for (method, template, scope) in operations().await {
        match scope {
            Some(Scope::Read) => assert_eq!(method, "GET", "{template}"),
            Some(Scope::Admin) => assert!([paths::QUEUE, paths::SETTINGS].contains(&&*template), "{template}"),
            Some(Scope::Submit | Scope::Work) => assert_ne!(method, "GET", "{template}"),
            None => assert_eq!(method, "GET", "{template}"),
        }
    }
}

#[tokio::test]
async fn a_queue_that_may_not_be_seen_is_denied_alike_whether_it_exists_or_not() {
    let http = opened_by(&[Scope::Read], &["exp-*"]).await;
    for path in ["", "/tasks", "/tasks/count", "/workers", "/tasks/t_abcdefghijkl", "/tasks?limit=x"] {
        let method = if path.is_empty() { "DELETE" } else { "GET" };
        let answer = async |queue: &str| {
            let answered = sent(&http, method, &format!("/api/v2/queues/{queue}{path}"), "t0ken").await;
            (answered.status, String::from_utf8(answered.body).unwrap().replace(queue, "QUEUE"))
        };
        let there = answer("prod").await;
        assert_eq!(there.0, 403, "{path}: {there:?}");
        assert_eq!(there, answer("nope").await, "{path}");
    }
    assert_eq!(sent(&http, "GET", "/api/v2/queues/exp-9/tasks", "t0ken").await.code(), "queue_not_found");
}

#[tokio::test]
async fn metrics_are_of_all_queues_and_for_those_who_may_see_all() {
    for (scopes, patterns, status) in [
        (&[Scope::Read][..], &["*"][..], 200),
        (&[Scope::Admin], &["*"], 200),
        (&[Scope::Read], &["exp-*"], 403),
        (&[Scope::Work, Scope::Submit], &["*"], 403),
    ] {
        let http = opened_by(scopes, patterns).await;
        for method in ["GET", "HEAD"] {
            let answered = sent(&http, method, "/metrics", "t0ken").await;
            assert_eq!(answered.status, status, "{method} {scopes:?} {patterns:?}");
        }
    }
}

#[tokio::test]
async fn the_list_of_queues_has_only_those_that_may_be_seen() {
    let names = async |patterns: &[&str], token: &str| {
        let http = opened_by(&[Scope::Read], patterns).await;
        let listed = sent(&http, "GET", "/api/v2/queues", token).await.json();
        let names: Vec<Value> = listed.as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
        names
    };
    assert_eq!(names(&["exp-*"], "t0ken").await, ["exp-1"]);
    assert_eq!(names(&["p*", "*-1"], "t0ken").await, ["exp-1", "prod"]);
    assert_eq!(names(&["none"], "t0ken").await, [""; 0]);
    assert_eq!(names(&["none"], "s3cret").await, ["exp-1", "prod"]);
}

#[tokio::test]
async fn denials_come_behind_the_routing_and_before_everything_else() {
    let http = opened_by(&[Scope::Work], &["exp-*"]).await;
    let status = async |method: &str, path: &str| sent(&http, method, path, "t0ken").await.status;
    assert_eq!(status("GET", "/api/v2/nowhere").await, 404);
    assert_eq!(status("GET", "/api/v2/queues/prod/").await, 404);
    assert_eq!(status("POST", "/api/v2/queues/prod").await, 405);
    assert_eq!(status("GET", "/api/v2/queues/exp-1/tasks?limit=x").await, 403);
    // Names that no queue has: what cannot be read fits no pattern, and what fits one is invalid.
    assert_eq!(status("PUT", "/api/v2/queues/%FF/workers/x").await, 403);
    assert_eq!(status("PUT", "/api/v2/queues/exp-%20/workers/x").await, 422);
    let huge = Request::builder().method("POST").uri("/api/v2/queues/prod/tasks/claim").header("host", "localhost");
    let huge = huge.header("authorization", "Bearer t0ken").body(Body::from(vec![b'x'; 2 << 20])).unwrap();
    assert_eq!(send(&http, huge).await.status, 403);
}

#[tokio::test]
async fn a_long_name_of_a_queue_is_not_repeated_at_length() {
    let http = opened_by(&[Scope::Read], &["exp-*"]).await;
    let path = format!("/api/v2/queues/{}/tasks", "x".repeat(60_000));
    let answered = sent(&http, "GET", &path, "t0ken").await;
    assert_eq!(answered.details(), json!({"queue": "x".repeat(128)}));
    assert!(answered.body.len() < 1000);
}

/// Whether a pattern fits, told in the simplest way.
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => fits(&pattern[1..], name) || (!name.is_empty() && fits(pattern, &name[1..])),
        (Some(wanted), Some(given)) => wanted == given && fits(&pattern[1..], &name[1..]),
        _ => false,
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab*][ab*]{0,3}", 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_403_exactly_when_the_table_says_so(
        scopes in subsequence(Scope::ALL.to_vec(), 0..=4),
        patterns in patterns(),
        queue in "[ab]{1,4}",
        operation in select(runtime().block_on(operations())),
    ) {
        let (method, template, need) = operation;
        let has_scope = need.is_none_or(|need| scopes.contains(&need) || scopes.contains(&Scope::Admin));
        // Metrics are of all queues.
        let is_everywhere = template == paths::METRICS;
        let has_queue = match is_everywhere {
            true => patterns.iter().any(|pattern| pattern.chars().all(|character| character == '*')),
            false => !template.contains("{queue}") || patterns.iter().any(|pattern| fits(pattern, &queue)),
        };
        let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let answered = runtime().block_on(async {
            let http = opened_by(&scopes, &texts).await;
            sent(&http, &method, &path_in(&template, &queue), "t0ken").await
        });
        prop_assert_eq!(answered.status == 403, !has_scope || !has_queue, "{} {}: {}", method, template, answered.status);
        if answered.status == 403 {
            let expected = [
                need.filter(|_| !has_scope).map(|need| ("scope".to_owned(), json!(need.as_str()))),
                (!has_queue).then(|| ("queue".to_owned(), json!(if is_everywhere { "*" } else { &*queue }))),
            ];
            let expected: serde_json::Map<String, Value> = expected.into_iter().flatten().collect();
            prop_assert_eq!(answered.details(), Value::Object(expected));
        }
    }
}
