//! Worker observations.

use taskqueue_client::{
    ErrorCode, GroupQuery, JsonObject, Report, WorkerDimension, WorkerId, WorkerQuery, WorkerSelection, WorkerStatus,
};

use super::support::{self, Server};
use super::{client, object, queue, route, task_id};

#[tokio::test]
async fn workers_report_are_listed_counted_and_withdrawn() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    let worker = |n| WorkerId::parse(&support::worker_id(n)).unwrap();
    let report = |status, task_id, metadata| Report { route: route("gpu"), status, task_id, metadata };
    let idle = report(WorkerStatus::Idle, None, JsonObject::empty());
    let busy = report(WorkerStatus::Busy, Some(task_id(1)), object(r#"{"host":"h"}"#));
    for (n, report) in [(1, &idle), (2, &busy), (3, &idle)] {
        client.report_worker(&q, worker(n), report).await.unwrap();
    }

    let mut walk = client.walk(&q, WorkerQuery::of(WorkerSelection::all()).limit(2));
    let mut seen = Vec::new();
    while let Some(observation) = walk.next().await.unwrap() {
        assert_eq!(observation.expires_at, observation.last_seen_at.plus_seconds(300));
        seen.push((observation.id, observation.report));
    }
    assert_eq!(seen, [(worker(1), idle.clone()), (worker(2), busy), (worker(3), idle.clone())]);

    let idle_only = WorkerSelection::all().filter("status == 'idle'");
    assert_eq!(client.count(&q, &idle_only).await, Ok(2));
    let by_status = GroupQuery::by([WorkerDimension::Route, WorkerDimension::Status], WorkerSelection::all());
    let groups = client.page(&q, &by_status).await.unwrap();
    assert_eq!(groups.items.iter().map(|group| group.key.join(" ")).collect::<Vec<_>>(), ["gpu busy", "gpu idle"]);
    let mut walk = client.walk(&q, by_status.limit(1));
    assert_eq!(walk.next().await.unwrap().unwrap().count, 1);

    let moved = client.report_worker(&q, worker(1), &Report { route: route("cpu"), ..idle }).await.unwrap_err();
    assert_eq!(moved.code(), Some(ErrorCode::WorkerRouteConflict));
    client.withdraw_worker(&q, worker(1)).await.unwrap();
    client.withdraw_worker(&q, worker(1)).await.unwrap();
    assert_eq!(client.page(&q, &WorkerQuery::of(WorkerSelection::all())).await.unwrap().items.len(), 2);
}
