//! Bulk actions that others come in between of: before their first portion, and between two. Each task is decided as it is when
//! its turn comes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::activity::{MINUTES, counted};
use super::bulk::GatedBench;
use super::prelude::*;
use crate::bulk::Gate;

use BulkAction::{Cancel, Delete, Requeue};

/// More tasks than the first portion of an action has.
const MANY: usize = 600;
/// Tasks that wait for each other.
const LENGTH: usize = 400;

/// A store with so many tasks of one name.
async fn with_tasks(fixture: Fixture, tasks: usize) -> GatedBench {
    fixture.create_many((0..tasks).map(|id| (id, named("n")))).await;
    GatedBench::new(fixture)
}

fn acted(matched: u64, changed: u64) -> Result<Acted, StoreError> {
    Ok(Acted { matched, changed })
}

pub async fn what_was_claimed_completed_changed_or_deleted_before_its_turn_is_decided_again(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let fixture = &gated.fixture;
    let ids = ["claimed", "completed", "renamed", "moved", "deleted", "again", "untouched"];
    fixture.create_many(ids.map(|id| (id, named("m")))).await;
    let other_name = Update { name: Some(Some("other".into())), ..Update::default() };
    let between = commands![
        claim("q", "default", 1),
        claim("q", "default", 2),
        complete("q", "completed", 2, object("{}")),
        update("q", "renamed", other_name),
        update("q", "moved", to_priority(3)),
        delete("q", "deleted"),
        delete("q", "again"),
        create("q", "again", named("other")),
    ];
    let answer = gated.answer(act_on_all("q", Cancel, "name == 'm'"), between).await;
    assert_eq!(answer, acted(7, 3), "the claimed, the moved and the untouched one");
    let expected = [
        ("claimed", Status::Cancelled),
        ("completed", Status::Succeeded),
        ("renamed", Status::Pending),
        ("moved", Status::Cancelled),
        ("again", Status::Pending),
        ("untouched", Status::Cancelled),
    ];
    for (id, status) in expected {
        assert_eq!(fixture.status(id).await, status, "{id}");
    }
    let ended = Refusal::RunFinalized { end: RunEnd::Cancel };
    assert_eq!(fixture.refused(heartbeat("q", "claimed", 1)).await, ended);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    // A running task is not deleted.
    let answer = gated.answer(act_on_all("q", Delete, "exists(id)"), [claim("q", "default", 3)]).await;
    assert_eq!(answer, acted(6, 5));
    assert_eq!(fixture.tasks("q").await.len(), 1);
}

pub async fn tasks_are_decided_in_order_also_if_some_have_changed(fixture: Fixture) {
    let gated = with_tasks(fixture, 2).await;
    gated.fixture.create(2, cancelled_with(&[1])).await;
    let answer = gated.answer(act_on_all("q", Delete, "exists(id)"), [update("q", 1, to_priority(3))]).await;
    assert_eq!(answer, acted(3, 3));
    assert_eq!(counted(&gated.fixture, MINUTES).await, [3, 0, 0, 0, 0, 0, 1], "the second waited for the first");
}

pub async fn what_is_created_meanwhile_is_left_alone(fixture: Fixture) {
    let gated = with_tasks(fixture, 3).await;
    let created = (10..20).map(|id| create("q", id, named("n")));
    assert_eq!(gated.answer(act_on_all("q", Cancel, "name == 'n'"), created).await, acted(3, 3));
    assert_eq!(gated.fixture.count(of_status(Status::Pending)).await, 10);
}

pub async fn what_matches_only_later_is_not_done_beyond_the_number_that_was_counted(fixture: Fixture) {
    let gated = with_tasks(fixture, 4).await;
    gated.fixture.create("late", named("other")).await;
    let act = ActOnTasks { expect: Some(4), ..act_on_all("q", Cancel, "name == 'n'") };
    let renamed = Update { name: Some(Some("n".into())), ..Update::default() };
    assert_eq!(gated.answer(act, [update("q", "late", renamed)]).await, acted(4, 4));
    assert_eq!(gated.fixture.status("late").await, Status::Pending);
}

pub async fn others_are_served_between_two_portions(fixture: Fixture) {
    let gated = with_tasks(fixture, MANY).await;
    let fixture = &gated.fixture;
    let acting = gated.begin(act_on_all("q", Cancel, "name == 'n'")).await;
    gated.one_portion().await;
    let cancelled = fixture.count(of_status(Status::Cancelled)).await;
    assert!((1..MANY as u64).contains(&cancelled), "{cancelled} of {MANY}");
    let claimed = fixture.claim(1).await.task.id;
    fixture.create("new", Definition { max_attempts: 7, ..named("n") }).await;
    let last = MANY - 1;
    fixture.ok(delete("q", last)).await;
    assert_eq!(gated.end(acting).await, acted(MANY as u64, MANY as u64 - 1), "all but the deleted one");
    let task = fixture.store.get_task(&queue("q"), claimed).await.unwrap();
    assert_eq!(task.lifecycle.status, Status::Cancelled, "a run counts as well");
    assert_eq!(fixture.status("new").await, Status::Pending);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
}

