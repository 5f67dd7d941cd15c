//! What is counted: every change of a task once, however it came about, in rows that add up and end with their queue. What is read
//! of it is in `stats.rs`.

use std::collections::BTreeMap;

use taskqueue_core::activity::{Activity, Record, Span};

use super::bulk_actions::one_by_one;
use super::prelude::*;
use crate::activity::{ActivityRow, ProcessId};

async fn series(fixture: &Fixture, in_queue: &str, selection: SeriesSelection) -> ActivitySeries {
    fixture.store.activity_series(&queue(in_queue), selection).await.unwrap()
}

pub(super) const MINUTES: SeriesSelection = SeriesSelection { unit: Unit::Minute, from: None, to: None };
const HOURS: SeriesSelection = SeriesSelection { unit: Unit::Hour, from: None, to: None };

/// All that was counted of `q`. Created, claimed, succeeded, failed, released, expired, cancelled.
pub(super) async fn counted(fixture: &Fixture, selection: SeriesSelection) -> [u64; 7] {
    let mut counts = Counts::default();
    for (_, activity) in series(fixture, "q", selection).await.spans {
        counts.merge(&activity.counts);
    }
    numbers(&counts)
}

async fn key_of(fixture: &Fixture) -> QueueKey {
    fixture.store.list_queue_keys().await.unwrap()[0].0
}

