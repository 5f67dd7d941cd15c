//! `task archive` and `task unarchive`, and what leaves archived tasks out.

use serde_json::json;

use super::support::Server;

/// Three tasks that succeeded, `a` to `c`, and `d`, which is pending.
fn three_ended() -> Server {
    let server = Server::start();
    for (run, letter) in ["a", "b", "c"].into_iter().enumerate() {
        let (id, run) = (format!("t_{}", letter.repeat(12)), u32::try_from(run).unwrap());
        server.submit(&id, &["--name", letter]);
        server.run_well("default", &id, run);
    }
    server.submit("t_dddddddddddd", &["--name", "d"]);
    server
}

#[test]
fn an_archived_task_is_left_out_of_lists_and_counts_and_can_be_looked_at() {
    let server = three_ended();
    assert_eq!(server.run("task archive t_aaaaaaaaaaaa").ok(), "t_aaaaaaaaaaaa archived\n");
    assert_eq!(server.run("task count -o quiet").ok(), "3\n");
    assert_eq!(server.run("task count -o quiet --include-archived").ok(), "4\n");
    let listed = server.run("task list --include-archived").ok();
    assert!(listed.lines().any(|line| line.contains("t_aaaaaaaaaaaa") && line.contains("archived")), "{listed}");
    assert!(!server.run("task list").ok().contains("t_aaaaaaaaaaaa"));
    let shown = server.run("task get t_aaaaaaaaaaaa").ok();
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["archived", "yes"])), "{shown}");
    assert_eq!(server.run("task unarchive t_aaaaaaaaaaaa").ok(), "t_aaaaaaaaaaaa unarchived\n");
    assert_eq!(server.run("task count -o quiet").ok(), "4\n");
}

#[test]
fn selected_tasks_are_archived_together_after_consent() {
    let server = three_ended();
    server.run("task archive t_dddddddddddd").fails_with(1, &["update_conflict"]);
    let archive = ["task", "archive", "--filter", "priority == 0"];
    server.run_with(&archive).fails_with(2, &["Archive 3 tasks of queue q (1 pending left out): add --yes"]);
    let ran = server.run_with(&[&archive[..], &["--yes", "-o", "json"]].concat());
    let ran = ran.said(&["left out: 1 is pending: only what has ended can be archived"]);
    assert_eq!(ran.json(), json!({"archived": 3, "skipped": 1, "refused": 0}));
    server.run("task list --status succeeded").said(&["no task matches; queue q has 4 tasks"]);
    server.run_with(&[&archive[..], &["--yes"]].concat()).fails_with(1, &["nothing was changed: 1 is pending"]);
    assert_eq!(server.run("task unarchive --name b --yes").ok(), "1 unarchived\n");
    assert_eq!(server.run("task unarchive --fuzzy c --yes").ok(), "1 unarchived\n");
    assert_eq!(server.run("task count -o quiet").ok(), "3\n");
}

#[test]
fn commands_for_many_reach_archived_tasks_only_if_asked_to() {
    let server = three_ended();
    server.run("task archive --status succeeded --yes").ok();
    assert_eq!(server.run("task delete --status succeeded --yes").ok(), "0 deleted\n");
    assert_eq!(server.run("task update --status succeeded --include-archived --priority 7 --yes").ok(), "3 updated\n");
    assert_eq!(server.run("task delete --status succeeded --include-archived --yes").ok(), "3 deleted\n");
    assert_eq!(server.run("task count -o quiet --include-archived").ok(), "1\n");
}

#[test]
fn a_list_without_tasks_says_that_all_are_archived() {
    let server = three_ended();
    server.run("task delete t_dddddddddddd").ok();
    server.run("task archive --status succeeded --yes").ok();
    server.run("task list").said(&["3 tasks of queue q, all of them archived: --include-archived shows them"]);
}
