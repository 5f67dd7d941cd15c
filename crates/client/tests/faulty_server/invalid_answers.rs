//! Invalid answers are protocol errors, never results.

use taskqueue_client::{
    ClaimRequest, Error, GroupQuery, TaskDimension, TaskQuery, TaskSelection, WorkerDimension, WorkerSelection,
};

use crate::server::{FaultyServer, TASK, answer, ok, queue, route, run_id, task_id};

#[track_caller]
fn assert_protocol<T: std::fmt::Debug>(result: Result<T, Error>, part: &str) {
    let error = match result.unwrap_err() {
        Error::OutcomeUnknown { cause, .. } => *cause,
        error => error,
    };
    let Error::Protocol { message, .. } = &error else { panic!("{error:?}") };
    assert!(message.contains(part), "{message:?} without {part:?}");
}

#[tokio::test]
async fn an_answer_that_is_no_task_is_not_believed_and_not_asked_for_again() {
    const MIB: usize = 1_048_576;
    let bodies = [
        ("[]", "not an object"),
        ("{", "not JSON"),
        ("", "not JSON"),
        ("{}", "has no `id`"),
        (&TASK.replace(r#""priority":0"#, r#""priority":"0""#), "`priority`"),
        (&TASK.replace(r#""priority":0"#, r#""priority":0.0"#), "`priority`"),
        (&TASK.replace(r#""routes":["default"]"#, r#""routes":[]"#), "`routes`"),
        (&TASK.replace(r#""args":{}"#, r#""args":null"#), "`args`"),
        (&TASK.replace(r#""finished_at":null"#, r#""finished_at":"yesterday""#), "`finished_at`"),
    ];
    let others = [
        (answer(200, "", vec![b' '; 33 * MIB]), "exceeds"),
        (answer(204, "", ""), "status 204"),
        (answer(404, "Content-Type: text/html\r\n", "<h1>Not Found</h1>"), "status 404 with a web page"),
    ];
    for (reply, part) in bodies.map(|(body, part)| (ok(body), part)).into_iter().chain(others) {
        let server = FaultyServer::start([reply]).await;
        assert_protocol(server.client().task(&queue(), task_id()).await, part);
        assert_eq!(server.requests().len(), 1, "nonsense is not asked for again");
    }
    let server = FaultyServer::start([answer(200, "", [&vec![b' '; 31 * MIB], TASK.as_bytes()].concat())]).await;
    assert!(server.client().task(&queue(), task_id()).await.is_ok(), "a large body is fine");
}

#[tokio::test]
async fn a_plain_count_is_no_answer_to_a_grouped_one() {
    let server = FaultyServer::start([ok(r#"{"count":5}"#)]).await;
    let client = server.client();
    let tasks = GroupQuery::by([TaskDimension::Status], TaskSelection::all());
    assert_protocol(client.page(&queue(), &tasks).await, "plain count");
    let workers = GroupQuery::by([WorkerDimension::Route], WorkerSelection::all());
    assert_protocol(client.page(&queue(), &workers).await, "plain count");
    assert_eq!(client.count(&queue(), &TaskSelection::all()).await, Ok(5));
}

#[tokio::test]
async fn groups_by_other_dimensions_are_refused() {
    let page = r#"{"group_by":["routes"],"count":1,"items":[{"key":{"routes":"a"},"count":1}],"next_cursor":null}"#;
    let server = FaultyServer::start([ok(page)]).await;
    let query = GroupQuery::by([TaskDimension::Status], TaskSelection::all());
    assert_protocol(server.client().page(&queue(), &query).await, "grouped by something else");
}

#[tokio::test]
async fn an_invalid_answer_says_whether_a_server_of_this_api_gave_it() {
    let version = "Taskqueue-Server-Version: 1.0.0\r\n";
    for (headers, expected) in [("", false), (version, true)] {
        for body in [b"{}".to_vec(), vec![b' '; 33 * 1_048_576]] {
            let server = FaultyServer::start([answer(200, headers, body)]).await;
            let error = server.client().task(&queue(), task_id()).await.unwrap_err();
            let Error::Protocol { from_taskqueue, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*from_taskqueue, expected, "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_about_another_run_is_refused() {
    let claim = |run: &str| {
        ok(&format!(r#"{{"task":{TASK},"run_id":"{run}","lease_expires_at":"2026-01-01T00:05:00.000000Z"}}"#))
    };
    let request = ClaimRequest::new(route(), run_id());
    let server = FaultyServer::start([claim("r_otherotherxx")]).await;
    assert_protocol(server.client().claim(&queue(), &request).await, "another run");
    let server = FaultyServer::start([claim("r_000000000001")]).await;
    assert!(server.client().claim(&queue(), &request).await.unwrap().value.is_some());
}

#[tokio::test]
async fn a_walk_that_would_never_end_is_ended() {
    let server = FaultyServer::start([ok(r#"{"items":[],"next_cursor":"same"}"#)]).await;
    let mut walk = server.client().walk(&queue(), TaskQuery::of(TaskSelection::all()));
    assert_protocol(walk.next().await, "cursor");
    assert_eq!(server.requests().len(), 2);
}
