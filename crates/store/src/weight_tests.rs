//! What commands weigh, and when a bulk update weighs too much.

use taskqueue_core::definition::Definition;
use taskqueue_core::update::Update;

use super::*;
use crate::conformance::commands::*;

fn ids(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn stored(definition: Definition) -> Task {
    use taskqueue_core::task::{Lifecycle, Outcome};
    use taskqueue_core::time::Timestamp;
    let lifecycle = Lifecycle::created(Timestamp::from_micros(1), 1);
    Task { queue: queue("q"), id: task_id(1), definition, lifecycle, outcome: Outcome::empty() }
}

#[test]
fn a_new_task_weighs_its_bytes_routes_and_dependencies() {
    let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
    let cases = [
        (Definition::default(), 1),
        (Definition { args: object_of_bytes(40_960), ..Definition::default() }, 11),
        (with_routes(&names), 17),
        (waits_for(&ids(1_000)), 251),
    ];
    for (definition, items) in cases {
        assert_eq!(of_new_task(&definition.into()), items);
    }
}

#[test]
fn a_transaction_is_full_when_it_has_looked_up_as_many_dependencies_as_fit() {
    let mut done = Done::default();
    done.dependencies(4_095);
    assert!(!done.is_full());
    done.dependencies(1);
    assert!(done.is_full());
}

#[test]
fn what_tasks_waited_for_before_weighs_as_well_and_other_updates_weigh_nothing() {
    let waiting = stored(waits_for(&ids(1_000)));
    let nothing = Update { dependencies: Some(dependencies(&[])), ..Update::default() };
    let (mut weight, mut light) = (BulkWeight::default(), BulkWeight::default());
    (0..33).for_each(|_| weight.add(&nothing, &waiting));
    assert!(weight.check().is_err());
    let updates = [
        Update { priority: Some(1), ..Update::default() },
        Update { routes: Some(with_routes(&["a", "b"]).routes), ..Update::default() },
    ];
    (0..100_000).for_each(|n| light.add(&updates[n % 2], &waiting));
    assert_eq!(light.check(), Ok(()));
}

#[test]
fn the_routes_that_pending_tasks_have_weigh_where_they_move_in_the_pending_order() {
    let names: Vec<String> = (0..256).map(|n| format!("r{n}")).collect();
    let task = stored(with_routes(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    let is_refused = |update: &Update, task: &Task| {
        let mut weight = BulkWeight::default();
        (0..513).for_each(|_| weight.add(update, task));
        weight.check().is_err()
    };
    let to_priority = Update { priority: Some(1), ..Update::default() };
    assert!(is_refused(&to_priority, &task));
    let named = Update { name: Some(None), ..Update::default() };
    assert!(!is_refused(&named, &task), "they stay where they are");
    let mut ended = task;
    ended.lifecycle.status = Status::Cancelled;
    assert!(!is_refused(&to_priority, &ended), "they are nowhere");
}
