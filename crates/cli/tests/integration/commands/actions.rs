//! `task cancel`, `task requeue`, `task delete` and `task rerun`, by id and by selection.

use serde_json::json;

use super::lost_answers::{Fate, Proxy};
use super::support::{A, Server, numbered_lines};

/// `a` pending, `b` running, `c` succeeded, `d` failed, `e` cancelled.
fn one_of_each() -> Server {
    let server = Server::start();
    for letter in ["b", "c", "d", "a", "e"] {
        server.create(&format!("t_{}", letter.repeat(12)), &json!({"max_attempts": 1, "routes": [letter]}));
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
    server.run("task cancel t_cccccccccccc").fails_with(1, &["task_state_conflict"]);
    server.run("task delete t_bbbbbbbbbbbb").fails_with(1, &["task_running", "cancel it first"]);
    let ended = "t_cccccccccccc skipped: its status does not allow it (task_state_conflict)";
    let missing = "t_zzzzzzzzzzzz skipped: it does not exist (task_not_found)";
    let ran = server.run("task cancel t_aaaaaaaaaaaa t_cccccccccccc t_zzzzzzzzzzzz");
    let message = ran.printed("1 cancelled, 2 skipped\n").fails_with(1, &[ended, missing]);
    assert_eq!(message.lines().count(), 2, "each is said once: {message}");
}

#[test]
fn the_deletion_of_a_task_that_is_not_there_is_a_failure_unless_that_is_accepted() {
    let server = one_of_each();
    server.run("task delete t_zzzzzzzzzzzz").fails_with(1, &["t_zzzzzzzzzzzz", "task_not_found"]);
    assert_eq!(server.run("task delete t_zzzzzzzzzzzz --ignore-missing").ok(), "t_zzzzzzzzzzzz does not exist\n");
    let ran = server.run("task delete t_aaaaaaaaaaaa t_zzzzzzzzzzzz").printed("1 deleted, 1 skipped\n");
    ran.fails_with(1, &["t_zzzzzzzzzzzz skipped: it does not exist (task_not_found)"]);
    assert_eq!(server.run("task delete t_eeeeeeeeeeee t_zzzzzzzzzzzz --ignore-missing").ok(), "1 deleted, 1 skipped\n");
    // A task that runs is a failure, also then.
    assert_eq!(server.run("task delete t_bbbbbbbbbbbb t_zzzzzzzzzzzz --ignore-missing").code, Some(1));
}

#[test]
fn selected_tasks_are_changed_after_consent_and_what_is_left_out_is_counted() {
    let server = one_of_each();
    let cancel = ["task", "cancel", "--filter", "max_attempts == 1"];
    let question = "Cancel 2 tasks of queue q (1 succeeded, 1 failed, 1 cancelled left out): add --yes";
    server.run_with(&cancel).fails_with(2, &[question]);
    assert_eq!(server.count("status == \"cancelled\""), 1, "nothing was changed");
    let ran = server.run_with(&[&cancel[..], &["--yes"]].concat());
    let ran = ran.said(&["1 succeeded, 1 failed: what has ended cannot be cancelled"]);
    assert_eq!(ran.stderr.matches("what has ended").count(), 1, "{ran:?}");
    assert_eq!(ran.ok(), "2 cancelled, 3 skipped\n");
    assert_eq!(server.count("status == \"cancelled\""), 3);

    assert_eq!(server.run("task requeue --status failed -y").ok(), "1 requeued\n");
    assert_eq!(server.run("task delete --filter priority==0 --yes -o quiet").ok(), "5\n");
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
}

#[test]
fn a_selection_without_tasks_is_a_note_and_no_failure() {
    let server = one_of_each();
    for (command, done) in [("cancel", "cancelled"), ("requeue", "requeued"), ("delete", "deleted")] {
        let ran = server.run(&format!("task {command} --name nobody")).said(&["note: no task of queue q matches"]);
        assert_eq!(ran.ok(), format!("0 {done}\n"));
    }
}

#[test]
fn a_selection_of_which_nothing_can_be_changed_is_a_failure_that_says_why() {
    let server = one_of_each();
    let cases = [
        ("cancel --status succeeded", "1 succeeded: what has ended cannot be cancelled"),
        ("cancel --status cancelled", "1 is cancelled: nothing is left to cancel"),
        ("requeue --status running", "1 is running: wait for the end"),
        ("requeue --status succeeded", "1 succeeded: taskqueue task rerun"),
        ("requeue --status pending", "1 is pending: already waiting"),
        ("delete --status running", "1 is running: wait for the end"),
        ("rerun --status running", "1 is running: wait for the end"),
        ("rerun --status pending", "1 is pending: not run yet"),
    ];
    for (line, reason) in cases {
        // No question, because there is nothing to agree to.
        server.run(&format!("task {line}")).fails_with(1, &["error: nothing was changed: ", reason]);
    }
    server.submit("t_ffffffffffff", &["--route", "b"]);
    server.claim("b", 7);
    server.run("task delete --status running").fails_with(1, &["2 are running: "]);
}

#[test]
fn many_selected_tasks_are_each_changed_once() {
    let server = Server::start();
    server.run_reading("task submit --from -", &numbered_lines(2100)).ok();
    assert_eq!(server.run("task cancel --status pending --yes").ok(), "2100 cancelled\n");
    assert_eq!(server.run("task rerun --filter args.n<1000 --yes -o quiet").ok().lines().count(), 1000);
    assert_eq!(server.count("status == 'pending'"), 1000, "the copies");
    assert_eq!(server.run("task requeue --status cancelled --yes").ok(), "2100 requeued\n");
    assert_eq!(server.run("task delete --status pending --yes").ok(), "3100 deleted\n");
}

#[test]
fn ended_tasks_are_submitted_again_under_new_ids() {
    let definition = r#"--name n --arg x=1 --metadata {"m":[1]} --priority -3 --max-attempts 1 --route r --route s"#;
    let server = Server::with_task(&definition.split(' ').collect::<Vec<_>>());
    server.claim("r", 1);
    let progress = r#"{"run_id":"r_run000000001","progress":{"step":1}}"#;
    assert_eq!(server.post("tasks/t_aaaaaaaaaaaa/progress", progress), 204);
    server.complete("t_aaaaaaaaaaaa", 1);
    let copies = server.run("task rerun t_aaaaaaaaaaaa -o json").json();
    let new_id = copies[0]["new_id"].as_str().unwrap();
    assert_eq!(copies, json!([{"old_id": "t_aaaaaaaaaaaa", "new_id": new_id}]));
    let (old, new) = (server.task(A), server.task(new_id));
    for field in ["name", "args", "metadata", "priority", "max_attempts", "routes"] {
        assert_eq!(old[field], new[field], "{field}");
    }
    assert_eq!((&old["status"], &new["status"]), (&json!("succeeded"), &json!("pending")));
    assert_eq!((&new["attempt"], &new["result"]), (&json!(0), &json!({})));
    assert_eq!((&old["progress"], new.get("progress")), (&json!({"step": 1}), None));
}

#[test]
fn a_rerun_of_tasks_that_have_not_ended_or_do_not_exist_is_a_failure_and_the_others_are_submitted() {
    let server = one_of_each();
    let ran =
        server.run("task rerun t_aaaaaaaaaaaa t_bbbbbbbbbbbb t_cccccccccccc t_zzzzzzzzzzzz t_dddddddddddd -o quiet");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    let reasons = ["t_aaaaaaaaaaaa is pending: ", "t_bbbbbbbbbbbb is running: ", "t_zzzzzzzzzzzz does not exist"];
    ran.fails_with(1, &reasons);
    let question = "Rerun 3 tasks of queue q as new tasks (3 pending, 1 running left out): add --yes";
    server.run("task rerun --filter max_attempts==1").fails_with(2, &[question]);
    let ran = server.run("task rerun --filter max_attempts==1 --yes");
    assert_eq!(ran.ok().lines().count(), 4, "a head and three rows");
    assert_eq!(server.count("status == 'pending'"), 6);
}

#[test]
fn tasks_are_changed_before_they_are_requeued() {
    let server = one_of_each();
    server.run("task update --status failed --args {\"lr\":1,\"keep\":2} --yes").ok();
    // The filter no longer matches what is changed.
    let requeue = ["task", "requeue", "--filter", "args.lr == 1", "--arg", "lr=0.1", "--yes"];
    assert_eq!(server.run_with(&requeue).ok(), "1 requeued\n");
    let task = server.task("t_dddddddddddd");
    assert_eq!((&task["status"], &task["args"]), (&json!("pending"), &json!({"lr": 0.1, "keep": 2})));
    assert_eq!(server.run("task requeue t_eeeeeeeeeeee t_aaaaaaaaaaaa --arg lr=2 --meta why=oom").ok(), "2 requeued\n");
    assert_eq!(server.count("args.lr == 2 and metadata.why == 'oom' and status == 'pending'"), 2);
}

#[test]
fn what_cannot_be_requeued_is_not_changed_either() {
    let server = one_of_each();
    for id in ["t_bbbbbbbbbbbb", "t_cccccccccccc", "t_zzzzzzzzzzzz"] {
        let message = server.run(&format!("task requeue {id} --arg lr=2")).printed("").fails(1);
        assert!(!message.contains("has the new values"), "{id}: {message}");
    }
    let ran = server.run("task requeue t_bbbbbbbbbbbb t_cccccccccccc t_dddddddddddd --arg lr=2");
    ran.printed("1 requeued, 2 skipped\n").fails(1);
    assert_eq!(server.count("exists(args.lr)"), 1);
    server.run("task requeue t_dddddddddddd --arg lr=null").fails_with(2, &["--unset-arg lr"]);
}

#[test]
fn selected_tasks_are_changed_with_no_request_for_each() {
    let server = one_of_each();
    let proxy = Proxy::start(&server, |request| {
        assert!(!request.contains("/tasks/t_"), "{request}");
        Fate::Passed
    });
    for line in ["cancel --filter max_attempts==1", "requeue --status failed", "delete --filter priority==0"] {
        server.run(&format!("task {line} --yes --url {}", proxy.url)).ok();
    }
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
}
