//! Batches: outcomes keep the order of the call whatever is split, repeated or refused, and an answer that is not about the items of its
//! request is not believed.

use taskqueue_client::{
    BatchAnswer, BatchClaimRequest, CreateOutcome, Definition, Error, ErrorCode, JsonObject, RunAction, RunId, RunItem,
    RunReport, TaskId,
};

use crate::server::{FaultyServer, Reply, TASK, answer, close_connection, cut, ok, queue, refusal, route};

fn task_id(number: usize) -> TaskId {
    TaskId::parse(&format!("t_{number:012}")).unwrap()
}

fn run_id(number: usize) -> RunId {
    RunId::parse(&format!("r_{number:012}")).unwrap()
}

/// The tasks with these numbers.
fn tasks(numbers: impl IntoIterator<Item = usize>) -> Vec<(TaskId, Definition)> {
    numbers.into_iter().map(|number| (task_id(number), Definition::default())).collect()
}

fn items(items: impl IntoIterator<Item = String>) -> String {
    format!(r#"{{"items":[{}]}}"#, items.into_iter().collect::<Vec<_>>().join(","))
}

fn created(number: usize) -> String {
    format!(r#"{{"id":"{}","outcome":"created"}}"#, task_id(number))
}

fn existing(number: usize) -> String {
    created(number).replace("created", "existing")
}

fn conflict(number: usize) -> String {
    let error = r#"{"code":"task_id_conflict","message":"no","details":{"a":1}}"#;
    format!(r#"{{"id":"{}","outcome":"refused","error":{error}}}"#, task_id(number))
}

fn claimed(run: usize, task: usize) -> String {
    let task = TASK.replace("t_000000000001", task_id(task).as_str());
    let lease = "2026-01-01T00:05:00.000000Z";
    format!(r#"{{"run_id":"{}","outcome":"claimed","task":{task},"lease_expires_at":"{lease}"}}"#, run_id(run))
}

fn none(run: usize) -> String {
    format!(r#"{{"run_id":"{}","outcome":"none"}}"#, run_id(run))
}

fn done(number: usize) -> String {
    format!(r#"{{"task_id":"{}","run_id":"{}","outcome":"done"}}"#, task_id(number), run_id(number))
}

fn renewed(number: usize) -> String {
    done(number).replace("\"done\"", r#""done","lease_expires_at":"2026-01-01T00:05:00Z""#)
}

fn report(number: usize, action: RunAction) -> RunItem {
    RunItem { task_id: task_id(number), run_id: run_id(number), action }
}

fn heartbeats(count: usize) -> Vec<RunItem> {
    (1..=count).map(|number| report(number, RunAction::Heartbeat { progress: None })).collect()
}

fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// Every item has the error of its request.
fn assert_not_believed<T: std::fmt::Debug>(answer: &BatchAnswer<T>, what: &str) {
    assert!(answer.request_error.is_some() && !answer.items.is_empty(), "{what}: {answer:?}");
    for item in &answer.items {
        let error = item.as_ref().unwrap_err();
        let cause = if let Error::OutcomeUnknown { cause, .. } = error { cause } else { error };
        assert!(matches!(cause, Error::Protocol { status: 200, .. }), "{what}: {error:?}");
    }
}

#[tokio::test]
async fn each_task_has_its_own_outcome_and_a_refused_one_the_error_of_a_single_creation() {
    let server = FaultyServer::start([ok(&items([created(1), conflict(2), existing(3)]))]).await;
    let answer = server.client().create_tasks(&queue(), &tasks([1, 2, 3])).await;
    let expected = (Ok(CreateOutcome::Created), Ok(CreateOutcome::Existing));
    assert_eq!((answer.items[0].clone(), answer.items[2].clone()), expected);
    let refused = answer.items[1].as_ref().unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TaskIdConflict));
    let Error::Api { status: 409, details, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(details.as_str(), r#"{"a":1}"#);
    assert_eq!(answer.request_error, None);
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /api/v2/queues/q/tasks/batch/create HTTP/1.1\r\n"), "{request}");
    assert!(body(request).starts_with(r#"{"tasks":[{"id":"t_000000000001","#), "{request}");
}

#[tokio::test]
async fn more_than_a_thousand_are_split_and_a_part_that_fails_harms_no_other() {
    let part = |numbers: std::ops::RangeInclusive<usize>| ok(&items(numbers.map(created)));
    let replies = [part(1..=1000), refusal(422, "invalid_request", ""), part(2001..=2001)];
    let server = FaultyServer::start(replies).await;
    let answer = server.client().create_tasks(&queue(), &tasks(1..=2001)).await;
    assert_eq!((server.requests().len(), answer.items.len()), (3, 2001));
    assert!(answer.items[..1000].iter().chain(&answer.items[2000..]).all(|item| *item == Ok(CreateOutcome::Created)));
    assert!(answer.items[1000..2000].iter().all(|item| item.as_ref().err() == answer.request_error.as_ref()));
    assert_eq!(answer.request_error.unwrap().code(), Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn after_a_lost_request_the_rest_is_not_sent_and_known_to_be_not_done() {
    let server = FaultyServer::start([ok(&items((1..=1000).map(created))), close_connection()]).await;
    let answer = server.client().create_tasks(&queue(), &tasks(1..=3001)).await;
    assert_eq!((server.requests().len(), answer.items.len()), (1 + 3, 3001), "three tries of the second part");
    assert!(answer.items[..1000].iter().all(|item| *item == Ok(CreateOutcome::Created)));
    let arrived = |item: &Result<_, Error>| matches!(item, Err(Error::Transport { may_have_arrived: true, .. }));
    let unsent = |item: &Result<_, Error>| matches!(item, Err(Error::Transport { may_have_arrived: false, .. }));
    assert!(answer.items[1000..2000].iter().all(arrived) && answer.items[2000..].iter().all(unsent));
    assert_eq!(answer.request_error.as_ref(), answer.items[1000].as_ref().err());

    let server = FaultyServer::start([close_connection()]).await;
    let request = BatchClaimRequest::new(route(), (1..=2001).map(run_id).collect());
    let claims = server.client().claim_tasks(&queue(), &request).await.items;
    let reports = server.client().report_runs(&queue(), &heartbeats(2001)).await.items;
    assert_eq!((server.requests().len(), claims.len(), reports.len()), (2, 2001, 2001));
    assert!(claims[999].as_ref().unwrap_err().is_outcome_unknown());
    assert!(matches!(&claims[1000], Err(Error::Transport { .. })));
    assert!(reports[999].as_ref().unwrap_err().is_outcome_unknown());
    assert!(matches!(&reports[1000], Err(Error::Transport { .. })));
}

#[tokio::test]
async fn what_is_larger_than_a_request_has_its_outcome_at_its_place_and_is_not_sent() {
    let large = JsonObject::from_canonical(&format!("{{\"a\":\"{}\"}}", "x".repeat(16 * 1024 * 1024)));
    let mut tasks = tasks([1, 2, 3]);
    tasks[1].1.args = large;
    let server = FaultyServer::start([ok(&items([created(1)])), ok(&items([created(3)]))]).await;
    let answer = server.client().create_tasks(&queue(), &tasks).await;
    let expected = (Ok(CreateOutcome::Created), Ok(CreateOutcome::Created));
    assert_eq!((answer.items[0].clone(), answer.items[2].clone()), expected);
    assert_eq!(answer.items[1].as_ref().unwrap_err().code(), Some(ErrorCode::RequestTooLarge));
    assert_eq!((server.requests().len(), answer.request_error), (2, None));
}

#[tokio::test]
async fn bodies_stay_within_sixteen_mebibytes() {
    let args = JsonObject::from_canonical(&format!("{{\"a\":\"{}\"}}", "x".repeat(1_000_000)));
    let mut tasks = tasks(1..=20);
    tasks.iter_mut().for_each(|(_, definition)| definition.args = args.clone());
    let server = FaultyServer::start([ok(&items((1..=16).map(created))), ok(&items((17..=20).map(created)))]).await;
    let answer = server.client().create_tasks(&queue(), &tasks).await;
    assert!(answer.items.iter().all(|item| *item == Ok(CreateOutcome::Created)), "{:?}", answer.request_error);
    assert!(server.requests().iter().all(|request| body(request).len() <= 16 * 1024 * 1024));
}

#[tokio::test]
async fn a_lost_answer_to_creations_is_asked_for_again_byte_for_byte() {
    for lost in [cut(200, &items([created(1), created(2)])), close_connection(), refusal(503, "database_busy", "")] {
        let server = FaultyServer::start([lost, ok(&items([existing(1), created(2)]))]).await;
        let answer = server.client().create_tasks(&queue(), &tasks([1, 2])).await;
        assert_eq!(answer.items, [Ok(CreateOutcome::Existing), Ok(CreateOutcome::Created)]);
        let requests = server.requests();
        assert_eq!((requests.len(), &requests[0]), (2, &requests[1]));
    }
}

#[tokio::test]
async fn an_answer_about_other_items_than_those_of_the_request_is_not_believed() {
    let foreign = created(3).replace("created", "existing");
    let lies = [
        ("missing", items([created(1)])),
        ("none at all", items([])),
        ("too many", items([created(1), created(2), created(3)])),
        ("swapped", items([created(2), created(1)])),
        ("twice", items([created(1), created(1)])),
        ("foreign", items([created(1), foreign])),
        ("no outcome", items([created(1), created(2).replace("outcome", "result")])),
        ("an unknown outcome", items([created(1), created(2).replace("\"created", "\"perhaps")])),
        ("refused without a reason", items([created(1), created(2).replace("\"created", "\"refused")])),
        ("no object", items([created(1), "7".to_owned()])),
        ("no list", r#"{"items":{}}"#.to_owned()),
        ("nothing", "{}".to_owned()),
    ];
    for (what, lie) in lies {
        let server = FaultyServer::start([ok(&lie)]).await;
        assert_not_believed(&server.client().create_tasks(&queue(), &tasks([1, 2])).await, what);
        assert_eq!(server.requests().len(), 1, "{what}: it is not asked again");
    }
}

#[tokio::test]
async fn claims_give_tasks_in_the_order_of_the_runs_and_pass_on_the_wait() {
    let refused = none(3).replace(r#""none""#, r#""refused","error":{"code":"stale_run","message":"no","details":{}}"#);
    let body_of = items([claimed(1, 7), none(2), refused]);
    let server = FaultyServer::start([answer(200, "Preference-Applied: wait=20\r\n", &body_of)]).await;
    let request = BatchClaimRequest {
        worker: Some(JsonObject::from_canonical(r#"{"host":"gpu-3"}"#)),
        wait_seconds: Some(20),
        ..BatchClaimRequest::new(route(), vec![run_id(1), run_id(2), run_id(3)])
    };
    let answer = server.client().claim_tasks(&queue(), &request).await;
    let claim = answer.items[0].clone().unwrap().unwrap();
    assert_eq!((claim.task.id, claim.run_id), (task_id(7), run_id(1)));
    assert_eq!((answer.items[1].clone(), answer.wait_applied), (Ok(None), Some(20)));
    assert_eq!(answer.items[2].as_ref().unwrap_err().code(), Some(ErrorCode::StaleRun));
    let sent = &server.requests()[0];
    assert!(sent.contains("prefer: wait=20\r\n"), "{sent}");
    let ids = r#""run_ids":["r_000000000001","r_000000000002","r_000000000003"]"#;
    assert_eq!(body(sent), format!(r#"{{"route":"default",{ids},"worker":{{"host":"gpu-3"}}}}"#));
}

#[tokio::test]
async fn claims_that_are_not_those_of_the_request_are_not_believed() {
    let lies = [
        ("one task for two runs", items([claimed(1, 7), claimed(2, 7)])),
        ("swapped", items([claimed(2, 7), claimed(1, 8)])),
        ("missing", items([claimed(1, 7)])),
        ("without a task", items([none(1), none(2).replace("none", "claimed")])),
        ("foreign", items([claimed(1, 7), claimed(3, 8)])),
    ];
    for (what, lie) in lies {
        let server = FaultyServer::start([ok(&lie)]).await;
        let request = BatchClaimRequest::new(route(), vec![run_id(1), run_id(2)]);
        let answer = server.client().claim_tasks(&queue(), &request).await;
        assert_not_believed(&answer, what);
        assert!(answer.items[0].as_ref().unwrap_err().is_outcome_unknown(), "{what}: they may own tasks");
    }
}

#[tokio::test]
async fn claims_are_sent_once() {
    let server = FaultyServer::start([cut(200, &items([claimed(1, 7), none(2)]))]).await;
    let request = BatchClaimRequest::new(route(), vec![run_id(1), run_id(2)]);
    let answer = server.client().claim_tasks(&queue(), &request).await;
    assert!(answer.items.iter().all(|item| item.as_ref().unwrap_err().is_outcome_unknown()), "{answer:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn more_than_a_thousand_claims_are_split_and_do_not_wait() {
    let part = |numbers: std::ops::RangeInclusive<usize>| ok(&items(numbers.map(none)));
    let server = FaultyServer::start([part(1..=1000), part(1001..=1001)]).await;
    let request = BatchClaimRequest::new(route(), (1..=1001).map(run_id).collect());
    let request = BatchClaimRequest { wait_seconds: Some(20), ..request };
    let answer = server.client().claim_tasks(&queue(), &request).await;
    assert_eq!(answer.items, vec![Ok(None); 1001]);
    assert!(server.requests().iter().all(|request| !request.contains("prefer:")));
}

#[tokio::test]
async fn reports_are_sent_as_the_single_calls_have_them_and_once() {
    let over = done(3).replace("\"done\"", r#""refused","error":{"code":"run_finalized","message":"no","details":{}}"#);
    let server = FaultyServer::start([ok(&items([renewed(1), done(2), over])), close_connection()]).await;
    let result = JsonObject::from_canonical(r#"{"loss":0.5}"#);
    let reports = [
        report(1, RunAction::Heartbeat { progress: None }),
        report(2, RunAction::End(RunReport::Complete { result })),
        report(3, RunAction::End(RunReport::Unclaim { delay: None })),
    ];
    let answer = server.client().report_runs(&queue(), &reports).await;
    assert!(answer.items[0].as_ref().unwrap().is_some() && answer.items[1] == Ok(None), "{answer:?}");
    assert_eq!(answer.items[2].as_ref().unwrap_err().code(), Some(ErrorCode::RunFinalized));
    assert!(server.requests()[0].contains(r#""action":"complete","run_id":"r_000000000002","result":{"loss":0.5}"#));

    let lost = server.client().report_runs(&queue(), &reports).await;
    assert!(lost.items.iter().all(|item| item.as_ref().unwrap_err().is_outcome_unknown()), "{lost:?}");
    assert_eq!(server.requests().len(), 2, "it was not repeated");
}

#[tokio::test]
async fn reports_that_are_not_those_of_the_request_are_not_believed() {
    let other_run = renewed(2).replace("r_000000000002", "r_000000000003");
    let lies = [
        ("swapped", items([renewed(2), renewed(1)])),
        ("missing", items([renewed(1)])),
        ("twice", items([renewed(1), renewed(1)])),
        ("of another run", items([renewed(1), other_run])),
        ("a heartbeat without a lease", items([renewed(1), done(2)])),
    ];
    for (what, lie) in lies {
        let server = FaultyServer::start([ok(&lie)]).await;
        assert_not_believed(&server.client().report_runs(&queue(), &heartbeats(2)).await, what);
    }
}

#[tokio::test]
async fn an_answer_that_is_larger_than_its_items_can_need_is_not_read() {
    let huge = format!(r#"{{"items":[{}]}}"#, "0,".repeat(1024 * 1024));
    let server = FaultyServer::start([ok(&huge)]).await;
    let answer = server.client().report_runs(&queue(), &heartbeats(2)).await;
    assert_not_believed(&answer, "huge");
    assert!(answer.request_error.unwrap().to_string().contains("exceeds"));
}

#[tokio::test]
async fn a_batch_that_is_refused_as_a_whole_is_the_error_of_each_item() {
    for reply in [refusal(404, "not_found", ""), Reply::Bytes(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec())]
    {
        let server = FaultyServer::start([reply]).await;
        let answer = server.client().report_runs(&queue(), &heartbeats(2)).await;
        let error = answer.request_error.unwrap();
        assert!(matches!(error, Error::Api { status: 404, .. } | Error::Protocol { status: 404, .. }), "{error:?}");
        assert_eq!(answer.items, [Err(error.clone()), Err(error)]);
    }
}

#[tokio::test]
async fn no_items_are_no_request() {
    let server = FaultyServer::start([close_connection()]).await;
    assert!(server.client().create_tasks(&queue(), &tasks([])).await.items.is_empty());
    assert!(server.client().claim_tasks(&queue(), &BatchClaimRequest::new(route(), vec![])).await.items.is_empty());
    assert!(server.client().report_runs(&queue(), &[]).await.items.is_empty());
    assert!(server.requests().is_empty());
}
