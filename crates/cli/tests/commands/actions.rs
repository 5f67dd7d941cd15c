//! `task cancel`, `task requeue` and `task delete`, by id and by selection.

use serde_json::json;

use crate::support::Server;

/// `a` pending, `b` running, `c` succeeded, `d` failed, `e` cancelled.
fn one_of_each() -> Server {
    let server = Server::start();
    for letter in ["b", "c", "d", "a", "e"] {
        let id = format!("t_{}", letter.repeat(12));
        server.submit(&id, &["--max-attempts", "1", "--route", letter]);
    }
    for (run, letter) in ["b", "c", "d"].into_iter().enumerate() {
        server.claim(letter, u32::try_from(run).unwrap());
    }
    server.complete("t_cccccccccccc", 1);
    server.fail("t_dddddddddddd", 2);
    server.run("task cancel t_eeeeeeeeeeee").ok();
    server
}

#[test]
fn named_tasks_are_changed_without_a_question() {
    let server = one_of_each();
    assert_eq!(server.run("task cancel t_aaaaaaaaaaaa").ok(), "t_aaaaaaaaaaaa cancelled\n");
    assert_eq!(server.run("task requeue t_aaaaaaaaaaaa t_eeeeeeeeeeee").ok(), "2 requeued\n");
    let deleted = server.run("task delete t_aaaaaaaaaaaa t_eeeeeeeeeeee t_aaaaaaaaaaaa -o json").json();
    assert_eq!(deleted, json!({"deleted": 2, "skipped": 0, "refused": 0}));
    assert_eq!(server.run("task count -o quiet").ok(), "3\n");
}

#[test]
fn a_named_task_that_cannot_be_changed_is_a_failure() {
    let server = one_of_each();
    let message = server.run("task cancel t_cccccccccccc").fails(1);
    assert!(message.contains("task_state_conflict"), "{message}");
    let message = server.run("task delete t_bbbbbbbbbbbb").fails(1);
    assert!(message.contains("task_running") && message.contains("cancel it first"), "{message}");
    let ran = server.run("task cancel t_aaaaaaaaaaaa t_cccccccccccc t_zzzzzzzzzzzz");
    assert_eq!(ran.stdout, "1 cancelled, 2 skipped\n");
    let message = ran.fails(1);
    assert!(message.contains("t_cccccccccccc skipped (task_state_conflict)"), "{message}");
    assert!(message.contains("t_zzzzzzzzzzzz skipped (task_not_found)"), "{message}");
}

#[test]
fn selected_tasks_are_changed_after_consent_and_what_is_skipped_is_counted() {
    let server = one_of_each();
    let cancel = ["task", "cancel", "--filter", "max_attempts == 1"];
    let message = server.run_with(&cancel).fails(2);
    assert!(message.contains("Cancel 5 tasks of queue q: add --yes"), "{message}");
    assert_eq!(server.count("status == \"cancelled\""), 1, "nothing was changed");
    let ran = server.run_with(&[&cancel[..], &["--yes"]].concat());
    assert!(ran.stderr.contains("2 task_state_conflict"), "{ran:?}");
    assert_eq!(ran.ok(), "3 cancelled, 2 skipped\n");
    assert_eq!(server.count("status == \"cancelled\""), 3);

    assert_eq!(server.run("task requeue --status failed -y").ok(), "1 requeued\n");
    assert_eq!(server.run("task requeue --status failed").ok(), "0 requeued\n");
    let deleted = server.run("task delete --filter priority==0 --yes -o quiet").ok();
    assert_eq!(deleted, "5\n");
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
}

#[test]
fn many_selected_tasks_are_each_changed_once() {
    let server = Server::start();
    let lines: String = (0..2100).map(|n| format!("{{\"args\":{{\"n\":{n}}}}}\n")).collect();
    server.run_reading("task submit --from -", &lines).ok();
    assert_eq!(server.run("task cancel --status pending --yes").ok(), "2100 cancelled\n");
    assert_eq!(server.run("task requeue --status cancelled --yes").ok(), "2100 requeued\n");
    assert_eq!(server.run("task delete --status pending --yes").ok(), "2100 deleted\n");
}