pub async fn a_lease_that_a_late_report_ends_has_expired_once(fixture: Fixture) {
    fixture.create_running(1, with_budget(3)).await;
    fixture.pass(LEASE_SECONDS - 1).await;
    fixture.clock.advance_seconds(1);
    fixture.refused(complete("q", 1, 1, object("{}"))).await;
    fixture.refused(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(fixture.scan().await.expired_runs, 0);
    assert_eq!(counted(&fixture, HOURS).await, [1, 1, 0, 0, 0, 1, 0]);
}

/// The tasks of `q`, by id, with their places in the pending order.
async fn tasks(fixture: &Fixture) -> BTreeMap<TaskId, Task> {
    fixture.placed_tasks("q").await.into_iter().map(|task| (task.id, task)).collect()
}

/// Counts what a command did, by comparing all tasks before and after. One that is created or requeued and waits for a task that has
/// failed may be cancelled at once: then it was pending in between.
fn add_changes(counts: &mut Activity, before: &BTreeMap<TaskId, Task>, after: &BTreeMap<TaskId, Task>, now: Timestamp) {
    for (id, task) in after {
        let known = before.get(id).map(|known| &known.lifecycle);
        let requeued = known.filter(|known| known.pending_seq != task.lifecycle.pending_seq && known.run.is_none());
        let pending = (known.is_none() || requeued.is_some()).then(|| Lifecycle {
            status: Status::Pending,
            run: None,
            ..task.lifecycle.clone()
        });
        if known.is_none() {
            counts.add(Record::CREATED);
        }
        let between = pending.as_ref().or(known);
        let record = between.and_then(|between| Record::of_change(between, &task.lifecycle, now));
        record.into_iter().for_each(|record| counts.add(record));
    }
}

pub async fn what_is_counted_is_what_changed(fixture: Fixture) {
    let (mut generator, mut expected, mut before) = (Generator::new(18), Activity::default(), BTreeMap::new());
    for _ in 0..400 {
        match generator.step() {
            Step::Write(AnyCommand::DeleteQueue(_)) | Step::Reopen => continue,
            // Each task in turn: what is cancelled when its dependency is deleted, and then deleted too, was a change.
            Step::Write(AnyCommand::ActOnTasks(act)) if act.action == BulkAction::Delete && act.queue == queue("q") => {
                for deletion in one_by_one(&fixture, &act).await {
                    let answer = fixture.write(deletion.clone()).await;
                    generator.learn(&deletion, &answer);
                    let after = tasks(&fixture).await;
                    add_changes(&mut expected, &before, &after, fixture.now());
                    before = after;
                }
            }
            Step::Write(command) => {
                let answer = fixture.write(command.clone()).await;
                generator.learn(&command, &answer);
            }
            Step::Pass(micros) => {
                fixture.clock.advance_micros(micros);
                continue;
            }
            // Meanwhile runs may expire, each once: nobody claims.
            Step::Live(seconds) => drop(fixture.pass(seconds).await),
        }
        let after = tasks(&fixture).await;
        add_changes(&mut expected, &before, &after, fixture.now());
        before = after;
    }
    let mut known = Activity::default();
    series(&fixture, "q", MINUTES).await.spans.iter().for_each(|(_, activity)| known.merge(activity));
    assert_eq!(known, expected);
    assert!(Event::ALL.into_iter().all(|event| known.counts.of(event) > 0), "{known:?}");
}

pub async fn rows_of_all_processes_add_up_and_saving_again_replaces(fixture: Fixture) {
    fixture.create(1, with_budget(1)).await;
    let (queue, span) = (key_of(&fixture).await, Span::of(Unit::Minute, START));
    let mut activity = Activity::default();
    for (process, created, expected) in [(1, 2, 3), (2, 5, 8), (1, 3, 9), (-1, 1, 10), (2, 5, 10)] {
        activity.counts = Counts::default();
        activity.counts.add(Event::Created, created);
        let rows = vec![ActivityRow { queue, span, activity: activity.clone() }];
        let now = fixture.ok(SaveActivity { process: ProcessId(process), rows }).await;
        assert_eq!(now, fixture.now());
        assert_eq!(counted(&fixture, MINUTES).await, [expected, 0, 0, 0, 0, 0, 0]);
    }
    assert_eq!(counted(&fixture, HOURS).await, [1, 0, 0, 0, 0, 0, 0], "spans of another unit are others");
}

/// More than are saved with one command.
pub async fn many_queues_are_counted_apart(fixture: Fixture) {
    let names: Vec<String> = (0..120).rev().map(|n| format!("q{n}")).collect();
    for name in &names {
        fixture.ok(create_queue(name)).await;
        fixture.ok(create(name, 1, with_budget(1))).await;
    }
    save_activity(&*fixture.store).await.unwrap();
    let keys = fixture.store.list_queue_keys().await.unwrap();
    let known: Vec<&str> = keys.iter().skip(1).map(|(_, name)| name.as_str()).collect();
    assert_eq!(known, names, "in the order of their creation");
    for name in &names {
        let spans = series(&fixture, name, HOURS).await.spans;
        assert_eq!(spans.iter().map(|(_, activity)| activity.counts.of(Event::Created)).collect::<Vec<_>>(), [1]);
    }
}

pub async fn any_bounds_of_a_series_are_answered(fixture: Fixture) {
    fixture.create(1, with_budget(1)).await;
    save_activity(&*fixture.store).await.unwrap();
    let time = |text: &str| Some(Timestamp::parse(text).unwrap());
    let (first, last) = (time("0001-01-01T00:00:00Z"), time("9999-12-31T23:59:59Z"));
    let (now, before) = (Some(fixture.now()), Some(fixture.now().plus_seconds(-1)));
    let cases = [
        (first, last, 1),
        (last, first, 0),
        (first, None, 1),
        (None, last, 1),
        (None, first, 0),
        (last, None, 0),
        (now, now, 0),
        (before, now, 0),
    ];
    for unit in Unit::ALL {
        for (from, to, expected) in cases {
            let found = series(&fixture, "q", SeriesSelection { unit, from, to }).await;
            assert_eq!((found.unit, found.spans.len()), (unit, expected), "{unit:?} {from:?} {to:?}");
        }
    }
}

/// A clock that was wrong has counted minutes that are still to come.
pub async fn what_was_counted_for_a_later_hour_did_not_happen_in_the_last_one(fixture: Fixture) {
    let queue_key = key_of(&fixture).await;
    let mut activity = Activity::default();
    activity.add(Record { event: Event::Claimed, micros: Some(1) });
    for seconds in [59, 7_200] {
        let span = Span::of(Unit::Minute, START.plus_seconds(seconds));
        let rows = vec![ActivityRow { queue: queue_key, span, activity: activity.clone() }];
        fixture.ok(SaveActivity { process: ProcessId(seconds), rows }).await;
    }
    let stats = fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap();
    assert_eq!(stats.last_hour.of(Event::Claimed), 1);
}
