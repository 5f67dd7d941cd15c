//! How much memory unread answers may hold. How a connection frees it is tested with the accept loop.

use axum::response::Response;
use taskqueue_server::Limits;
use taskqueue_server::memory_budget::Budgets;
use taskqueue_server::memory_plan::MemoryPlan;

use crate::support::*;

const MIB: usize = 1_048_576;

fn limited(store: Arc<dyn Store>, plan: &MemoryPlan) -> HttpService {
    service(AppState::new(store, Gate::default(), Arc::new(Budgets::new(plan)), Limits::default()))
}

/// A server over the model with the queue `q`, and so much memory for answers.
async fn with_queue(answers_bytes: usize) -> (HttpService, Arc<ModelStore>) {
    let store = Arc::new(model());
    let http = limited(store.clone(), &MemoryPlan { answers_bytes, ..MemoryPlan::within(1 << 30) });
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    (http, store)
}

/// A server with 15 tasks of 1 MiB in the queue `q`.
async fn server(answers_bytes: usize) -> HttpService {
    let (http, _) = with_queue(answers_bytes).await;
    let body = format!("{{\"args\":{{\"a\":\"{}\"}}}}", "x".repeat(MIB - 4096));
    for n in 0..15 {
        expect(&http, StatusCode::CREATED, "PUT", &format!("/api/v2/queues/q/tasks/t_{n:012}"), &body).await;
    }
    http
}

/// An answer that is not read.
async fn unread(http: &HttpService, method: &str, path: &str, body: &str) -> Response {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json");
    http.call(request.body(Body::from(body.to_owned())).unwrap()).await
}

/// Answers that are not read, as many as there is room for.
async fn held_until_refused(http: &HttpService, method: &str, path: &str, body: &str) -> Vec<Response> {
    let mut held = Vec::new();
    loop {
        let answer = unread(http, method, path, body).await;
        match answer.status() {
            StatusCode::OK => held.push(answer),
            status => {
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
                return held;
            }
        }
        assert!(held.len() < 30, "{method} {path}: an unread answer holds nothing");
    }
}

/// How many tasks a page of the answer has, and whether another one follows.
async fn page(http: &HttpService, path: &str) -> (usize, bool) {
    let answer = expect(http, StatusCode::OK, "GET", path, "").await.json();
    (answer["items"].as_array().unwrap().len(), !answer["next_cursor"].is_null())
}

const LIST: &str = "/api/v2/queues/q/tasks?limit=1000";

#[tokio::test(start_paused = true)]
async fn unread_pages_make_other_pages_smaller_and_refuse_none() {
    let http = server(48 * MIB).await;
    assert_eq!(page(&http, LIST).await, (15, false));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(unread(&http, "GET", LIST, "").await);
    }
    assert!(held.iter().all(|answer| answer.status() == StatusCode::OK));
    let (tasks, more) = page(&http, LIST).await;
    assert!((1..8).contains(&tasks) && more, "{tasks} tasks");
    drop(held);
    assert_eq!(page(&http, LIST).await, (15, false));
}

