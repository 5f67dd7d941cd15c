//! `task count`, `worker count` and `health`.

use serde_json::json;

use super::support::Server;

#[test]
fn tasks_are_counted_plainly_and_by_group() {
    let server = Server::with_task(&["--route", "cpu", "--route", "gpu"]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "cpu"]);
    server.run("task cancel t_bbbbbbbbbbbb").ok();
    assert_eq!(server.run("task count").ok(), "COUNT  2\n");
    assert_eq!(server.run("task count -o quiet --status pending").ok(), "1\n");
    assert_eq!(server.run("task count -o json").json(), json!({"count": 2}));
    server.run("task count --group-by status").shows(&["COUNT  GROUP", "    1  cancelled", "    1  pending"]);
    server.run("task count --group-by routes,status").shows(&[
        "COUNT  GROUP",
        "    1  cpu, cancelled",
        "    1  cpu, pending",
        "    1  gpu, pending",
    ]);
    assert_eq!(
        server.run("task count --group-by routes -o json").json(),
        json!([{"key": {"routes": "cpu"}, "count": 2}, {"key": {"routes": "gpu"}, "count": 1}])
    );
    assert_eq!(server.run("task count --group-by routes -o quiet").ok(), "cpu 2\ngpu 1\n");
}

#[test]
fn workers_are_counted_plainly_and_by_group() {
    let server = Server::start();
    for (id, status) in [("w_aaaaaaaaaaaa", "busy"), ("w_bbbbbbbbbbbb", "idle"), ("w_cccccccccccc", "idle")] {
        let report = format!(r#"{{"route":"gpu","status":"{status}","task_id":null}}"#);
        assert_eq!(server.post(&format!("workers/{id}"), &report), 204);
    }
    assert_eq!(server.run("worker count -o quiet").ok(), "3\n");
    assert_eq!(server.run("worker count --group-by route,status -o quiet").ok(), "gpu busy 1\ngpu idle 2\n");
}

#[test]
fn health_reports_the_state_of_the_server() {
    let server = Server::start();
    let url = format!("url          {}", server.url);
    server.run("health").shows(&["status       ok", "api_version  2", &url]);
    assert_eq!(server.run("health -o json").json(), json!({"status": "ok", "api_version": "2", "url": server.url}));
    assert_eq!(server.run("health -o quiet").ok(), "ok\n");
}
