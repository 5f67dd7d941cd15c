//! What the rows of a transaction say of the tasks that it holds, and of those that it has only read.

use taskqueue_core::definition::Definition;
use taskqueue_core::task::Lifecycle;
use taskqueue_store::conformance::commands::{queue, route, task_id};

use super::*;

const QUEUE: QueueKey = QueueKey(7);

fn entry(key: TaskKey, status: Status, held: bool) -> Entry {
    let task = Task {
        queue: queue("q"),
        id: task_id(key.0),
        definition: Definition::default(),
        lifecycle: Lifecycle { status, ..Lifecycle::created(Timestamp::default(), key.0) },
        outcome: Outcome::empty(),
    };
    Entry { held, ..Entry::loaded(QUEUE, task.head()) }
}

/// I13: another server may have requeued a task since it was read, and then a claim must not be told that there is nothing.
#[test]
fn a_task_that_was_only_read_may_be_claimable_again() {
    let mut rows = TransactionRows::default();
    for (key, status, held) in [
        (1, Status::Running, true),
        (2, Status::Running, false),
        (3, Status::Pending, true),
        (4, Status::Pending, false),
        (5, Status::Pending, true),
    ] {
        rows.tasks.insert(TaskKey(key), entry(TaskKey(key), status, held));
    }
    rows.picks.insert((QUEUE, route("default")), [TaskKey(5)].into());
    let mut ours = rows.unready_or_picked(QUEUE, &route("default"), Timestamp::default());
    ours.sort_unstable();
    assert_eq!(ours, [1, 5], "claimed here, and held for a claim");
}
