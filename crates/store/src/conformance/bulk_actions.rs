//! Bulk actions that nobody comes in between of: which tasks they change, what they answer, and that each task ends as a command
//! for it alone would have left it.

use super::activity::{MINUTES, counted};
use super::filters::{filter_text, json};
use super::prelude::*;

use BulkAction::{Cancel, Delete, Requeue};

fn acted(matched: u64, changed: u64) -> Acted {
    Acted { matched, changed }
}

/// A task of every state in `q`.
async fn one_of_each(fixture: Fixture) -> Fixture {
    for (id, run) in [("succeeded", 1), ("failed", 2), ("running", 3)] {
        fixture.create(id, with_budget(1)).await;
        fixture.claim(run).await;
    }
    fixture.ok(complete("q", "succeeded", 1, object("{}"))).await;
    fixture.ok(fail("q", "failed", 2)).await;
    fixture.create("cancelled", Definition::default()).await;
    fixture.ok(cancel("q", "cancelled")).await;
    fixture.create("pending", Definition::default()).await;
    fixture
}

pub async fn a_bulk_action_changes_what_it_applies_to_and_nothing_else(fixture: Fixture) {
    use Status::{Cancelled, Failed, Pending, Running, Succeeded};
    let fixture = one_of_each(fixture).await;
    let ids = ["succeeded", "failed", "running", "cancelled", "pending"];
    let is = |id| format!("id == '{}'", task_id(id));
    let [everything, cancelled] = ["exists(id)".to_owned(), format!("{} or {}", is("running"), is("cancelled"))];
    let [succeeded, failed, running, pending] = [Succeeded, Failed, Running, Pending].map(Some);
    let gone = Some(Cancelled);
    let steps = [
        (Delete, &cancelled, 1, [succeeded, failed, running, None, pending]),
        (Requeue, &everything, 1, [succeeded, pending, running, None, pending]),
        (Cancel, &format!("not {}", is("failed")), 2, [succeeded, pending, gone, None, gone]),
        (Requeue, &is("running"), 1, [succeeded, pending, pending, None, gone]),
        (
            Requeue,
            &"status == 'failed' or status == 'pending'".to_owned(),
            0,
            [succeeded, pending, pending, None, gone],
        ),
        (Cancel, &everything, 2, [succeeded, gone, gone, None, gone]),
        (Delete, &everything, 4, [None; 5]),
    ];
    let untouched = fixture.get("succeeded").await;
    for (action, which, changed, expected) in steps {
        assert_eq!(fixture.ok(act_on_all("q", action, which)).await, acted(changed, changed), "{action:?} {which}");
        for (id, expected) in ids.into_iter().zip(expected) {
            let task = fixture.store.get_task(&queue("q"), task_id(id)).await.ok();
            assert_eq!(task.as_ref().map(|task| task.lifecycle.status), expected, "{action:?} {which}: {id}");
            assert!(expected != succeeded || task.is_some_and(|task| task == untouched));
        }
        assert_kept_counts_are_right(&*fixture.store, "q").await;
    }
}

pub async fn an_expectation_that_fails_changes_nothing(fixture: Fixture) {
    let fixture = one_of_each(fixture).await;
    let before = fixture.tasks("q").await;
    for (expected, dry_run) in [(1, false), (3, false), (0, false), (u64::MAX, true)] {
        let act = ActOnTasks { expect: Some(expected), dry_run, ..act_on_all("q", Cancel, "exists(id)") };
        assert_eq!(fixture.refused(act).await, Refusal::ExpectationFailed { expected, matched: 2 });
    }
    assert_eq!(fixture.tasks("q").await, before);
    let right = ActOnTasks { expect: Some(2), ..act_on_all("q", Cancel, "exists(id)") };
    assert_eq!(fixture.ok(right).await, acted(2, 2));
    let none = ActOnTasks { expect: Some(0), ..act_on_all("q", Cancel, "exists(id)") };
    assert_eq!(fixture.ok(none).await, acted(0, 0));
}

pub async fn a_dry_run_only_counts(fixture: Fixture) {
    let fixture = one_of_each(fixture).await;
    let before = fixture.tasks("q").await;
    for (action, matched) in [(Cancel, 2), (Requeue, 2), (Delete, 4)] {
        for which in ["exists(id)", "status in ['pending', 'running', 'succeeded', 'failed', 'cancelled']"] {
            let dry_run = ActOnTasks { dry_run: true, expect: Some(matched), ..act_on_all("q", action, which) };
            assert_eq!(fixture.ok(dry_run).await, acted(matched, 0), "{action:?} {which}");
        }
    }
    assert_eq!(fixture.tasks("q").await, before);
}