pub async fn a_queue_that_is_deleted_before_the_first_portion_is_not_found(fixture: Fixture) {
    let gated = with_tasks(fixture, 3).await;
    let gone = DeleteQueue { queue: queue("q"), cascade: true };
    let answer = gated.answer(act_on_all("q", Cancel, "exists(id)"), [gone]).await;
    assert_eq!(answer, Err(StoreError::Refused(Refusal::QueueNotFound { queue: queue("q") })));
}

pub async fn a_queue_that_is_deleted_between_two_portions_ends_the_action(fixture: Fixture) {
    let gated = with_tasks(fixture, MANY).await;
    let acting = gated.begin(act_on_all("q", Cancel, "exists(id)")).await;
    gated.one_portion().await;
    let cancelled = gated.fixture.count(of_status(Status::Cancelled)).await;
    gated.fixture.ok(delete_queue("q", true)).await;
    assert_eq!(gated.end(acting).await, acted(MANY as u64, cancelled), "what was done until then");
}

pub async fn a_queue_that_is_made_again_is_left_alone(fixture: Fixture) {
    let gated = with_tasks(fixture, MANY).await;
    let acting = gated.begin(act_on_all("q", Delete, "exists(id)")).await;
    gated.one_portion().await;
    for command in commands![delete_queue("q", true), create_queue("q")] {
        gated.fixture.ok(command).await;
    }
    gated.fixture.create_many((0..MANY).map(|id| (id, named("new")))).await;
    let answer = gated.end(acting).await.unwrap();
    assert!(answer.changed < MANY as u64, "{answer:?}");
    assert_eq!(gated.fixture.count(all()).await, MANY as u64);
}

pub async fn repeating_an_action_that_was_stopped_does_the_rest(fixture: Fixture) {
    let gated = with_tasks(fixture, MANY).await;
    gated.fixture.ok(act_on_all("q", Cancel, "exists(id)")).await;
    let acting = gated.begin(act_on_all("q", Requeue, "exists(id)")).await;
    gated.one_portion().await;
    let requeued = gated.fixture.count(of_status(Status::Pending)).await;
    acting.abort();
    assert!(acting.await.unwrap_err().is_cancelled());
    gated.held.passed.store(true, Ordering::SeqCst);
    let rest = MANY as u64 - requeued;
    let again = gated.held.gate().around(gated.fixture.ok(act_on_all("q", Requeue, "exists(id)"))).await;
    assert_eq!(again, Acted { matched: rest, changed: rest });
    let claimed = gated.fixture.ok(claim_all(0..MANY)).await;
    let ids = claimed.into_iter().map(|item| item.unwrap().unwrap().task.id);
    assert!(ids.eq((0..MANY).map(task_id)), "each in its place");
}

/// Every other task matches, so that the tasks that are looked for later lie among others.
pub async fn more_tasks_than_are_found_at_once_are_done_each_once(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let fixture = &gated.fixture;
    gated.held.passed.store(true, Ordering::SeqCst);
    let matching = 3 * FOUND_AT_ONCE + 1;
    let two = |id: usize| {
        let is_first = id < FOUND_AT_ONCE;
        [(id, named("m")), (matching + id, Definition { priority: i64::from(is_first), ..named("other") })]
    };
    fixture.create_many((0..matching).flat_map(two)).await;
    let matched = matching as u64;
    for (action, left) in [(Cancel, matched), (Requeue, matched), (Delete, 0)] {
        let acting = gated.begin(act_on_all("q", action, "name == 'm'")).await;
        gated.one_portion().await;
        assert_eq!(gated.end(acting).await, acted(matched, matched), "{action:?}");
        assert_eq!(fixture.count(filtered("name == 'm'")).await, left, "{action:?}");
        assert_kept_counts_are_right(&*fixture.store, "q").await;
    }
    assert_eq!(fixture.count(filtered("name == 'other' and status == 'pending'")).await, matched);
    // Exactly as many as are found at once.
    let exactly = FOUND_AT_ONCE as u64;
    let answer = gated.held.gate().around(fixture.ok(act_on_all("q", Cancel, "priority == 1"))).await;
    assert_eq!(answer, Acted { matched: exactly, changed: exactly });
}

pub async fn what_is_found_later_is_decided_as_it_is_then(fixture: Fixture) {
    let gated = with_tasks(fixture, MANY).await;
    let fixture = &gated.fixture;
    let acting = gated.begin(act_on_all("q", Cancel, "name == 'n'")).await;
    gated.one_portion().await;
    let other_name = Update { name: Some(Some("other".into())), ..Update::default() };
    let (renamed, cancelled, deleted) = (MANY - 1, MANY - 2, MANY - 3);
    for command in commands![update("q", renamed, other_name), cancel("q", cancelled), delete("q", deleted)] {
        fixture.ok(command).await;
    }
    fixture.create("new", named("n")).await;
    assert_eq!(gated.end(acting).await, acted(MANY as u64, MANY as u64 - 3));
    assert_eq!((fixture.status(renamed).await, fixture.status("new").await), (Status::Pending, Status::Pending));
    assert_kept_counts_are_right(&*fixture.store, "q").await;
}

