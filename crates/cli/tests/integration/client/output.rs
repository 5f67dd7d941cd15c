//! What runs print, how far they are, and what workers measure.

use taskqueue_client::{
    ClaimRequest, Definition, ErrorCode, JsonObject, Report, RunKey, RunReport, WorkerId, WorkerQuery, WorkerSelection,
    WorkerStatus,
};

use super::support::{self, Server};
use super::{client, object, queue, route, run_id, task_id};

#[tokio::test]
async fn output_is_sent_read_and_waited_for() {
    let server = Server::with_queue();
    let (client, q, id) = (client(&server), queue("q"), task_id(1));
    client.create_task(&q, id, &Definition::default()).await.unwrap();
    client.claim(&q, &ClaimRequest::new(route("default"), run_id(1))).await.unwrap().value.unwrap();
    let none = client.output(&q, id, 0, Some(60)).await.unwrap_err();
    assert_eq!(none.code(), Some(ErrorCode::OutputNotFound));
    for _ in 0..2 {
        client.add_output(&RunKey::new(&q, id, run_id(1)), 0, "é\n".into()).await.unwrap();
    }
    let first = client.output(&q, id, 0, None).await.unwrap();
    assert_eq!((first.value.start, first.value.end, &*first.value.text), (0, 3, "é\n"));
    assert_eq!((first.value.attempt, first.value.ended, first.wait_applied), (1, false, None));
    let idle = client.output(&q, id, 3, Some(1)).await.unwrap();
    assert_eq!((idle.value.start, &*idle.value.text, idle.wait_applied), (3, "", Some(1)));
    let print = async {
        tokio::task::yield_now().await;
        client.add_output(&RunKey::new(&q, id, run_id(1)), 3, "more".into()).await.unwrap();
    };
    let (next, ()) = tokio::join!(client.output(&q, id, 3, Some(60)), print);
    assert_eq!(&*next.unwrap().value.text, "more");
    client
        .report_run(&RunKey::new(&q, id, run_id(1)), &RunReport::Complete { result: JsonObject::empty() })
        .await
        .unwrap();
    assert!(client.output(&q, id, 7, Some(60)).await.unwrap().value.ended);
    let stale = client.add_output(&RunKey::new(&q, id, run_id(2)), 0, "x".into()).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::StaleRun));
}

#[tokio::test]
async fn progress_and_telemetry_are_shown() {
    let server = Server::with_queue();
    let (client, q, id) = (client(&server), queue("q"), task_id(1));
    client.create_task(&q, id, &Definition::default()).await.unwrap();
    client.claim(&q, &ClaimRequest::new(route("default"), run_id(1))).await.unwrap().value.unwrap();
    assert_eq!(client.task(&q, id).await.unwrap().progress, None);
    client.report_progress(&RunKey::new(&q, id, run_id(1)), &object(r#"{"step":1}"#)).await.unwrap();
    let task = client.task(&q, id).await.unwrap();
    assert_eq!((task.progress, task.progress_attempt), (Some(object(r#"{"step":1}"#)), Some(1)));
    assert!(task.progress_updated_at >= task.started_at);

    let worker = WorkerId::parse(&support::worker_id(1)).unwrap();
    let measured = object(r#"{"cpu":0.5}"#);
    let unknown = client.report_telemetry(&q, worker, &measured).await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::WorkerNotFound));
    let (route, status, metadata) = (route("gpu"), WorkerStatus::Idle, JsonObject::empty());
    client.report_worker(&q, worker, &Report { route, status, task_id: None, metadata }).await.unwrap();
    client.report_telemetry(&q, worker, &measured).await.unwrap();
    let page = client.page(&q, &WorkerQuery::of(WorkerSelection::all())).await.unwrap();
    assert_eq!(page.items[0].telemetry.as_ref().map(|telemetry| &telemetry.value), Some(&measured));
}
