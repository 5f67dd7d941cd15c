//! Delayed and blocked tasks in the claim index: where they are, how many become claimable at a time, and that a claim does not
//! notice them.

use std::time::{Duration, Instant};

use super::*;
use crate::waiting_tasks::WaitingLists;
use taskqueue_store::conformance::commands::{claim, queue, routes};

const QUEUE: QueueKey = QueueKey(1);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn index() -> ClaimIndex {
    let mut index = ClaimIndex::default();
    index.add_queue(queue("q"), QUEUE);
    index
}

fn entry(routes: &Routes, task: i64, not_before: Option<i64>, blocked: bool) -> PendingEntry<'_> {
    PendingEntry { routes, priority: 0, pending_seq: task, not_before: not_before.map(at), blocked }
}

/// Adds a task of this route whose time comes at `not_before`.
fn delay(index: &mut ClaimIndex, route: &str, task: i64, not_before: i64) {
    index.add_pending(QUEUE, TaskKey(task), entry(&routes(&[route]), task, Some(not_before), false), at(0));
}

#[test]
fn delayed_tasks_become_claimable_some_at_a_time_and_a_claim_goes_on_until_it_has_one() {
    let mut index = index();
    (1..=10).for_each(|task| delay(&mut index, "a", task, 5));
    delay(&mut index, "b", 11, 6);
    delay(&mut index, "b", 12, 7);
    assert_eq!(index.release_due(at(4), 100), 0);
    assert_eq!(index.release_due(at(6), 3), 3);
    assert_eq!((index.pending(QUEUE, "a"), index.pending(QUEUE, "b")), (3, 0));
    assert_eq!(index.release_for(QUEUE, "a", at(6)), 0, "there is one");
    assert_eq!(index.release_for(QUEUE, "b", at(6)), 8, "those before it become claimable, too");
    assert_eq!(index.first_pending(QUEUE, "b"), Some(TaskKey(11)));
    assert_eq!(index.release_for(QUEUE, "c", at(6)), 0, "12 is not due");
}

#[test]
fn a_task_that_has_become_claimable_stays_so_if_the_clock_goes_back_and_can_be_removed() {
    let mut index = index();
    delay(&mut index, "a", 1, 5);
    assert_eq!(index.release_due(at(5), 100), 1);
    let claim = claim("q", "a", 1);
    assert!(!index.finds_nothing((&claim).into(), || at(3)));
    assert_eq!(index.release_due(at(3), 100), 0);
    assert_eq!(index.first_pending(QUEUE, "a"), Some(TaskKey(1)));
    index.remove_pending(QUEUE, TaskKey(1), entry(&routes(&["a"]), 1, Some(5), false));
    assert!(index.finds_nothing((&claim).into(), || at(9)));
    assert_eq!((index.pending_bytes, index.waiting.bytes()), (0, 0));
}

#[test]
fn delayed_and_blocked_tasks_are_living_and_count_towards_the_memory_of_their_queue() {
    let mut index = index();
    let names = routes(&["a"]);
    index.add_pending(QUEUE, TaskKey(1), entry(&names, 1, None, false), at(0));
    index.add_pending(QUEUE, TaskKey(2), entry(&names, 2, Some(5), false), at(0));
    index.add_pending(QUEUE, TaskKey(3), entry(&names, 3, Some(5), true), at(0));
    let pending = Statuses::NONE.with(Status::Pending);
    assert_eq!(index.living(&queue("q"), pending, 3), Some([1, 2, 3].map(TaskKey).to_vec()));
    assert_eq!(index.living(&queue("q"), pending, 2), None);
    let all = index.pending_bytes + index.waiting.bytes();
    assert!(index.waiting.bytes_of(QUEUE) > 0);
    for (most_bytes, expected) in [(all, false), (2 * all, true)] {
        index.room = Room::within(most_bytes);
        assert_eq!(index.has_room(QUEUE, 0, 0), expected);
    }
    assert_eq!(index.release_due(at(5), 100), 1, "the blocked one stays where it is");
    for (task, not_before, blocked) in [(1, None, false), (2, Some(5), false), (3, Some(5), true)] {
        index.remove_pending(QUEUE, TaskKey(task), entry(&names, task, not_before, blocked));
    }
    assert_eq!((index.pending_bytes, index.waiting.bytes()), (0, 0));
}

/// The time of many claims, each at the beginning of a batch of its own.
fn time_of_claims(index: &mut ClaimIndex) -> Duration {
    let begun = Instant::now();
    for _ in 0..20_000 {
        assert_eq!(index.release_due(at(4), 1_000), 0);
        index.release_for(QUEUE, "a", at(4));
        assert_eq!(index.first_pending(QUEUE, "a"), Some(TaskKey(1)));
    }
    begun.elapsed()
}

#[test]
fn a_million_delayed_tasks_do_not_slow_claims_down() {
    let mut index = index();
    index.add_pending(QUEUE, TaskKey(1), entry(&routes(&["a"]), 1, None, false), at(0));
    let alone = time_of_claims(&mut index);
    let mut lists = WaitingLists::default();
    for task in 2..1_000_002 {
        lists.add_delayed(QUEUE, (at(5 + task), TaskKey(task)), (Reverse(0), task), r#"["a"]"#);
    }
    index.waiting = lists.into_tasks();
    let beside = time_of_claims(&mut index);
    // A walk over them would take a thousand times as long. The machine may be busy.
    assert!(beside < 20 * alone + Duration::from_millis(200), "{alone:?} alone, {beside:?} beside a million");
}
