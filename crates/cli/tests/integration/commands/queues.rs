//! `taskqueue queue ...`

use super::support::{A, B, C, Server};

#[test]
fn queues_are_created_listed_and_deleted() {
    let server = Server::start();
    assert_eq!(server.run("queue create gpu").ok(), "queue gpu created\n");
    assert_eq!(server.run("queue create gpu").ok(), "queue gpu already there\n");
    let listed = server.run("queue list").ok();
    let first: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(first, ["NAME", "gpu", "q"]);
    assert_eq!(server.run("queue list -o json").ok(), "[\n{\"name\":\"gpu\"},\n{\"name\":\"q\"}\n]\n");
    assert_eq!(server.run("queue list -o jsonl").ok(), "{\"name\":\"gpu\"}\n{\"name\":\"q\"}\n");
    assert_eq!(server.run("queue list --output quiet").ok(), "gpu\nq\n");
    assert_eq!(server.run("queue delete gpu").ok(), "queue gpu deleted\n");
    assert_eq!(server.run("queue delete q -o quiet").ok(), "q\n");
    assert_eq!(server.run("queue list").ok(), "");
    assert_eq!(server.run("queue list -o csv").ok(), "name\n");
    assert_eq!(server.run("queue list -o json").ok(), "[]\n");
}

#[test]
fn the_list_of_queues_shows_how_many_tasks_each_has() {
    let server = Server::with_tasks(&[A, B, C]);
    server.run("queue create empty").ok();
    server.claim("default", 1);
    server.run("task cancel t_bbbbbbbbbbbb").ok();
    server.run("queue list").shows(&[
        "NAME   PENDING  RUNNING  SUCCEEDED  FAILED  CANCELLED",
        "empty        0        0          0       0          0",
        "q            1        1          0       0          1",
    ]);
    assert_eq!(server.run("queue list -o csv").ok(), "name\nempty\nq\n");
}

#[test]
fn a_queue_with_tasks_is_deleted_only_with_cascade_and_consent() {
    let server = Server::with_tasks(&[A]);
    let refused = server.run("queue delete q").fails(1);
    assert_eq!(refused, "error: queue q has 1 task (queue_not_empty); --cascade deletes them, too\n");
    server.run("queue delete q --cascade").fails_with(2, &["queue q with 1 task", "--yes"]);
    assert_eq!(server.run("queue delete q --cascade --yes").ok(), "queue q deleted\n");
    server.run("queue create empty").ok();
    assert_eq!(server.run("queue delete empty --cascade").ok(), "queue empty deleted\n");
}

#[test]
fn running_tasks_keep_their_queue_and_the_message_says_how_to_end_them() {
    let server = Server::claimed();
    let refused = server.run("queue delete q --cascade --yes").fails(1);
    let advice = "cancel them first: taskqueue task cancel --queue q --status running";
    assert_eq!(refused, format!("error: queue q has 1 running task (queue_has_running_tasks); {advice}\n"));
}
