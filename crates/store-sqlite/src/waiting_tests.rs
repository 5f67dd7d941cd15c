//! What is noted of tasks that wait, in the file: what a look beside the store finds there.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::TaskId;
use taskqueue_store::Store;
use taskqueue_store::command::{Lookup, Upkeep};
use taskqueue_store::conformance::commands::*;

use crate::opened_tests::{BEGIN, Opened};

impl Opened {
    /// The task that the next claim of the run gets.
    async fn claimed(&self, run: usize) -> Option<TaskId> {
        self.ok(claim("q", "default", run)).await.map(|claimed| claimed.task.id)
    }
}

#[tokio::test]
async fn delayed_and_blocked_tasks_are_found_again_at_a_start() {
    let opened = Opened::new().await;
    opened.ok(create_later(1, Definition::default(), BEGIN.plus_seconds(30))).await;
    opened.ok(create("q", 2, waits_for(&[3]))).await;
    let opened = opened.again().await;
    assert_eq!(opened.claimed(1).await, None);
    opened.ok(create("q", 3, with_priority(9))).await;
    assert_eq!(opened.claimed(2).await, Some(task_id(3)));
    let opened = opened.again().await;
    opened.clock.advance_seconds(30);
    assert_eq!(opened.claimed(3).await, Some(task_id(1)));
    opened.ok(complete("q", 3, 2, object("{}"))).await;
    assert_eq!(opened.claimed(4).await, Some(task_id(2)), "the start knows that something waits");
}

#[tokio::test]
async fn a_task_that_goes_takes_what_is_noted_for_it_along() {
    let opened = Opened::new().await;
    opened.ok(create("q", 1, waits_for(&[2, 3, 4]))).await;
    opened.ok(create("q", 5, waits_for(&[2]))).await;
    assert_eq!(opened.count("dependencies"), 4);
    opened.ok(delete("q", 1)).await;
    assert_eq!(opened.count("dependencies"), 1);
    let none = taskqueue_core::update::Update {
        dependencies: Some(dependencies(&[])),
        ..taskqueue_core::update::Update::default()
    };
    opened.ok(update("q", 5, none)).await;
    assert_eq!(opened.count("dependencies"), 0);
    assert_eq!(opened.claimed(1).await, Some(task_id(5)));
}

/// Whoever completes a task and then claims finds what waited for it, also what the completion has left to the upkeep.
#[tokio::test]
async fn a_claim_that_finds_nothing_settles_what_was_left_in_its_queue_first() {
    let opened = Opened::new().await;
    opened.ok(create_queue("r")).await;
    for name in ["q", "r"] {
        opened.ok(create(name, 0, Definition::default())).await;
        for id in 1..=300 {
            opened.ok(create(name, id, waits_for(&[0]))).await;
        }
    }
    opened.ok(cancel("r", 0)).await;
    assert_eq!(opened.claimed(1_000).await, Some(task_id(0)));
    opened.ok(complete("q", 0, 1_000, object("{}"))).await;
    assert_eq!(opened.count("unsettled"), 2);
    for run in 1..=300 {
        assert!(opened.claimed(1_000 + run).await.is_some(), "claim {run}");
    }
    assert_eq!(opened.claimed(2_000).await, None);
    assert_eq!(opened.count("unsettled"), 1, "of the other queue");
}

#[tokio::test]
async fn dependents_beyond_a_thousand_are_settled_by_the_upkeep_and_go_with_their_queue() {
    let opened = Opened::new().await;
    opened.ok(create("q", 0, Definition::default())).await;
    for id in 1..=1_100 {
        opened.ok(create("q", id, waits_for(&[0]))).await;
    }
    opened.ok(cancel("q", 0)).await;
    assert_eq!(opened.count("unsettled"), 1);
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    let opened = opened.again().await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep), "a start knows of it");
    while opened.ok(Upkeep).await.more {}
    // The writer says so a moment after its answer.
    while !opened.store.finds_nothing(Lookup::Upkeep) {
        tokio::task::yield_now().await;
    }
    assert_eq!(opened.count("unsettled"), 0);
    assert_eq!(opened.count("dependencies WHERE state = 3"), 1_100);
    opened.ok(requeue("q", 0)).await;
    assert_eq!(opened.count("unsettled"), 1);
    opened.ok(delete_queue("q", true)).await;
    assert_eq!(opened.count("unsettled"), 0);
    // The writer purges while it has nothing else to do, and has done so when it is closed or asked again.
    let mut opened = opened;
    while opened.count("purges") > 0 {
        opened = opened.again().await;
        opened.ok(create_queue("r")).await;
    }
    assert_eq!((opened.count("dependencies"), opened.count("tasks")), (0, 0));
}
