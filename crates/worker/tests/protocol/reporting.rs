//! Reports: until the server takes or refuses them, and beyond the life of a worker.

use taskqueue_client::JsonObject;
use taskqueue_worker::{End, Outcome, Settings, Stop};
use tempfile::tempdir;

use crate::scene::{Scene, failure, settings, spooling, until};
use crate::server::{Reply, Server, done, hang_up, refusal, task};

fn success() -> Outcome {
    Outcome::Complete(JsonObject::from_canonical("{\"loss\":0.5}"))
}

#[tokio::test]
async fn a_report_is_repeated_until_the_server_takes_it_and_the_lease_is_kept_meanwhile() {
    let server = Server::start().await;
    server.script("claim", [task(1)]);
    let garbage = Reply::Garbage("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let failing = [hang_up(), refusal(500, "internal_error"), garbage, refusal(401, "unauthorized"), Reply::Silence];
    server.script("complete", failing.into_iter().chain([done()]));
    let scene = Scene::always(&server, Settings { max_tasks: Some(1), ..settings() }, success());
    let (_, counts) = scene.end().await;
    assert_eq!(counts.succeeded, 1);
    let reports = server.asked("complete");
    assert_eq!(reports.len(), 6);
    assert!(reports.iter().all(|report| report.text.contains("{\"loss\":0.5}")), "{reports:?}");
    assert!(!server.asked("heartbeat").is_empty(), "no heartbeat while reporting");
}

#[tokio::test]
async fn a_result_that_the_server_refuses_becomes_a_failure_that_says_so() {
    for (status, code) in
        [(422, "task_data_too_large"), (413, "request_too_large"), (422, "json_too_deep"), (422, "invalid_request")]
    {
        let server = Server::start().await;
        server.script("claim", [task(1)]);
        server.script("complete", [refusal(status, code)]);
        let scene = Scene::always(&server, Settings { max_tasks: Some(1), ..settings() }, success());
        assert_eq!(scene.end().await.1.failed, 1, "{code}");
        let report = &server.asked("fail")[0];
        assert_eq!(report.member("type"), "ResultRefused");
        assert!(report.text.contains(code), "{}", report.text);
    }
}

#[tokio::test]
async fn a_report_that_comes_too_late_is_revoked_and_no_failure_of_this_worker() {
    let server = Server::start().await;
    server.script("claim", [task(1)]);
    server.script("fail", [refusal(409, "stale_run")]);
    let settings = Settings { max_tasks: Some(3), max_consecutive_failures: Some(1), ..settings() };
    let (end, counts) = Scene::always(&server, settings, failure()).end().await;
    assert_eq!((end, counts.revoked, counts.failed), (End::MaxTasks, 3, 0));
}

#[tokio::test]
async fn what_could_not_be_delivered_is_delivered_by_the_next_worker() {
    for (outcome, verb) in [(success(), "complete"), (failure(), "fail"), (Outcome::Release, "unclaim")] {
        let folder = tempdir().unwrap();
        let server = Server::start().await;
        server.script("claim", [task(1)]);
        server.script(verb, [hang_up()]);
        let scene = Scene::always(&server, spooling(&folder), outcome);
        server.until(verb, 2).await;
        scene.stop(Stop::Kill);
        assert_eq!(scene.end().await.1.undelivered, 1);

        server.script("claim", [crate::server::nothing()]);
        server.script(verb, [refusal(503, "database_busy"), done()]);
        let scene = Scene::start(&server, spooling(&folder));
        until(|| scene.ears.heard().contains(&"left over t_000000000001 false".to_owned())).await;
        let reports = server.asked(verb);
        let bodies: Vec<&str> = reports.iter().map(|report| report.text.split("\r\n\r\n").nth(1).unwrap()).collect();
        assert_eq!(bodies.first(), bodies.last());
        scene.stop(Stop::Kill);
        scene.end().await;
        assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn what_is_refused_as_stale_is_told_and_forgotten() {
    let folder = tempdir().unwrap();
    let server = Server::start().await;
    server.script("claim", [task(1)]);
    server.script("complete", [hang_up()]);
    let scene = Scene::always(&server, spooling(&folder), success());
    server.until("complete", 1).await;
    scene.stop(Stop::Kill);
    scene.end().await;

    server.script("claim", [crate::server::nothing()]);
    server.script("complete", [refusal(409, "stale_run")]);
    let scene = Scene::start(&server, spooling(&folder));
    until(|| scene.ears.heard().contains(&"left over t_000000000001 true".to_owned())).await;
    assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
    scene.stop(Stop::Kill);
    scene.end().await;
}

#[tokio::test]
async fn a_delivered_report_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let server = Server::start().await;
    server.script("claim", [task(1)]);
    assert_eq!(Scene::always(&server, spooling(&folder), success()).end().await.1.succeeded, 1);
    assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
}