/// Brings back tasks of which each waits for earlier ones by these numbers, and which were created in random order: more of them
/// than are found at once. Gives how many portions that took.
async fn requeue_in_random_order(fixture: &Fixture, waits_for: impl Fn(usize) -> Vec<usize>) -> usize {
    let portions = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&portions);
    let gate = Gate::until(FOUND_AT_ONCE, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {})
    });
    let (mut random, mut order) = (Random::new(8), (0..LENGTH).collect::<Vec<_>>());
    (1..LENGTH).for_each(|place| order.swap(place, random.below(place + 1)));
    fixture.create_many(order.into_iter().map(|id| (id, cancelled_with(&waits_for(id))))).await;
    gate.clone().around(fixture.ok(act_on_all("q", Cancel, "exists(id)"))).await;
    fixture.upkeep().await;
    portions.store(0, Ordering::SeqCst);
    let requeued = gate.around(fixture.ok(act_on_all("q", Requeue, "exists(id)"))).await;
    assert_eq!(requeued, Acted { matched: LENGTH as u64, changed: LENGTH as u64 });
    assert_eq!(fixture.count_by_status().await, [LENGTH as u64, 0, 0, 0, 0]);
    portions.load(Ordering::SeqCst)
}

/// Each task is looked at when it is found, and after those that it waits for. A portion goes down the chain: if it did not, there
/// would be one for each task.
pub async fn tasks_that_wait_for_one_or_several_in_random_order_are_requeued_at_once(fixture: Fixture) {
    for waits_for in [1, 3] {
        let portions = requeue_in_random_order(&fixture, |id| (id.saturating_sub(waits_for)..id).collect()).await;
        assert!(portions < LENGTH / 2, "{portions} portions for {LENGTH} tasks");
        fixture.ok(act_on_all("q", Delete, "exists(id)")).await;
        fixture.upkeep().await;
    }
}

/// The tasks that match when the portion is written, among those that matched when they were found.
pub async fn random_writes_before_the_portion_are_decided_as_they_are_then(fixture: Fixture) {
    let gated = GatedBench::new(fixture);
    let fixture = &gated.fixture;
    gated.held.passed.store(true, Ordering::SeqCst);
    let mut generator = Generator::without_dependencies(23);
    let (mut held, mut changed) = (0, 0);
    while held < 30 {
        for _ in 0..12 {
            if let Step::Write(command) = generator.step() {
                let answer = fixture.write(command.clone()).await;
                generator.learn(&command, &answer);
            }
        }
        let in_queue = generator.queue();
        let act = ActOnTasks { expect: None, dry_run: false, ..generator.bulk_action(in_queue) };
        let name = act.queue.as_str();
        let Ok(found) = fixture.store.count_tasks(&act.queue, act.selection.clone()).await else { continue };
        if found == 0 {
            continue;
        }
        held += 1;
        let selected = |tasks: Vec<taskqueue_core::task::Task>| {
            tasks.into_iter().filter(|task| act.selection.matches(&task.view())).collect::<Vec<_>>()
        };
        let first = selected(fixture.tasks(name).await);
        assert_eq!(first.len() as u64, found);
        let acting = gated.begin(act.clone()).await;
        fixture.clock.advance_micros(1);
        for _ in 0..8 {
            if let Step::Write(between) = generator.step()
                && !matches!(between, AnyCommand::DeleteQueue(_) | AnyCommand::ActOnTasks(_))
            {
                let answer = fixture.write(between.clone()).await;
                generator.learn(&between, &answer);
            }
        }
        let before = fixture.tasks(name).await;
        // One that was deleted and created again is another one.
        let found_before =
            |id, created_at| first.iter().any(|task| task.id == id && task.lifecycle.created_at == created_at);
        let due: Vec<_> = selected(before.clone())
            .into_iter()
            .filter(|task| found_before(task.id, task.lifecycle.created_at))
            .map(|task| task.id)
            .collect();
        fixture.clock.advance_micros(1);
        let answer = gated.end(acting).await;
        assert_eq!(answer, acted(found, due.len() as u64), "{act:?}");
        generator.learn(&act.clone().into(), &answer.map(super::any_command::AnyAnswer::Acted));
        let after = fixture.tasks(name).await;
        for task in before {
            let now = after.iter().find(|now| now.id == task.id);
            match due.contains(&task.id) {
                true => assert_ne!(now, Some(&task), "{act:?}"),
                false => assert_eq!(now, Some(&task), "{act:?}"),
            }
        }
        changed += due.len();
        assert_kept_counts_are_right(&*fixture.store, name).await;
    }
    assert!(changed > 10, "only {changed} tasks were changed");
}
