//! `task get`, `task list` and `worker list`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::{A, B, Server, lines, numbered_lines, timeless};

fn three_tasks() -> Server {
    let server = Server::with_task(&["--name", "alpha", "--arg", "lr=0.1", "--priority", "5"]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "gpu", "--route", "cpu"]);
    server.submit("t_cccccccccccc", &["--name", "ga\u{e4}ma", "--max-attempts", "1", "--metadata", r#"{"by":"me"}"#]);
    server
}

#[test]
fn a_table_is_aligned_and_newest_first() {
    let server = three_tasks();
    server.run("task list").shows(&[
        "ID              STATUS   NAME   PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ARGS",
        "t_cccccccccccc  pending  gaäma         0      0/1  default  now      now      {}",
        "t_bbbbbbbbbbbb  pending  -             0      0/3  cpu,gpu  now      now      {}",
        "t_aaaaaaaaaaaa  pending  alpha         5      0/3  default  now      now      {\"lr\":0.1}",
    ]);
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
    assert_eq!(serde_json::from_str::<Value>(&one).unwrap(), expected);
    assert_eq!(one.lines().count(), 1);
    assert!(one.starts_with(r#"{"id":"t_cccccccccccc","queue":"q","status":"pending","name":"#), "{one}");
    let listed = timeless(&server.run("task list -o json --limit 1").ok());
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap(), json!([expected]));
    let first = timeless(server.run("task list -o jsonl").ok().lines().next().unwrap());
    assert_eq!(first, one.trim_end());
    assert_eq!(server.run("task list -o quiet").ok(), "t_cccccccccccc\nt_bbbbbbbbbbbb\nt_aaaaaaaaaaaa\n");
    assert_eq!(server.run("task get t_aaaaaaaaaaaa -o quiet").ok(), "t_aaaaaaaaaaaa\n");
}

#[test]
fn one_task_is_shown_with_everything_about_it() {
    let server = Server::with_task(&["--name", "x", "--max-attempts", "1"]);
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    server.run("task get t_aaaaaaaaaaaa").shows(&[
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
    ]);
}

#[test]
fn who_ran_a_task_is_shown_with_it() {
    let server = Server::with_tasks(&[A]);
    server.claim_as(r#"{"host":"gpu-3","slot":0}"#);
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
    let cases: [(&[&str], &str); 9] = [
        (&["--ascending"], "abc"),
        (&["--order-by", "priority"], "acb"),
        (&["--order-by", "id", "--ascending", "--limit", "2"], "ab"),
        (&["--name", "alpha"], "a"),
        (&["--fuzzy", "gm"], "c"),
        (&["--status", "running"], ""),
        (&["--filter", r#""gpu" in routes or args.lr < 1"#], "ba"),
        (&["--status", "pending", "--filter", "max_attempts == 1"], "c"),
        (&["--all"], "cba"),
    ];
    for (flags, expected) in cases {
        let listed = server.run_with(&[&["task", "list", "-o", "quiet"], flags].concat()).ok();
        assert_eq!(listed.lines().map(|id| &id[2..3]).collect::<String>(), expected, "{flags:?}");
    }
}

#[test]
fn people_get_a_note_when_there_is_more_and_programs_do_not() {
    let server = three_tasks();
    let table = server.run("task list --limit 2");
    assert_eq!(table.stderr, "note: 2 of 3 tasks shown; --all shows them all\n");
    assert_eq!(table.ok().lines().count(), 3);
    let selected = server.run_with(&["task", "list", "--limit", "1", "--filter", "max_attempts == 3"]);
    assert_eq!(selected.stderr, "note: 1 of 2 tasks shown; --all shows them all\n");
    assert_eq!(server.run("task list --limit 3").stderr, "");
    assert_eq!(server.run("task list --limit 2 -o jsonl").stderr, "");
}

#[test]
fn only_tables_are_cut_without_a_limit() {
    let server = Server::start();
    server.run_reading("task submit --from -", &numbered_lines(1250)).ok();
    let table = server.run("task list");
    assert_eq!(table.stderr, "note: 100 of 1,250 tasks shown; --all shows them all\n");
    assert_eq!(table.ok().lines().count(), 101);
    assert_eq!(server.run("task list --all").ok().lines().count(), 1251);
    // The lines around the tasks: brackets, nothing, a header, nothing.
    for (format, others) in [("json", 2), ("jsonl", 0), ("csv", 1), ("quiet", 0)] {
        let whole = server.run(&format!("task list -o {format}")).ok_quietly();
        assert_eq!(whole.lines().count(), 1250 + others, "{format}");
        let cut = server.run(&format!("task list -o {format} --limit 1200")).ok();
        assert_eq!(cut.lines().count(), 1200 + others, "{format}");
    }
    let listed = server.run("task list -o json").json();
    let numbers = listed.as_array().unwrap().iter().map(|task| task["args"]["n"].as_i64().unwrap());
    assert_eq!(numbers.collect::<BTreeSet<_>>().len(), 1250);
}

#[test]
fn workers_are_cut_and_counted_in_tables_only() {
    let server = Server::start();
    for number in 0..101 {
        let report = r#"{"route":"gpu","status":"idle","task_id":null}"#;
        assert_eq!(server.post(&format!("workers/w_{number:012}"), report), 204);
    }
    assert_eq!(server.run("worker list").stderr, "note: 100 of 101 workers shown; --all shows them all\n");
    assert_eq!(server.run("worker list -o quiet").ok().lines().count(), 101);
    assert_eq!(server.run("worker list --limit 7 -o csv").ok().lines().count(), 8);
}

#[test]
fn empty_lists_say_why() {
    let server = Server::start();
    let said = |line: &str| {
        let ran = server.run(line);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stderr
    };
    assert_eq!(said("task list"), "note: queue q is empty\n");
    assert_eq!(said("task list --status failed -o quiet"), "note: queue q is empty\n");
    assert_eq!(said("task count --group-by status"), "note: queue q is empty\n");
    server.submit("t_aaaaaaaaaaaa", &[]);
    assert_eq!(said("task list --status failed"), "note: no task matches; queue q has 1 task\n");
    assert_eq!(said("task list --status failed --sort args.x"), "note: no task matches; queue q has 1 task\n");
    assert_eq!(said("task list"), "");
    let nobody = "note: no worker of queue q has reported within the last five minutes\n";
    assert_eq!(said("worker list"), nobody);
    assert_eq!(said("worker list --filter route==\"gpu\""), nobody);
    assert_eq!(server.post("workers/w_aaaaaaaaaaaa", r#"{"route":"cpu","status":"idle","task_id":null}"#), 204);
    assert_eq!(said("worker list --filter route==\"gpu\""), "note: no worker matches; queue q has 1 worker\n");
    server.run("queue delete q --cascade --yes").ok();
    assert_eq!(said("queue list"), "note: there are no queues; create one with: taskqueue queue create NAME\n");
}

/// One task that succeeded after a failure, one that failed, and one that is pending.
fn ended_tasks() -> Server {
    let server = Server::with_task(&["--arg", "lr=0.1", "--name", "a, \"b\"", "--priority", "2"]);
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    server.run_well("default", "t_aaaaaaaaaaaa", 2);
    server.submit("t_bbbbbbbbbbbb", &["--arg", "lr=0.01", "--max-attempts", "1"]);
    server.run_badly("default", "t_bbbbbbbbbbbb", 3);
    server.submit("t_cccccccccccc", &["--route", "gpu", "--route", "cpu"]);
    server
}

#[test]
fn ended_tasks_show_the_type_of_their_error_and_their_result() {
    let server = ended_tasks();
    server.run("task list").shows(&[
        "ID              STATUS     NAME    PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ERROR       ARGS         RESULT",
        "t_cccccccccccc  pending    -              0      0/3  cpu,gpu  now      now      -           {}           -",
        "t_bbbbbbbbbbbb  failed     -              0      1/1  default  now      now      ValueError  {\"lr\":0.01}  -",
        "t_aaaaaaaaaaaa  succeeded  a, \"b\"         2      2/3  default  now      now      -           {\"lr\":0.1}   {\"loss\":0.5}",
    ]);
}

#[test]
fn columns_are_chosen_for_tables_and_csv() {
    let server = ended_tasks();
    let columns = "id,status,args.lr,result.loss,last_error.message,routes,name";
    assert_eq!(
        server.run(&format!("task list --columns {columns} -o csv")).ok(),
        "id,status,args.lr,result.loss,last_error.message,routes,name\n\
         t_cccccccccccc,pending,,,,\"cpu,gpu\",\n\
         t_bbbbbbbbbbbb,failed,0.01,,bad seed,default,\n\
         t_aaaaaaaaaaaa,succeeded,0.1,0.5,bad seed,default,\"a, \"\"b\"\"\"\n"
    );
    server.run("task list --columns id,status,args.lr,created_at,result").shows(&[
        "id              status     args.lr  created_at  result",
        "t_cccccccccccc  pending    -        now         {}",
        "t_bbbbbbbbbbbb  failed     0.01     now         {}",
        "t_aaaaaaaaaaaa  succeeded  0.1      now         {\"loss\":0.5}",
    ]);
    assert_eq!(server.run("task list --status running -o csv --columns id,args.x").ok(), "id,args.x\n");
    let cases = [
        ("--columns id,stauts", "did you mean status?"),
        ("--columns lr", "args.lr"),
        ("--columns last_error.mesage", "did you mean message?"),
        ("--columns id -o json", "--columns is for --output table and csv"),
        ("--columns id -o quiet", "--columns is for --output table and csv"),
        ("--sort lss", "args.lss"),
        ("--sort id --order-by id", "cannot be used with"),
        ("--sort id --ascending", "cannot be used with"),
    ];
    for (flags, expected) in cases {
        server.run(&format!("task list {flags}")).refuses_with(2, &[expected]);
    }
}

#[test]
fn csv_has_all_fields_and_other_commands_have_it_too() {
    let server = ended_tasks();
    let csv = timeless(&server.run("task get t_bbbbbbbbbbbb -o csv").ok());
    assert_eq!(
        csv,
        "id,queue,status,name,args,metadata,priority,attempt,max_attempts,routes,result,last_error.type,\
         last_error.message,last_route,created_at,updated_at,started_at,finished_at\n\
         t_bbbbbbbbbbbb,q,failed,,\"{\"\"lr\"\":0.01}\",{},0,1,1,default,{},ValueError,bad seed,default,TIME,TIME,TIME,TIME\n"
    );
    assert_eq!(server.run("queue list -o csv").ok(), "name\nq\n");
    assert_eq!(server.run("task count -o csv").ok(), "count\n3\n");
    assert_eq!(server.run("task count --group-by routes -o csv").ok(), "routes,count\ncpu,1\ndefault,2\ngpu,1\n");
    assert_eq!(
        server.run("worker list -o csv").ok(),
        "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid\n"
    );
}

#[test]
fn workers_are_listed() {
    let server = Server::start();
    let place = r#"{"host":"gpu-3","pid":4711,"slot":2,"version":"1.0.0"}"#;
    let report = format!(r#"{{"route":"gpu","status":"busy","task_id":"t_aaaaaaaaaaaa","metadata":{place}}}"#);
    assert_eq!(server.post("workers/w_aaaaaaaaaaaa", &report), 204);
    assert_eq!(server.post("workers/w_bbbbbbbbbbbb", r#"{"route":"cpu","status":"idle","task_id":null}"#), 204);
    server.run("worker list").shows(&[
        "ID              STATUS  ROUTE  TASK            LAST SEEN  EXPIRES  WHERE",
        "w_aaaaaaaaaaaa  busy    gpu    t_aaaaaaaaaaaa  now        in 4m    gpu-3, slot 2, pid 4711",
        "w_bbbbbbbbbbbb  idle    cpu    -               now        in 4m    -",
    ]);
    let listed = server.run("worker list -o jsonl --filter route==\"cpu\"").ok();
    let expected = "{\"id\":\"w_bbbbbbbbbbbb\",\"queue\":\"q\",\"route\":\"cpu\",\"status\":\"idle\",\"task_id\":null,\
                    \"last_seen_at\":\"TIME\",\"expires_at\":\"TIME\"}\n";
    assert_eq!(timeless(&listed), expected);
    assert_eq!(server.run("worker list -o quiet").ok(), "w_aaaaaaaaaaaa\nw_bbbbbbbbbbbb\n");
}

#[test]
fn several_tasks_are_shown_and_a_missing_one_is_a_failure() {
    let server = Server::with_tasks(&[A, B]);
    assert_eq!(server.run("task get t_bbbbbbbbbbbb t_aaaaaaaaaaaa -o quiet").ok(), "t_bbbbbbbbbbbb\nt_aaaaaaaaaaaa\n");
    let shown = server.run("task get t_bbbbbbbbbbbb t_aaaaaaaaaaaa -o json").json();
    assert_eq!((&shown[0]["id"], &shown[1]["id"]), (&json!(B), &json!(A)));
    let table = server.run("task get t_aaaaaaaaaaaa t_bbbbbbbbbbbb").ok();
    assert_eq!(table.lines().filter(|line| line.starts_with("created_at")).count(), 2, "{table}");
    server.run("task get t_zzzzzzzzzzzz").refuses_with(1, &["error: ", "task_not_found", ";"]);
    let ran = server.run("task get t_aaaaaaaaaaaa t_zzzzzzzzzzzz -o quiet").printed("t_aaaaaaaaaaaa\n");
    ran.fails_with(1, &["t_zzzzzzzzzzzz does not exist"]);
}

#[test]
fn a_long_table_has_the_columns_for_which_only_a_late_row_has_a_value() {
    let server = Server::with_task(&["--max-attempts", "1"]);
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    server.run_reading("task submit --from -", &numbered_lines(1000)).ok();
    let table = server.run("task list --all").ok();
    assert!(table.lines().next().unwrap().contains("ERROR"), "{table}");
    assert!(table.lines().last().unwrap().contains("ValueError"), "{table}");
    assert!(!server.run("task list --status pending --all").ok().contains("ERROR"), "exactly the measured rows");
}

#[test]
fn several_keys_sort_and_a_path_that_no_task_has_is_told() {
    let server = Server::start();
    for (n, (a, b)) in [(1, 5), (2, 1), (1, 7), (2, 9)].iter().enumerate() {
        server.submit(&format!("t_{n:012}"), &["--args", &format!(r#"{{"a":{a},"b":{b}}}"#)]);
    }
    let list = |flags: &str| server.run(&format!("task list -o csv --columns args.a,args.b {flags}"));
    assert_eq!(list("--sort args.a,-args.b").ok_quietly(), "args.a,args.b\n1,7\n1,5\n2,9\n2,1\n");
    assert_eq!(list("--sort=-priority,args.b --limit 2").ok(), "args.a,args.b\n2,1\n1,5\n");
    // What the server can sort by is the same with --order-by.
    let ids = |flags: &str| server.run(&format!("task list -o quiet {flags}")).ok();
    assert_eq!([ids("--sort id"), ids("--sort=-id")], [ids("--order-by id --ascending"), ids("--order-by id")]);
    // Equal ones: newest first, as in every list; who has no value comes last.
    server.submit("t_none00000000", &[]);
    let newest_first = "t_000000000002\nt_000000000000\nt_000000000003\nt_000000000001\nt_none00000000\n";
    assert_eq!(ids("--sort args.a"), newest_first);
    server.run("task delete t_none00000000").ok();
    let cut = server.run("task list --sort args.a --limit 2");
    assert_eq!(cut.stderr, "note: 2 of 4 tasks shown; --all shows them all\n");
    let note = list("--sort args.aa,args.b").stderr;
    assert_eq!(note, "note: no task that matches has args.aa, by which they were to be sorted\n");
    for (format, extra) in [("table", ""), ("csv", ""), ("table", " --sort args.a")] {
        let ran = server.run(&format!("task list -o {format} --columns id,args.a,args.x,result.y,name{extra}"));
        assert_eq!(ran.stderr, "note: no task that is shown has args.x or result.y\n", "{format}");
    }
    assert_eq!(server.run("task list --columns id,args.x --status failed").stderr.matches("args.x").count(), 0);
    server.run("task list --watch --sort priority,id").fails_with(2, &["--watch"]);
}

#[test]
fn a_wildcard_is_a_column_for_each_member() {
    let server = Server::with_task(&["--args", r#"{"lr":0.1,"a.b":1}"#]);
    server.submit("t_bbbbbbbbbbbb", &["--args", r#"{"seed":2}"#]);
    let listed = server.run("task list -o csv --columns id,args.*,status").ok();
    let expected = "id,args.a.b,args.lr,args.seed,status\nt_bbbbbbbbbbbb,,,2,pending\nt_aaaaaaaaaaaa,1,0.1,,pending\n";
    assert_eq!(listed, expected);
    let first = server.run("task list --limit 1 --columns id,args.*").said(&["1 of 2 tasks shown"]);
    assert_eq!(lines(&first.stdout), ["id              args.seed", "t_bbbbbbbbbbbb  2"]);
    let none = server.run("task list --columns id,result.*").said(&["no task that is shown has result.*"]);
    assert_eq!(lines(&none.ok())[1], "t_bbbbbbbbbbbb  -");
    server.run("task list --sort args.*").fails(2);
}

#[test]
fn how_long_a_task_ran_and_waited_are_columns() {
    let server = ended_tasks();
    let listed = server.run("task list -o csv --columns id,duration,waited --sort -duration").ok();
    let rows: Vec<Vec<&str>> = listed.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.last().unwrap()[..2], ["t_cccccccccccc", ""], "it was never run: {listed}");
    let seconds = |text: &str| text.parse::<f64>().unwrap();
    assert!(seconds(rows[0][1]) >= seconds(rows[1][1]) && rows.iter().all(|row| seconds(row[2]) >= 0.0), "{listed}");
    let table = server.run("task list --columns id,duration,waited").ok();
    assert!(table.lines().nth(1).unwrap().starts_with("t_cccccccccccc  -         "), "{table}");
    assert!(table.lines().nth(2).unwrap().trim_end().ends_with('s'), "{table}");
}

#[test]
fn commands_for_tasks_are_understood_without_their_noun() {
    let server = Server::start();
    let submitted = server.run("submit --id t_aaaaaaaaaaaa");
    assert_eq!(submitted.stderr, "note: taskqueue submit is taken for: taskqueue task submit\n");
    assert_eq!(submitted.ok(), "t_aaaaaaaaaaaa created\n");
    assert_eq!(server.run("-o quiet get t_aaaaaaaaaaaa").ok(), "t_aaaaaaaaaaaa\n");
    server.run("cancel t_aaaaaaaaaaaa").fails_with(2, &["cancel"]);
}

#[test]
fn the_beginning_of_an_id_is_enough_where_it_is_that_of_one_task() {
    let server = Server::with_tasks(&["t_abcdefghijkl", "t_abcdefgzzzzz", "t_abcx--------"]);
    assert_eq!(server.run("task get t_abcx -o quiet").ok(), "t_abcx--------\n");
    assert_eq!(server.run("task get t_abcdefgz t_abcx -o quiet").ok(), "t_abcdefgzzzzz\nt_abcx--------\n");
    let several = server.run("task cancel t_abcdef").fails(1);
    assert_eq!(several, "error: several ids begin with t_abcdef: t_abcdefghijkl, t_abcdefgzzzzz; write more of it\n");
    let none = server.run("task cancel t_abcy").fails(1);
    assert_eq!(none, "error: no task of queue q has an id that begins with t_abcy\n");
    assert_eq!(server.count("status == 'cancelled'"), 0);
    assert_eq!(server.run("task cancel t_abcx").ok(), "t_abcx-------- cancelled\n");
    assert_eq!(server.run("task requeue t_abcx").ok(), "t_abcx-------- requeued\n");
    server.run("task update t_abcx --after t_abcdefgh").ok();
    assert_eq!(server.task("t_abcx--------")["dependencies"], json!(["t_abcdefghijkl"]));
    server.run("task explain t_abcx").ok_with(&["t_abcdefghijkl"]);
    assert_eq!(server.run("task wait t_abcx --timeout 0").code, Some(1));
    assert_eq!(server.run("task delete t_abcx t_abcdefgz").ok(), "2 deleted\n");
    server.run("task get t_abc").fails(2);
}
