//! What is noted of ended tasks, and when: a look into the file beside the store.

use std::time::{Duration, Instant};

use taskqueue_core::definition::Definition;
use taskqueue_core::settings::{RetentionPatch, SettingsPatch};
use taskqueue_store::command::{Lookup, Upkeep, Upkept};
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{Store, StoreExt};

use crate::opened_tests::Opened;

impl Opened {
    /// One step, by the writer.
    async fn step(&self) -> Upkept {
        self.ok(Upkeep).await
    }

    /// All steps; gives how many tasks were deleted.
    async fn upkeep(&self) -> u64 {
        let mut deleted = 0;
        loop {
            let done = self.step().await;
            deleted += done.deleted;
            if !done.more {
                return deleted;
            }
        }
    }

    /// Creates these tasks, and completes them.
    async fn end(&self, tasks: std::ops::Range<usize>) {
        self.ok(create_all(tasks.clone())).await;
        self.ok(claim_all(tasks.clone())).await;
        self.ok(report_all(tasks.map(|id| complete("q", id, id, object("{}")).into()))).await;
    }

    /// Whether no upkeep is due. The writer may still be about to publish what it knows.
    fn has_nothing_to_do(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.store.finds_nothing(Lookup::Upkeep) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

/// Keeps tasks of a state for so many seconds, or for ever.
fn kept(succeeded: Option<u64>, cancelled: Option<u64>) -> SettingsPatch {
    let retention = RetentionPatch {
        succeeded_seconds: Some(succeeded),
        cancelled_seconds: Some(cancelled),
        ..RetentionPatch::default()
    };
    SettingsPatch { retention, ..SettingsPatch::default() }
}

#[tokio::test]
async fn nothing_is_noted_in_a_queue_that_keeps_its_tasks() {
    let opened = Opened::new().await;
    opened.end(0..3).await;
    assert_eq!((opened.count("ended"), opened.has_nothing_to_do()), (0, true));
    opened.ok(change_settings("q", kept(None, Some(5)))).await;
    opened.upkeep().await;
    opened.end(3..6).await;
    assert_eq!((opened.count("ended"), opened.has_nothing_to_do()), (0, true), "another state is kept for ever");
}

#[tokio::test]
async fn an_upkeep_is_due_exactly_when_a_task_is() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(5), None))).await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep), "the tasks of the queue are to be read");
    opened.upkeep().await;
    opened.end(0..2).await;
    let opened = opened.again().await;
    assert!(opened.has_nothing_to_do());
    opened.clock.advance_seconds(5);
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    assert_eq!(opened.upkeep().await, 2);
    assert!(opened.has_nothing_to_do());
    assert_eq!(opened.count("ended"), 0);
}

#[tokio::test]
async fn the_tasks_of_a_queue_are_read_in_steps_that_go_on_after_a_restart() {
    let mut opened = Opened::new().await;
    for first in (0..2_500).step_by(500) {
        opened.end(first..first + 500).await;
    }
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    for noted in [1_000, 2_000, 2_500] {
        let more = opened.step().await.more;
        assert_eq!((opened.count("ended"), more), (noted, noted < 2_500));
        opened = opened.again().await;
    }
    assert_eq!(opened.count("ended_reads"), 0);
    opened.clock.advance_seconds(60);
    assert_eq!(opened.upkeep().await, 2_500);
    assert_eq!((opened.count("ended"), opened.count("tasks")), (0, 0));
}

#[tokio::test]
async fn tasks_that_are_not_noted_are_read_in_larger_steps() {
    let opened = Opened::new().await;
    for first in (0..4_500).step_by(500) {
        opened.ok(create_all(first..first + 500)).await;
    }
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    assert_eq!([opened.step().await.more, opened.step().await.more], [true, false]);
    assert_eq!((opened.count("ended"), opened.count("ended_reads")), (0, 0));
}

#[tokio::test]
async fn what_is_requeued_or_deleted_is_not_noted_any_more() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(60), Some(60)))).await;
    opened.upkeep().await;
    opened.end(0..3).await;
    opened.ok(create("q", 3, Definition::default())).await;
    opened.ok(cancel("q", 3)).await;
    assert_eq!(opened.count("ended"), 4);
    opened.ok(delete("q", 1)).await;
    opened.ok(requeue("q", 3)).await;
    assert_eq!(opened.count("ended"), 2);
}

/// The end of a task that never ran is its latest update.
#[tokio::test]
async fn an_update_of_a_task_that_never_ran_keeps_it_for_longer() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(None, Some(60)))).await;
    opened.ok(create("q", 1, Definition::default())).await;
    opened.ok(cancel("q", 1)).await;
    opened.clock.advance_seconds(40);
    opened.ok(update("q", 1, to_priority(5))).await;
    opened.clock.advance_seconds(20);
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 1));
    opened.clock.advance_seconds(40);
    assert_eq!((opened.upkeep().await, opened.count("ended")), (1, 0));
}

#[tokio::test]
async fn what_was_noted_goes_with_the_retention_and_with_the_queue() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    opened.upkeep().await;
    opened.end(0..700).await;
    opened.ok(change_settings("q", kept(None, None))).await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    assert!(opened.step().await.more, "some at a time");
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 0));
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    opened.upkeep().await;
    assert_eq!(opened.count("ended"), 700);
    opened.ok(delete_queue("q", true)).await;
    let opened = opened.again().await;
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 0));
    assert!(opened.has_nothing_to_do());
}

#[tokio::test]
async fn no_queue_waits_until_all_tasks_of_another_one_are_deleted() {
    let opened = Opened::new().await;
    opened.ok(create_queue("r")).await;
    for name in ["q", "r"] {
        opened.ok(change_settings(name, kept(Some(60), Some(60)))).await;
    }
    opened.upkeep().await;
    opened.end(0..900).await;
    opened.ok(create("r", 1, Definition::default())).await;
    opened.ok(cancel("r", 1)).await;
    opened.clock.advance_seconds(60);
    let deleted = [opened.step().await.deleted, opened.step().await.deleted, opened.step().await.deleted];
    assert_eq!(deleted.iter().sum::<u64>(), 3 * 250);
    assert_eq!(opened.store.count_tasks(&queue("r"), all()).await, Ok(0));
    assert_eq!(opened.upkeep().await, 901 - 3 * 250);
}