pub async fn tasks_are_requeued_in_the_order_of_their_creation(fixture: Fixture) {
    fixture.ok(create_all(["c", "a", "d", "b"])).await;
    for id in ["b", "d", "a", "c"] {
        fixture.ok(cancel("q", id)).await;
    }
    fixture.create("e", Definition::default()).await;
    assert_eq!(fixture.ok(act_on_all("q", Requeue, "exists(id)")).await, acted(4, 4));
    for (run, id) in ["e", "c", "a", "d", "b"].into_iter().enumerate() {
        assert_eq!(fixture.claim(run).await.task.id, task_id(id));
    }
}

pub async fn run_ids_of_tasks_that_a_bulk_action_deletes_stay_used(fixture: Fixture) {
    fixture.create("a", with_budget(1)).await;
    fixture.claim(1).await;
    fixture.ok(fail("q", "a", 1)).await;
    fixture.ok(act_on_all("q", Requeue, "exists(id)")).await;
    fixture.claim(2).await;
    fixture.ok(complete("q", "a", 2, object("{}"))).await;
    assert_eq!(fixture.ok(act_on_all("q", Delete, "exists(id)")).await, acted(1, 1));
    fixture.create("b", Definition::default()).await;
    for run in [1, 2] {
        let refused = fixture.refused(claim("q", "default", run)).await;
        assert_eq!(refused, Refusal::StaleRun { run_id: run_id(run) });
    }
}

/// Random tasks of random states; the model gets the actions one by one.
pub async fn a_bulk_action_does_what_a_loop_over_the_ids_does(fixture: Fixture) {
    let model = fixture.model().await;
    let (mut random, mut changed, mut last_run) = (Random::new(5), 0, 0);
    for round in 0..40 {
        let mut commands: Vec<AnyCommand> = Vec::new();
        for _ in 0..6 {
            let id = random.below(30);
            match random.below(8) {
                0..=3 => {
                    let priority = random.pick(&[0, 0, 1]);
                    let (args, name) = (json(&mut random), random.percent(50).then(|| "n".into()));
                    let definition = Definition { args, name, ..with_priority(priority) };
                    commands.push(create("q", format!("{round}x{id}"), definition).into());
                }
                _ => {
                    last_run += 1;
                    commands.push(claim("q", "default", last_run).into());
                }
            }
        }
        for command in commands {
            // Each creation at a time of its own.
            fixture.clock.advance_micros(1);
            let (ours, theirs) = (fixture.write(command.clone()).await, model.write(command).await);
            assert_eq!(ours.is_ok(), theirs.is_ok());
        }
        for task in fixture.tasks("q").await.iter().filter(|task| task.lifecycle.status == Status::Running) {
            let run = task.lifecycle.run.unwrap().run_id;
            let (id, run) = (&task.id.as_str()[2..], &run.as_str()[2..]);
            let end: AnyCommand = match random.below(4) {
                0 => complete("q", id, run, json(&mut random)).into(),
                1 => fail_for_good("q", id, run).into(),
                2 => unclaim("q", id, run).into(),
                _ => continue,
            };
            fixture.ok(end.clone()).await;
            model.ok(end).await;
        }
        let action = random.pick(&BulkAction::ALL);
        let act = act_on_all("q", action, &filter_text(&mut random, 2));
        let done = fixture.ok(act.clone()).await;
        let one_by_one = one_by_one(&model, &act).await;
        let expected = one_by_one.len() as u64;
        for command in one_by_one {
            model.ok(command).await;
        }
        assert_eq!(done, acted(expected, expected), "{act:?}");
        assert_eq!(fixture.tasks("q").await, model.tasks("q").await, "{act:?}");
        changed += expected;
    }
    assert!(changed > 50, "only {changed} tasks were changed");
    assert_eq!(counted(&fixture, MINUTES).await, counted(&model, MINUTES).await);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    // The pending order is the same.
    loop {
        last_run += 1;
        let (ours, theirs) = (claim("q", "default", last_run), claim("q", "default", last_run));
        let ours = fixture.claimed(ours).await.map(|claimed| claimed.task.id);
        assert_eq!(ours, model.claimed(theirs).await.map(|claimed| claimed.task.id));
        if ours.is_none() {
            break;
        }
    }
}

/// A command for each task that matches, in the order of creation.
pub(super) async fn one_by_one(fixture: &Fixture, act: &ActOnTasks) -> Vec<AnyCommand> {
    let mut tasks: Vec<Task> =
        fixture.tasks("q").await.into_iter().filter(|task| act.selection.matches(&task.view())).collect();
    tasks.sort_by_key(|task| task.lifecycle.created_at);
    let command = |Task { id, .. }: Task| {
        let queue = act.queue.clone();
        match act.action {
            Cancel => ActOnTask { queue, id, action: TaskAction::Cancel }.into(),
            Requeue => ActOnTask { queue, id, action: TaskAction::Requeue }.into(),
            Delete => DeleteTask { queue, id }.into(),
        }
    };
    tasks.into_iter().map(command).collect()
}
