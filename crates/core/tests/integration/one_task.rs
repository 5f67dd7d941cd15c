//! One task, and what claims, reports and actions make of it.

use taskqueue_core::lifecycle;
use taskqueue_core::lifecycle::Claimant;

use crate::prelude::*;

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_000_000);

pub(crate) fn run(n: u32) -> RunId {
    RunId::parse(&format!("r_{n:012}")).unwrap()
}

pub(crate) fn task() -> Task {
    let definition = Definition { max_attempts: 9, ..Definition::default() };
    Task { definition, lifecycle: Lifecycle::created(NOW, 1), ..new_task() }
}

pub(crate) fn changed(task: &Task, change: &Change) -> Task {
    let mut after = Task { lifecycle: change.lifecycle.clone(), ..task.clone() };
    change.apply_to_outcome(&mut after.outcome);
    assert_eq!(change.head_after(&task.head()), after.head());
    after
}

pub(crate) fn claim_change(task: &Task, n: u32, worker: Option<&JsonObject>) -> Change {
    let claimant = Claimant { route: &route("default"), run_id: run(n), worker };
    lifecycle::claim(&task.head(), &task.outcome, claimant, NOW).unwrap().change
}

pub(crate) fn reported(task: &Task, n: u32, report: &RunReport) -> Result<Task, Refusal> {
    let change = lifecycle::report_run(&task.head(), run(n), report, NOW, 7).map_err(|refused| refused.refusal)?;
    Ok(changed(task, &change.unwrap()))
}

pub(crate) fn acted(task: &Task, action: TaskAction) -> Task {
    changed(task, &lifecycle::act(&task.head(), action, NOW, 7).unwrap().unwrap())
}

pub(crate) fn fails() -> RunReport {
    RunReport::Fail { failure: failure(), retry: true, retry_after: None }
}