/// Every kind of answer that may be large, each of 1 MiB here.
const LARGE: [(&str, &str, &str); 7] = [
    ("GET", "/api/v2/queues/q/tasks/t_000000000000", ""),
    ("PATCH", "/api/v2/queues/q/tasks/t_000000000001", r#"{"priority":1}"#),
    ("POST", "/api/v2/queues/q/tasks/t_000000000002/cancel", ""),
    ("POST", "/api/v2/queues/q/tasks/t_000000000003/requeue", ""),
    ("POST", "/api/v2/queues/q/tasks/claim", r#"{"route":"default","run_id":"r_abcdefghijkl"}"#),
    ("GET", "/api/v2/queues/q/tasks?limit=1", ""),
    ("GET", "/api/v2/queues/q/tasks", ""),
];

#[tokio::test(start_paused = true)]
async fn every_large_answer_holds_its_room_until_it_is_read() {
    for (method, path, body) in LARGE {
        let http = server(7 * MIB).await;
        // Room for two tasks is needed for each; so many fit, and then one has to wait.
        let mut held = held_until_refused(&http, method, path, body).await;
        assert!(held.len() <= 7, "{method} {path}: {} unread answers", held.len());
        held.clear();
        expect(&http, StatusCode::OK, method, path, body).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_finds_no_room_for_its_answer_is_not_done() {
    let http = server(5 * MIB).await;
    let mut held = held_until_refused(&http, "GET", "/api/v2/queues/q/tasks/t_000000000000", "").await;
    let writes = [
        ("PUT", "/api/v2/queues/q/tasks/t_new000000000", "{}"),
        ("PATCH", "/api/v2/queues/q/tasks/t_000000000001", r#"{"priority":7}"#),
        ("POST", "/api/v2/queues/q/tasks/t_000000000002/cancel", ""),
        ("POST", "/api/v2/queues/q/tasks/claim", r#"{"route":"default","run_id":"r_abcdefghijkl"}"#),
    ];
    for (method, path, body) in writes {
        let refused = call(&http, method, path, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (503, "database_busy"), "{method} {path}");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    held.clear();
    for n in 0..15 {
        let path = format!("/api/v2/queues/q/tasks/t_{n:012}");
        let task = expect(&http, StatusCode::OK, "GET", &path, "").await.json();
        assert_eq!((&task["status"], &task["priority"]), (&json!("pending"), &json!(0)), "{path}");
    }
    let new = call(&http, "GET", "/api/v2/queues/q/tasks/t_new000000000", "").await;
    assert_eq!(new.code(), "task_not_found");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_read_or_small_hold_nothing() {
    let http = server(17 * MIB).await;
    for _ in 0..5 {
        expect(&http, StatusCode::OK, "GET", LIST, "").await;
    }
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/small", "").await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(unread(&http, "GET", "/api/v2/queues/small/tasks?limit=1000", "").await);
        assert_eq!(held.last().unwrap().status(), StatusCode::OK);
    }
}

/// A server with the memory for answers, and a running task of which 256 KiB of output are kept. As JSON they take 1 MiB.
async fn printing_server(answers_bytes: usize) -> (HttpService, Arc<ModelStore>) {
    let (http, store) = with_queue(answers_bytes).await;
    expect(&http, StatusCode::CREATED, "PUT", &format!("/api/v2/queues/q/tasks/{TASK}"), "{}").await;
    let claim = json!({"route": "default", "run_id": RUN}).to_string();
    expect(&http, StatusCode::OK, "POST", "/api/v2/queues/q/tasks/claim", &claim).await;
    for part in 0..4 {
        print(&http, part * 65_536, &"\u{1}".repeat(65_536)).await;
    }
    (http, store)
}

async fn print(http: &HttpService, offset: usize, text: &str) {
    let body = json!({"run_id": RUN, "offset": offset, "text": text}).to_string();
    expect(http, StatusCode::NO_CONTENT, "POST", &format!("/api/v2/queues/q/tasks/{TASK}/output"), &body).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_output_holds_its_room_until_it_is_sent() {
    let (http, _) = printing_server(10 * MIB).await;
    let path = format!("/api/v2/queues/q/tasks/{TASK}/output");
    let mut held = held_until_refused(&http, "GET", &path, "").await;
    assert!((7..10).contains(&held.len()), "{} answers of 1 MiB were held in 10 MiB", held.len());
    assert_eq!(call(&http, "GET", &path, "").await.code(), "database_busy");
    held.clear();
    let answer = expect(&http, StatusCode::OK, "GET", &path, "").await;
    assert!(answer.body.len() > MIB - 1024 && answer.body.len() < MIB + 200, "{}", answer.body.len());
}

#[tokio::test(start_paused = true)]
async fn reads_that_wait_hold_no_room() {
    const READERS: usize = 100;
    let (http, store) = printing_server(3 * MIB).await;
    let path = format!("/api/v2/queues/q/tasks/{TASK}/output?offset=262144");
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (http, request) = (http.clone(), Request::builder().uri(&path).header("host", "localhost"));
            let request = request.header("prefer", "wait=60").body(Body::empty()).unwrap();
            tokio::spawn(async move { send(&http, request).await })
        })
        .collect();
    while store.waiters().watched_outputs().len() < READERS {
        tokio::task::yield_now().await;
    }
    expect(&http, StatusCode::OK, "GET", &path.replace("262144", "0"), "").await;
    print(&http, 262_144, "more").await;
    for reader in readers {
        assert_eq!(reader.await.unwrap().json()["text"], "more");
    }
}

/// A page of 100 observations of 16 KiB each.
#[tokio::test(start_paused = true)]
async fn a_page_of_workers_holds_its_room_until_it_is_sent() {
    let http = server(20 * MIB).await;
    let report =
        format!(r#"{{"route":"default","status":"idle","task_id":null,"metadata":{{"a":"{}"}}}}"#, "x".repeat(16_000));
    for n in 0..100 {
        expect(&http, StatusCode::NO_CONTENT, "PUT", &format!("/api/v2/queues/q/workers/w_{n:012}"), &report).await;
    }
    let mut held = held_until_refused(&http, "GET", "/api/v2/queues/q/workers?limit=100", "").await;
    // 1.6 MB each, as long as there is room for that; then shorter ones, until there is none.
    assert!((12..25).contains(&held.len()), "{} pages of 1.6 MB were held in 20 MiB", held.len());
    assert_eq!(call(&http, "GET", "/api/v2/queues/q/workers?limit=100", "").await.status, 503);
    held.clear();
    assert_eq!(page(&http, "/api/v2/queues/q/workers?limit=100").await, (100, false));
}

/// Which outcome each item of a batch of claims has, with its error code if it is refused.
fn outcomes(answered: &Answered) -> Vec<String> {
    let text = |item: &serde_json::Value| match item["outcome"].as_str().unwrap() {
        "refused" => item["error"]["code"].as_str().unwrap().to_owned(),
        outcome => outcome.to_owned(),
    };
    answered.json()["items"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_batch_of_claims_says_of_no_run_with_a_task_that_it_has_none() {
    const CLAIM: &str = "/api/v2/queues/q/tasks/batch/claim";
    let http = server(24 * MIB).await;
    let body = |runs: std::ops::Range<usize>| {
        let run_ids: Vec<String> = runs.map(|run| format!("r_{run:012}")).collect();
        json!({"route": "default", "run_ids": run_ids}).to_string()
    };
    let first = outcomes(&expect(&http, StatusCode::OK, "POST", CLAIM, &body(0..8)).await);
    assert_eq!(first, ["claimed"; 8]);
    let held = [unread(&http, "POST", CLAIM, &body(0..8)).await, unread(&http, "POST", CLAIM, &body(0..8)).await];
    let repeated = outcomes(&expect(&http, StatusCode::OK, "POST", CLAIM, &body(0..9)).await);
    let claimed = repeated.iter().take_while(|outcome| *outcome == "claimed").count();
    assert!((1..8).contains(&claimed), "{repeated:?}");
    assert!(repeated[claimed..8].iter().all(|outcome| outcome == "database_busy"), "{repeated:?}");
    assert_eq!(repeated[8], "none", "a new run gets nothing while there is no room");
    drop(held);
    assert_eq!(outcomes(&expect(&http, StatusCode::OK, "POST", CLAIM, &body(0..8)).await), first);
}

/// A client that is told to come later must not be able to leave its body in the memory of the writer for nothing.
#[tokio::test(start_paused = true)]
async fn the_body_of_a_withdrawn_command_holds_its_room_until_the_writer_drops_the_command() {
    let text = "x".repeat(200 * 1024);
    let batch = format!("{{\"tasks\":[{{\"id\":\"{TASK}\",\"args\":{{\"a\":\"{text}\"}}}}]}}");
    let single = format!("{{\"args\":{{\"a\":\"{text}\"}}}}");
    let one = format!("/api/v2/queues/q/tasks/{TASK}");
    for (method, path, body) in [("POST", "/api/v2/queues/q/tasks/batch/create", &batch), ("PUT", &one, &single)] {
        let store = Arc::new(FailingStore::stuck());
        let plan = MemoryPlan { requests_bytes: 640 * 1024, ..MemoryPlan::within(1 << 30) };
        let http = limited(store.clone(), &plan);
        let kept = || store.kept.as_ref().unwrap().lock().unwrap();
        for (commands, case) in [(1, "it waits and is withdrawn"), (1, "no room"), (1, "no room")] {
            assert_eq!(call(&http, method, path, body).await.code(), "database_busy");
            assert_eq!(kept().len(), commands, "{path}: {case}");
        }
        kept().clear();
        assert_eq!(call(&http, method, path, body).await.code(), "database_busy");
        assert_eq!(kept().len(), 1, "{path}: there is room again");
    }
}
