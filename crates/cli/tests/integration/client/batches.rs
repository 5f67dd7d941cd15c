//! Batches: many creations, claims and reports with one call.

use taskqueue_client::{
    BatchClaimRequest, CreateOutcome, Definition, ErrorCode, RunAction, RunId, RunItem, RunReport, Status, TaskId,
    TaskSelection, capabilities,
};

use super::support::Server;
use super::{client, named, object, queue, route, run_id, task_id};

fn report(number: usize, task_id: TaskId, action: RunAction) -> RunItem {
    RunItem { task_id, run_id: run_id(number), action }
}

#[tokio::test]
async fn more_tasks_than_a_request_may_have_are_created_once_however_often_they_are_sent() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    assert!(client.capabilities().await.unwrap().has(capabilities::BATCH));
    let mut tasks: Vec<(TaskId, Definition)> = (1..=2001).map(|n| (task_id(n), Definition::default())).collect();
    let first = client.create_tasks(&q, &tasks).await;
    assert_eq!((first.items, first.request_error), (vec![Ok(CreateOutcome::Created); 2001], None));
    // A bad one in the middle harms no other.
    tasks[1000].1 = named("another");
    tasks.push((task_id(2002), Definition::default()));
    let again = client.create_tasks(&q, &tasks).await;
    assert_eq!(again.items[1000].as_ref().unwrap_err().code(), Some(ErrorCode::TaskIdConflict));
    assert_eq!(again.items[2001], Ok(CreateOutcome::Created));
    assert_eq!(again.items.iter().filter(|item| **item == Ok(CreateOutcome::Existing)).count(), 2000);
    assert_eq!(client.count(&q, &TaskSelection::all()).await, Ok(2002));
}

#[tokio::test]
async fn runs_are_claimed_renewed_and_ended_together() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    let run_ids: Vec<RunId> = (1..=4).map(run_id).collect();
    let request = BatchClaimRequest::new(route("default"), run_ids);
    let none = client.claim_tasks(&q, &BatchClaimRequest { wait_seconds: Some(1), ..request.clone() }).await;
    assert_eq!((none.items, none.wait_applied), (vec![Ok(None); 4], Some(1)));

    client.create_tasks(&q, &[1, 2, 3].map(|n| (task_id(n), Definition::default()))).await;
    let request = BatchClaimRequest { worker: Some(object(r#"{"host":"gpu-3"}"#)), ..request };
    let claims = client.claim_tasks(&q, &request).await;
    let claimed: Vec<Option<TaskId>> =
        claims.items.iter().map(|item| item.as_ref().unwrap().as_ref().map(|claim| claim.task.id)).collect();
    assert_eq!(claimed, [Some(task_id(1)), Some(task_id(2)), Some(task_id(3)), None]);
    assert_eq!(client.claim_tasks(&q, &request).await.items, claims.items, "the same claims again");

    client.cancel_task(&q, task_id(2)).await.unwrap();
    let heartbeats: Vec<RunItem> =
        (1..=3).map(|n| report(n, task_id(n), RunAction::Heartbeat { progress: None })).collect();
    let renewed = client.report_runs(&q, &heartbeats).await.items;
    assert!(renewed[0].as_ref().unwrap().is_some() && renewed[2].as_ref().unwrap().is_some(), "{renewed:?}");
    assert_eq!(renewed[1].as_ref().unwrap_err().code(), Some(ErrorCode::RunFinalized));

    let progress = object(r#"{"step":1}"#);
    let progressing = [
        report(1, task_id(1), RunAction::Heartbeat { progress: Some(progress.clone()) }),
        report(3, task_id(3), RunAction::Progress { progress: progress.clone() }),
    ];
    let renewed = client.report_runs(&q, &progressing).await.items;
    assert!(matches!(&renewed[..], [Ok(Some(_)), Ok(None)]), "{renewed:?}");
    for n in [1, 3] {
        assert_eq!(client.task(&q, task_id(n)).await.unwrap().progress.as_ref(), Some(&progress), "{n}");
    }

    let result = object(r#"{"loss":0.5}"#);
    let ends = [
        report(1, task_id(1), RunAction::End(RunReport::Complete { result: result.clone() })),
        report(2, task_id(2), RunAction::End(RunReport::Complete { result: result.clone() })),
        report(3, task_id(3), RunAction::End(RunReport::Unclaim { delay: None })),
    ];
    for _ in 0..2 {
        let ended = client.report_runs(&q, &ends).await.items;
        assert_eq!((&ended[0], &ended[2]), (&Ok(None), &Ok(None)), "also when it is repeated");
        assert_eq!(ended[1].as_ref().unwrap_err().code(), Some(ErrorCode::RunFinalized));
    }
    let [one, three] = [client.task(&q, task_id(1)).await.unwrap(), client.task(&q, task_id(3)).await.unwrap()];
    assert_eq!((one.status, one.result, three.status, three.attempt), (Status::Succeeded, result, Status::Pending, 0));
}
