//! The worker protocol.

use taskqueue_client::{ClaimRequest, Definition, ErrorCode, Failure, JsonObject, LastRun, RunKey, RunReport, Status};

use super::support::Server;
use super::{client, object, queue, route, run_id, task_id};

const UNCLAIM: RunReport = RunReport::Unclaim { delay: None };

#[tokio::test]
async fn a_claim_can_be_repeated_renewed_and_completed() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    let request = ClaimRequest::new(route("default"), run_id(1));
    assert_eq!(client.claim(&q, &request).await.unwrap().value, None);

    client.create_task(&q, task_id(1), &Definition::default()).await.unwrap();
    let claim =
        client.claim(&q, &ClaimRequest { wait_seconds: Some(1), ..request.clone() }).await.unwrap().value.unwrap();
    assert_eq!((claim.task.id, claim.task.status, claim.task.attempt), (task_id(1), Status::Running, 1));
    assert_eq!(claim.run_id, run_id(1));
    assert_eq!(Some(claim.lease_expires_at), claim.task.started_at.map(|start| start.plus_seconds(300)));
    assert_eq!(client.claim(&q, &request).await.unwrap().value, Some(claim.clone()), "the same claim again");

    let lease = client.heartbeat(&RunKey::new(&q, task_id(1), run_id(1)), None).await.unwrap().value.lease_expires_at;
    assert!(lease >= claim.lease_expires_at);
    let result = object(r#"{"loss":0.5,"steps":9007199254740993}"#);
    let complete = RunReport::Complete { result: result.clone() };
    for _ in 0..2 {
        client.report_run(&RunKey::new(&q, task_id(1), run_id(1)), &complete).await.unwrap();
    }
    let task = client.task(&q, task_id(1)).await.unwrap();
    assert_eq!((task.status, task.result), (Status::Succeeded, result));
    let late = client.report_run(&RunKey::new(&q, task_id(1), run_id(1)), &UNCLAIM).await.unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::RunFinalized));
    let stale = client.heartbeat(&RunKey::new(&q, task_id(1), run_id(2)), None).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::StaleRun));
}

#[tokio::test]
async fn a_held_heartbeat_gives_its_lease_in_time_and_hears_of_a_cancel() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    client.create_task(&q, task_id(1), &Definition::default()).await.unwrap();
    let claim = client.claim(&q, &ClaimRequest::new(route("default"), run_id(1))).await.unwrap().value.unwrap();
    let answer = client.heartbeat(&RunKey::new(&q, task_id(1), run_id(1)), Some(1)).await.unwrap();
    assert_eq!(answer.wait_applied, Some(1));
    assert!(answer.value.lease_expires_at >= claim.lease_expires_at);
    let cancel = async {
        tokio::task::yield_now().await;
        client.cancel_task(&q, task_id(1)).await.unwrap();
    };
    let run = RunKey::new(&q, task_id(1), run_id(1));
    let (held, ()) = tokio::join!(client.heartbeat(&run, Some(60)), cancel);
    assert_eq!(held.unwrap_err().code(), Some(ErrorCode::RunFinalized));
}

#[tokio::test]
async fn a_claim_may_say_who_claims_and_the_task_shows_it() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    client.create_task(&q, task_id(1), &Definition::default()).await.unwrap();
    let worker = object(r#"{"host":"gpu-3","slot":0}"#);
    let (of_worker, silent) = (Some(worker.clone()), ClaimRequest::new(route("default"), run_id(2)));
    let request = ClaimRequest { run_id: run_id(1), worker: of_worker, wait_seconds: Some(1), ..silent.clone() };
    let claim = client.claim(&q, &request).await.unwrap().value.unwrap();
    let shown = LastRun { attempt: 1, worker, run_id: None };
    assert_eq!(claim.task.last_run, Some(shown.clone()));
    client.report_run(&RunKey::new(&q, task_id(1), run_id(1)), &UNCLAIM).await.unwrap();
    let ended = LastRun { run_id: Some(run_id(1)), ..shown };
    assert_eq!(client.task(&q, task_id(1)).await.unwrap().last_run, Some(ended));
    let worker = Some(object(&format!("{{\"a\":\"{}\"}}", "x".repeat(4096))));
    let large = ClaimRequest { worker, ..silent.clone() };
    assert_eq!(client.claim(&q, &large).await.unwrap_err().code(), Some(ErrorCode::InvalidRequest));
    assert_eq!(client.claim(&q, &silent).await.unwrap().value.unwrap().task.last_run, None);
}

#[tokio::test]
async fn a_failure_is_charged_and_shown_and_an_unclaim_is_not() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    client.create_task(&q, task_id(1), &Definition::default()).await.unwrap();
    for run in [1, 2] {
        client.claim(&q, &ClaimRequest::new(route("default"), run_id(run))).await.unwrap().value.unwrap();
        if run == 1 {
            client.report_run(&RunKey::new(&q, task_id(1), run_id(1)), &UNCLAIM).await.unwrap();
        }
    }
    let failure = Failure { kind: "ValueError".into(), message: "é\n".into(), traceback: Some("line".into()) };
    let fail = RunReport::Fail { failure: failure.clone(), retry: true, retry_after: None };
    client.report_run(&RunKey::new(&q, task_id(1), run_id(2)), &fail).await.unwrap();
    let task = client.task(&q, task_id(1)).await.unwrap();
    let error = task.last_error.unwrap();
    assert_eq!((task.status, task.attempt, task.last_route), (Status::Pending, 1, Some(route("default"))));
    assert_eq!((error.failure, error.attempt, error.run_id), (failure, 1, Some(run_id(2))));
    assert_eq!((Some(error.occurred_at), task.result), (task.finished_at, JsonObject::empty()));
}
