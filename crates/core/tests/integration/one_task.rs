//! One task, and what a claim makes of it.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::{self, Change, Claimant};
use taskqueue_core::task::{Lifecycle, Outcome, Task};
use taskqueue_core::time::Timestamp;

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_000_000);

pub(crate) fn run(n: u32) -> RunId {
    RunId::parse(&format!("r_{n:012}")).unwrap()
}

pub(crate) fn task() -> Task {
    Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse("t_abcdefghijkl").unwrap(),
        definition: Definition { max_attempts: 9, ..Definition::default() },
        lifecycle: Lifecycle::created(NOW, 1),
        outcome: Outcome::empty(),
    }
}

pub(crate) fn changed(task: &Task, change: &Change) -> Task {
    let mut after = Task { lifecycle: change.lifecycle.clone(), ..task.clone() };
    change.apply_to_outcome(&mut after.outcome);
    assert_eq!(change.head_after(&task.head()), after.head());
    after
}

pub(crate) fn claim_change(task: &Task, n: u32, worker: Option<&JsonObject>) -> Change {
    let route = Route::parse("default").unwrap();
    let claimant = Claimant { route: &route, run_id: run(n), worker };
    lifecycle::claim(&task.head(), &task.outcome, claimant, NOW).unwrap().change
}
