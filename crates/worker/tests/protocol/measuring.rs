//! Telemetry: who gets it, and that nothing depends on it. What is measured is tested beside the code, and with real runs in the tests of the
//! binary.

use crate::prelude::*;

fn path(request: &Request) -> String {
    request.text.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn each_slot_tells_of_its_machine_again_and_again() {
    let server = Server::start().await;
    let worker = TestWorker::start(&server, Settings { telemetry: true, slots: vec![0, 1], ..settings() });
    server.until("POST", 6).await;
    let mut observed: Vec<String> = server.asked("PUT").iter().map(|request| path(request) + "/telemetry").collect();
    observed.sort();
    observed.dedup();
    let mut measured: Vec<String> = server.asked("POST").iter().map(path).collect();
    measured.sort();
    measured.dedup();
    assert_eq!((measured.len(), measured), (2, observed));
    let body = server.asked("POST")[0].body().to_owned();
    assert!(body.starts_with(r#"{"telemetry":{"host":{"cpus":"#) && body.contains("memory_used_bytes"), "{body}");
    assert!(!body.contains("cpu_percent"), "an idle slot has no run: {body}");
    worker.stopped(StopMode::Finish).await;
}

#[tokio::test]
async fn telemetry_that_fails_touches_neither_runs_nor_end() {
    for reply in [disconnect(), refusal(404, "worker_not_found"), refusal(422, "invalid_request"), Reply::Silence] {
        let server = Server::claiming([task(1)]).await;
        server.script("POST", [reply.clone()]);
        let settings = Settings { telemetry: true, max_tasks: Some(3), ..settings() };
        let worker = TestWorker::always(&server, settings, empty_success());
        assert_eq!(worker.end().await.1.succeeded, 3, "{reply:?}");
    }
}
