//! Cancel, requeue and delete in every state (I24).

use taskqueue_core::refusal::Transition;

use super::prelude::*;

/// Brings a task of `q` into a state, by a run of the same number where one is needed, with a failure behind it.
pub(super) async fn bring_to(fixture: &Fixture, id: u32, status: Status) -> Task {
    let budget = if status == Status::Failed { 2 } else { 3 };
    fixture.create(id, Definition { priority: i64::from(id), ..with_budget(budget) }).await;
    fixture.claim(format!("f{id}")).await;
    fixture.ok(fail("q", id, format!("f{id}"))).await;
    match status {
        Status::Pending => {}
        Status::Running => drop(fixture.claim(id).await),
        Status::Succeeded => {
            fixture.claim(id).await;
            fixture.ok(complete("q", id, id, object(r#"{"done":1}"#))).await;
        }
        Status::Failed => {
            fixture.claim(id).await;
            fixture.ok(fail("q", id, id)).await;
        }
        Status::Cancelled => drop(fixture.ok(cancel("q", id)).await),
    }
    let task = fixture.get(id).await;
    assert_eq!(task.lifecycle.status, status);
    fixture.clock.advance_seconds(1);
    task
}

/// Lets `command` act on a task in each state and compares with what is expected of the task before.
async fn in_every_state(
    fixture: Fixture,
    command: fn(u32) -> ActOnTask,
    expected: impl Fn(&Task, &Fixture) -> Result<Task, Refusal>,
) {
    // Highest priority last, so that each claim of `bring_to` gets the task that it is about.
    for (id, status) in (1..).zip(Status::ALL) {
        let before = bring_to(&fixture, id, status).await;
        match expected(&before, &fixture) {
            Ok(task) => {
                let answered = fixture.task_of(command(id)).await;
                assert_eq!(fixture.get(id).await, answered, "{status:?}");
                assert_eq!(without_seq(answered), without_seq(task), "{status:?}");
            }
            Err(refusal) => {
                assert_eq!(fixture.refused(command(id)).await, refusal, "{status:?}");
                assert_eq!(fixture.get(id).await, before, "{status:?}");
            }
        }
        // Out of the way of the next one.
        if fixture.status(id).await == Status::Pending {
            fixture.ok(delete("q", id)).await;
        }
    }
}

fn conflict(task: &Task, transition: Transition) -> Refusal {
    Refusal::TaskStateConflict { task_id: task.id, status: task.lifecycle.status, transition }
}

pub async fn cancel_in_every_state(fixture: Fixture) {
    in_every_state(
        fixture,
        |id| cancel("q", id),
        |task, fixture| {
            let now = fixture.now();
            let was = task.lifecycle.clone();
            let cancelled = Lifecycle { status: Status::Cancelled, updated_at: now, ..was.clone() };
            let lifecycle = match was.status {
                Status::Pending => cancelled,
                Status::Running => {
                    let finished_run = was.run.map(|run| FinishedRun { run_id: run.run_id, end: RunEnd::Cancel });
                    Lifecycle { finished_at: Some(now), run: None, finished_run, ..cancelled }
                }
                Status::Cancelled => was,
                Status::Succeeded | Status::Failed => return Err(conflict(task, Transition::Cancel)),
            };
            Ok(Task { lifecycle, ..task.clone() })
        },
    )
    .await;
}

pub async fn requeue_in_every_state(fixture: Fixture) {
    in_every_state(
        fixture,
        |id| requeue("q", id),
        |task, fixture| match task.lifecycle.status {
            Status::Running | Status::Succeeded => Err(conflict(task, Transition::Requeue)),
            Status::Pending | Status::Failed | Status::Cancelled => {
                let was = task.lifecycle.clone();
                let lifecycle = Lifecycle { status: Status::Pending, attempt: 0, updated_at: fixture.now(), ..was };
                let mut task = Task { lifecycle, ..task.clone() };
                task.outcome.last_error = None;
                Ok(task)
            }
        },
    )
    .await;
}

pub async fn delete_in_every_state(fixture: Fixture) {
    for (id, status) in (1..).zip(Status::ALL) {
        let before = bring_to(&fixture, id, status).await;
        if status == Status::Running {
            assert_eq!(fixture.refused(delete("q", id)).await, Refusal::TaskRunning { task_id: task_id(id) });
            assert_eq!(fixture.get(id).await, before);
        } else {
            fixture.ok(delete("q", id)).await;
            assert!(fixture.store.get_task(&queue("q"), task_id(id)).await.is_err());
        }
    }
    assert_eq!(fixture.count(all()).await, 1);
}

pub async fn deleting_a_missing_task_is_done_already(fixture: Fixture) {
    fixture.ok(delete("q", 1)).await;
    fixture.create(1, Definition::default()).await;
    for _ in 0..2 {
        fixture.ok(delete("q", 1)).await;
    }
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await, None);
}
