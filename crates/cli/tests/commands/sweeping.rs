//! `task sweep`.

use serde_json::json;

use crate::support::Server;

#[test]
fn a_sweep_creates_each_combination_once() {
    let server = Server::start();
    let sweep = "task sweep --arg lr=0.1,0.01 --arg seed=1..5 --route gpu --name s";
    assert_eq!(server.run(sweep).ok(), "10 created\n");
    assert_eq!(server.count("args.lr == 0.01 and args.seed == 5 and \"gpu\" in routes and name == \"s\""), 1);
    assert_eq!(server.run(sweep).ok(), "0 created, 10 already there\n");
    assert_eq!(server.run(&format!("{sweep} --arg model=a,b")).ok(), "20 created\n");
    assert_eq!(server.run("task count -o quiet").ok(), "30\n");
}

#[test]
fn a_dry_run_shows_the_tasks_and_creates_none() {
    let server = Server::start();
    let sweep = "task sweep --arg seed=1..2 --dry-run";
    let ran = server.run(sweep);
    assert!(ran.stderr.contains("2 tasks, none of them created"), "{ran:?}");
    let shown = ran.ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[1].ends_with("{\"seed\":1}") && lines.len() == 3, "{shown}");
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
    let planned = server.run(&format!("{sweep} -o jsonl")).ok();
    assert_eq!(server.run_reading("task submit --from - -o json", &planned).json()["created"], json!(2));
    assert_eq!(server.run("task sweep --arg seed=1..2").ok(), "0 created, 2 already there\n");
}
