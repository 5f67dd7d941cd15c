//! `task get`, `task list` and `worker list`.

use serde_json::json;

use crate::support::{Server, lines, timeless};

fn three_tasks() -> Server {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--name", "alpha", "--arg", "lr=0.1", "--priority", "5"]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "gpu", "--route", "cpu"]);
    server.submit("t_cccccccccccc", &["--name", "ga\u{e4}ma", "--max-attempts", "1", "--metadata", r#"{"by":"me"}"#]);
    server
}

#[test]
fn a_table_is_aligned_and_newest_first() {
    let server = three_tasks();
    assert_eq!(
        lines(&server.run("task list").ok()),
        [
            "ID              STATUS   NAME   PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ARGS",
            "t_cccccccccccc  pending  gaäma         0      0/1  default  now      now      {}",
            "t_bbbbbbbbbbbb  pending  -             0      0/3  cpu,gpu  now      now      {}",
            "t_aaaaaaaaaaaa  pending  alpha         5      0/3  default  now      now      {\"lr\":0.1}",
        ]
    );
}

#[test]
fn programs_get_the_resource_of_the_api() {
    let server = three_tasks();
    let expected = json!({
        "id": "t_cccccccccccc", "queue": "q", "status": "pending", "name": "gaäma", "args": {}, "metadata": {"by": "me"},
        "priority": 0, "attempt": 0, "max_attempts": 1, "routes": ["default"], "result": {}, "last_error": null,
        "last_route": null, "created_at": "TIME", "updated_at": "TIME", "started_at": null, "finished_at": null,
    });
    let one = timeless(&server.run("task get t_cccccccccccc -o json").ok());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&one).unwrap(), expected);
    assert_eq!(one.lines().count(), 1);
    assert!(one.starts_with(r#"{"id":"t_cccccccccccc","queue":"q","status":"pending","name":"#), "{one}");
    let listed = timeless(&server.run("task list -o json --limit 1").ok());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&listed).unwrap(), json!([expected]));
    let first = timeless(server.run("task list -o jsonl").ok().lines().next().unwrap());
    assert_eq!(first, one.trim_end());
    assert_eq!(server.run("task list -o quiet").ok(), "t_cccccccccccc\nt_bbbbbbbbbbbb\nt_aaaaaaaaaaaa\n");
    assert_eq!(server.run("task get t_aaaaaaaaaaaa -o quiet").ok(), "t_aaaaaaaaaaaa\n");
}

#[test]
fn one_task_is_shown_with_everything_about_it() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--name", "x", "--max-attempts", "1"]);
    server.claim("default", 1);
    server.fail("t_aaaaaaaaaaaa", 1);
    let shown: Vec<String> = lines(&server.run("task get t_aaaaaaaaaaaa").ok())
        .iter()
        .map(|line| line.replace("(now   )", "(now)"))
        .collect();
    assert_eq!(
        shown,
        [
            "id           t_aaaaaaaaaaaa",
            "queue        q",
            "status       failed",
            "name         x",
            "args         {}",
            "metadata     {}",
            "priority     0",
            "attempt      1 of 1",
            "routes       default",
            "result       {}",
            "last_error   ValueError: bad seed",
            "             attempt 1, TIME (now)",
            "             line 1",
            "             line 2",
            "last_route   default",
            "created_at   TIME (now)",
            "updated_at   TIME (now)",
            "started_at   TIME (now)",
            "finished_at  TIME (now)",
        ]
    );
}

