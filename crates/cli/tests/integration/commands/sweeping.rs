//! `task sweep`.

use serde_json::json;

use super::support::Server;

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
fn names_are_filled_in_from_the_args() {
    let server = Server::start();
    let sweep =
        ["task", "sweep", "--arg", "m.layers=2,4", "--arg", "seed=1..2", "--name", "vit-{m.layers}-{seed}-{{x}}"];
    assert_eq!(server.run_with(&sweep).ok(), "4 created\n");
    assert_eq!(server.count("name == \"vit-4-1-{x}\" and args.m.layers == 4 and args.seed == 1"), 1);
    for (name, expected) in [("vit-{seeds}", "the args have no seeds"), ("vit-{seed", "{{ and }} for braces")] {
        server.run_with(&["task", "sweep", "--arg", "seed=1..2", "--name", name]).fails_with(2, &[expected]);
    }
    // The third name is too long. No task is created before that is found.
    let long = format!("x=a,b,{}", "c".repeat(300));
    server.run_with(&["task", "sweep", "--arg", &long, "--name", "{x}"]).fails_with(2, &["256 characters"]);
    assert_eq!(server.run("task count -o quiet").ok(), "4\n");
}

#[test]
fn zip_pairs_the_values_and_refuses_lists_of_unequal_length() {
    let server = Server::start();
    assert_eq!(server.run("task sweep --zip --arg lr=0.1,0.01 --arg seed=1..2").ok(), "2 created\n");
    assert_eq!(server.count("args.lr == 0.1 and args.seed == 1"), 1);
    assert_eq!(server.count("args.lr == 0.01 and args.seed == 2"), 1);
    server.run("task sweep --zip --arg lr=0.1,0.01 --arg seed=1..3").fails_with(2, &["lr has 2, seed has 3"]);
    assert_eq!(server.run("task count -o quiet").ok(), "2\n");
}

#[test]
fn a_dry_run_shows_the_tasks_and_creates_none() {
    let server = Server::start();
    let sweep = "task sweep --arg seed=1..2 --dry-run";
    let shown = server.run(sweep).said(&["2 tasks, none of them created"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[1].ends_with("{\"seed\":1}") && lines.len() == 3, "{shown}");
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
    let planned = server.run(&format!("{sweep} -o jsonl")).ok();
    assert_eq!(server.run_reading("task submit --from - -o json", &planned).json()["created"], json!(2));
    assert_eq!(server.run("task sweep --arg seed=1..2").ok(), "0 created, 2 already there\n");
}

#[test]
fn the_same_sweep_with_another_priority_creates_nothing_twice() {
    let server = Server::start();
    let sweep = "task sweep --arg lr=0.1,0.01 --arg seed=1..20";
    assert_eq!(server.run(sweep).ok(), "40 created\n");
    let ran = server.run(&format!("{sweep},21 --priority 5 --route gpu")).printed("2 created, 40 different\n");
    let expected = "40 are already there with another definition (priority, routes); `taskqueue task update ...` changes \
                    them, --batch LABEL makes new ones";
    ran.fails_with(1, &[expected]);
    let counts = "{\"created\":0,\"already_there\":0,\"different\":40,\"refused\":0}\n";
    server.run(&format!("{sweep} --priority 6 -o json")).printed(counts).fails(1);
    assert_eq!(server.run("task count -o quiet").ok(), "42\n");
    // After the update that the message names they are as the sweep wants them.
    server.run("task update --filter priority==0 --priority 5 --route gpu --yes").ok();
    assert_eq!(server.run(&format!("{sweep},21 --priority 5 --route gpu")).ok(), "0 created, 42 already there\n");
    assert_eq!(server.run(&format!("{sweep} --batch second")).ok(), "40 created\n");
    assert_eq!(server.run(&format!("{sweep} --batch second -o json")).json()["already_there"], json!(40));
    assert_eq!(server.run("task count -o quiet").ok(), "82\n");
}
