//! Observations: what they say, and that nothing depends on them.

use taskqueue_client::JsonObject;
use taskqueue_worker::{Outcome, Settings, Stop};

use crate::scene::{Scene, settings};
use crate::server::{Reply, Request, Server, hang_up, refusal, task};

fn status(report: &Request) -> String {
    report.member("status")
}

#[tokio::test]
async fn a_slot_is_idle_busy_with_its_task_idle_and_then_gone() {
    let server = Server::start().await;
    server.script("claim", [crate::server::nothing(), task(1), crate::server::nothing()]);
    let mut scene = Scene::start(&server, settings());
    let run = scene.next_run().await;
    crate::scene::until(|| server.asked("PUT").last().is_some_and(|report| status(report) == "busy")).await;
    let busy = server.asked("PUT").pop().unwrap();
    assert_eq!(busy.member("task_id"), "t_000000000001");
    let so_far = server.asked("PUT").len();
    server.until("PUT", so_far + 2).await;
    run.succeed();
    crate::scene::until(|| server.asked("PUT").last().is_some_and(|report| status(report) == "idle")).await;
    assert!(server.asked("PUT").pop().unwrap().text.contains("\"task_id\":null"));
    scene.stop(Stop::Finish);
    scene.end().await;
    assert_eq!(server.asked("DELETE").len(), 1);
    let line = |request: &Request| request.text.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let path = line(&server.asked("DELETE")[0]);
    assert!(server.asked("PUT").iter().all(|report| line(report) == path), "one worker id per slot");
}

#[tokio::test]
async fn observations_that_fail_touch_neither_runs_nor_guard_nor_end() {
    for reply in [hang_up(), refusal(404, "queue_not_found"), refusal(409, "worker_route_conflict"), Reply::Silence] {
        let server = Server::start().await;
        server.script("claim", [task(1)]);
        server.script("PUT", [reply.clone()]);
        server.script("DELETE", [reply.clone()]);
        let settings = Settings { max_tasks: Some(3), max_consecutive_failures: Some(1), ..settings() };
        let started = std::time::Instant::now();
        let scene = Scene::always(&server, settings, Outcome::Complete(JsonObject::empty()));
        assert_eq!(scene.end().await.1.succeeded, 3, "{reply:?}");
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "held up by {reply:?}");
    }
}