#[test]
fn who_ran_a_task_is_shown_with_it() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    let claim = r#"{"route":"default","run_id":"r_run000000001","worker":{"host":"gpu-3","slot":0}}"#;
    assert_eq!(server.post("tasks/claim", claim), 200);
    let last_line = || lines(&server.run("task get t_aaaaaaaaaaaa").ok()).pop();
    assert_eq!(last_line().as_deref(), Some(r#"last_run     attempt 1, by {"host":"gpu-3","slot":0}"#));
    server.complete("t_aaaaaaaaaaaa", 1);
    let ended = r#"last_run     attempt 1, run r_run000000001, by {"host":"gpu-3","slot":0}"#;
    assert_eq!(last_line().as_deref(), Some(ended));
    let found = server.run_with(&["task", "list", "-o", "quiet", "--filter", "last_run.worker.host == 'gpu-3'"]);
    assert_eq!(found.ok(), "t_aaaaaaaaaaaa\n");
}

#[test]
fn selections_orders_and_limits_are_passed_on() {
    let server = three_tasks();
    let ids = |flags: &[&str]| {
        let listed = server.run_with(&[&["task", "list", "-o", "quiet"], flags].concat()).ok();
        listed.lines().map(|id| id[2..3].to_owned()).collect::<String>()
    };
    assert_eq!(ids(&["--ascending"]), "abc");
    assert_eq!(ids(&["--order-by", "priority"]), "acb");
    assert_eq!(ids(&["--order-by", "id", "--ascending", "--limit", "2"]), "ab");
    assert_eq!(ids(&["--name", "alpha"]), "a");
    assert_eq!(ids(&["--fuzzy", "gm"]), "c");
    assert_eq!(ids(&["--status", "running"]), "");
    assert_eq!(ids(&["--filter", r#""gpu" in routes or args.lr < 1"#]), "ba");
    assert_eq!(ids(&["--status", "pending", "--filter", "max_attempts == 1"]), "c");
    assert_eq!(ids(&["--all"]), "cba");
}

#[test]
fn people_get_a_note_when_there_is_more_and_programs_do_not() {
    let server = three_tasks();
    let table = server.run("task list --limit 2");
    assert!(table.stderr.contains("--all"), "{table:?}");
    assert_eq!(table.ok().lines().count(), 3);
    assert_eq!(server.run("task list --limit 3").stderr, "");
    assert_eq!(server.run("task list --limit 2 -o jsonl").stderr, "");
}

#[test]
fn lists_longer_than_a_page_are_complete() {
    let server = Server::start();
    let lines: String = (0..2500).map(|seed| format!("{{\"args\":{{\"seed\":{seed}}}}}\n")).collect();
    server.run_reading("task submit --from -", &lines).ok();
    let listed = server.run("task list --all").ok();
    assert_eq!(listed.lines().count(), 2501);
    let array: Vec<serde_json::Value> = serde_json::from_str(&server.run("task list --all -o json").ok()).unwrap();
    assert_eq!(array.len(), 2500);
    assert_eq!(server.run("task list --limit 1200 -o quiet").ok().lines().count(), 1200);
}

#[test]
fn workers_are_listed() {
    let server = Server::start();
    let report = r#"{"route":"gpu","status":"busy","task_id":"t_aaaaaaaaaaaa"}"#;
    assert_eq!(server.post("workers/w_aaaaaaaaaaaa", report), 204);
    assert_eq!(server.post("workers/w_bbbbbbbbbbbb", r#"{"route":"cpu","status":"idle","task_id":null}"#), 204);
    assert_eq!(
        lines(&server.run("worker list").ok()),
        [
            "ID              STATUS  ROUTE  TASK            LAST SEEN  EXPIRES",
            "w_aaaaaaaaaaaa  busy    gpu    t_aaaaaaaaaaaa  now        in 4m",
            "w_bbbbbbbbbbbb  idle    cpu    -               now        in 4m",
        ]
    );
    let listed = server.run("worker list -o jsonl --filter route==\"cpu\"").ok();
    let expected = "{\"id\":\"w_bbbbbbbbbbbb\",\"queue\":\"q\",\"route\":\"cpu\",\"status\":\"idle\",\"task_id\":null,\
                    \"last_seen_at\":\"TIME\",\"expires_at\":\"TIME\"}\n";
    assert_eq!(timeless(&listed), expected);
    assert_eq!(server.run("worker list -o quiet").ok(), "w_aaaaaaaaaaaa\nw_bbbbbbbbbbbb\n");
}

#[test]
fn several_tasks_are_shown_and_a_missing_one_is_a_failure() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    server.submit("t_bbbbbbbbbbbb", &[]);
    assert_eq!(server.run("task get t_bbbbbbbbbbbb t_aaaaaaaaaaaa -o quiet").ok(), "t_bbbbbbbbbbbb\nt_aaaaaaaaaaaa\n");
    let shown = server.run("task get t_bbbbbbbbbbbb t_aaaaaaaaaaaa -o json").json();
    assert_eq!((&shown[0]["id"], &shown[1]["id"]), (&"t_bbbbbbbbbbbb".into(), &"t_aaaaaaaaaaaa".into()));
    let table = server.run("task get t_aaaaaaaaaaaa t_bbbbbbbbbbbb").ok();
    assert_eq!(table.lines().filter(|line| line.starts_with("created_at")).count(), 2, "{table}");
    let ran = server.run("task get t_aaaaaaaaaaaa t_zzzzzzzzzzzz -o quiet");
    assert_eq!(ran.stdout, "t_aaaaaaaaaaaa\n");
    assert!(ran.fails(1).contains("t_zzzzzzzzzzzz does not exist"));
}
