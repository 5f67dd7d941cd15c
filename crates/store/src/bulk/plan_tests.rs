//! What a plan counts and changes when some of its tasks are decided again.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::task::{Lifecycle, Outcome};
use taskqueue_core::time::Timestamp;

use super::*;
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::task::Status;

fn task(number: i64, status: Status, priority: i64) -> Task {
    Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse(&format!("t_{number:012}")).unwrap(),
        definition: Definition { priority, ..Definition::default() },
        lifecycle: Lifecycle { status, ..Lifecycle::created(Timestamp::from_micros(1), number) },
        outcome: Outcome::empty(),
    }
}

/// To priority 5, whatever is below 10.
fn bulk() -> BulkUpdate {
    let update = Update { priority: Some(5), ..Update::default() };
    let selection = Update::selection(TaskFilter::parse("priority < 10").unwrap(), false);
    BulkUpdate { queue: QueueName::parse("q").unwrap(), selection, update }
}

/// 1 and 3 change, 2 and 4 match and stay.
fn plan(bulk: &BulkUpdate) -> Plan {
    let mut planner = Planner::new(QueueKey(1), &bulk.update);
    for (number, priority) in [(3, 0), (2, 5), (4, 5), (1, 1)] {
        assert!(planner.decide(TaskKey(number), &task(number, Status::Pending, priority)).is_continue());
    }
    planner.finish().unwrap()
}

fn changed(plan: &Plan) -> Vec<i64> {
    let mut keys: Vec<i64> = plan.changes().map(|(key, _)| key.0).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn what_is_decided_again_counts_instead_of_what_was_decided_before() {
    let bulk = bulk();
    type Case = (&'static str, i64, Option<Task>, u64, &'static [i64]);
    let cases: [Case; 8] = [
        ("a changing one is gone", 1, None, 3, &[3]),
        ("a changing one runs", 1, Some(task(1, Status::Running, 1)), 3, &[3]),
        ("a changing one does not match any more", 3, Some(task(3, Status::Pending, 10)), 3, &[1]),
        ("a changing one has the value now", 3, Some(task(3, Status::Pending, 5)), 4, &[1]),
        ("an unchanged one is gone", 2, None, 3, &[1, 3]),
        ("an unchanged one changes now", 2, Some(task(2, Status::Pending, 6)), 4, &[1, 2, 3]),
        ("a new one changes", 9, Some(task(9, Status::Cancelled, 0)), 5, &[1, 3, 9]),
        ("a new one does not match", 9, Some(task(9, Status::Pending, 11)), 4, &[1, 3]),
    ];
    for (why, number, now, matched, changes) in cases {
        let mut plan = plan(&bulk);
        // Twice: what was decided last counts.
        let (key, found) = (TaskKey(number), now.map(|task| (TaskKey(number), task)));
        plan.decide_again(&bulk, &[key], &[(key, task(number, Status::Pending, 0))]).unwrap();
        plan.decide_again(&bulk, &[key], found.as_slice()).unwrap();
        assert_eq!((plan.matched(), changed(&plan)), (matched, changes.to_vec()), "{why}");
        assert_eq!(plan.unchanged().count() + changes.len(), matched as usize, "{why}");
    }
}
