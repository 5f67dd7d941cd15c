//! Who ran a task last (docs/reference/http-api.md §14.6): what a claim says of its worker, kept by everything but a claim,
//! with a run id only when the run is over.

use std::future::pending;

use super::prelude::*;
use super::waiting::resting;
use crate::waiting;

/// What the task shows: attempt, worker, run id.
type Shown = Option<(i64, String, Option<String>)>;

fn shown(task: &Task) -> Shown {
    task.view().last_run.map(|run| (run.attempt, run.worker.to_owned(), run.run_id.map(str::to_owned)))
}

fn of_run(attempt: i64, worker: &str, ended: Option<u32>) -> Shown {
    Some((attempt, worker.to_owned(), ended.map(|run| run_id(run).to_string())))
}

const A: &str = r#"{"host":"a","pid":1}"#;
const B: &str = r#"{"host":"b","nul":"\u0000"}"#;

/// What every way to read task 1 shows.
async fn read(fixture: &Fixture) -> Shown {
    let task = fixture.get(1).await;
    let listed = fixture.walk("q", &all(), BY_ID, 1000).await;
    assert_eq!(listed, [visible(&task)], "a page is written from the row");
    shown(&task)
}

pub async fn a_claim_says_who_runs_a_task_and_every_end_of_the_run_keeps_it(fixture: Fixture) {
    fixture.create(1, with_budget(99)).await;
    assert_eq!(read(&fixture).await, None);
    for (run, end) in (1..).zip(["complete", "fail", "unclaim", "cancel", "expiry"]) {
        let worker = if run % 2 == 0 { A } else { B };
        let (active, ended) = (of_run(1, worker, None), of_run(1, worker, Some(run)));
        let claimed = fixture.claimed(claim_by(worker, run)).await.unwrap();
        assert_eq!(shown(&claimed.task), active, "{end}");
        assert_eq!(read(&fixture).await, active, "an active run id is never shown");
        fixture.ok(heartbeat("q", 1, run)).await;
        match end {
            "complete" => fixture.ok(complete("q", 1, run, object(r#"{"loss":1}"#))).await,
            "fail" => fixture.ok(fail("q", 1, run)).await,
            "unclaim" => fixture.ok(unclaim("q", 1, run)).await,
            "cancel" => drop(fixture.ok(cancel("q", 1)).await),
            _ => assert_eq!(fixture.pass(LEASE_SECONDS + 5).await.expired_runs, 1),
        }
        assert_eq!(read(&fixture).await, ended, "{end}");
        if end == "complete" {
            // A completed task cannot run again.
            fixture.ok(delete("q", 1)).await;
            fixture.create(1, with_budget(99)).await;
            assert_eq!(read(&fixture).await, None, "a new task of the same id knows nothing of it");
        } else {
            fixture.ok(requeue("q", 1)).await;
            assert_eq!(read(&fixture).await, ended, "requeued after {end}");
        }
    }
}

pub async fn updates_and_reports_leave_who_ran_a_task_alone(fixture: Fixture) {
    fixture.create(1, with_budget(99)).await;
    fixture.claimed(claim_by(A, 1)).await.unwrap();
    fixture.ok(fail("q", 1, 1)).await;
    let ended = of_run(1, A, Some(1));
    fixture.ok(update("q", 1, to_priority(3))).await;
    assert_eq!(read(&fixture).await, ended);
    fixture.ok(fail("q", 1, 1)).await;
    assert_eq!(read(&fixture).await, ended, "a repeated report");
    let matched = fixture.ok(update_all("q", "last_run.worker.host == 'a'", to_priority(4))).await;
    assert_eq!((matched.matched, matched.updated), (1, 1));
    assert_eq!(read(&fixture).await, ended);
    fixture.ok(requeue("q", 1)).await;
    assert_eq!((fixture.get(1).await.lifecycle.attempt, read(&fixture).await), (0, ended));
}

pub async fn a_claim_without_a_worker_removes_who_ran_a_task(fixture: Fixture) {
    fixture.create(1, with_budget(99)).await;
    fixture.claimed(claim_by(A, 1)).await.unwrap();
    fixture.ok(fail("q", 1, 1)).await;
    assert_eq!(shown(&fixture.claim(2).await.task), None);
    assert_eq!(read(&fixture).await, None);
    fixture.ok(fail("q", 1, 2)).await;
    assert_eq!(read(&fixture).await, None);
    let error = fixture.get(1).await.outcome.last_error.unwrap();
    assert_eq!(error.attempt, 2, "the rest of the outcome is as ever");
    let again = fixture.claimed(claim_by("{}", 3)).await.unwrap();
    assert_eq!(shown(&again.task), of_run(3, "{}", None), "empty is not absent");
}

pub async fn a_replayed_claim_changes_nothing_whatever_it_says(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let first = fixture.claimed(claim_by(A, 1)).await.unwrap();
    for replay in [claim_by(B, 1), claim("q", "default", 1), claim_by(A, 1)] {
        assert_eq!(fixture.claimed(replay).await.as_ref(), Some(&first));
    }
    assert_eq!(read(&fixture).await, of_run(1, A, None));
    fixture.create(2, Definition::default()).await;
    let silent = fixture.claimed(claim("q", "default", 2)).await.unwrap();
    assert_eq!(fixture.claimed(claim_by(B, 2)).await, Some(silent), "nor does it say afterwards what it did not say");
}

pub async fn a_waiting_claim_says_who_claims(fixture: Fixture) {
    let store = fixture.store.clone();
    let waiter = store.waiters().register(&queue("q"), &route("default"), usize::MAX).unwrap();
    let waiting = tokio::spawn(async move {
        let look = || store.write(claim_by(A, 1));
        waiting::claim(waiter, look, pending()).await
    });
    resting(&fixture, 1).await;
    fixture.create(1, Definition::default()).await;
    let claimed = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(shown(&claimed.task), of_run(1, A, None));
    assert_eq!(read(&fixture).await, of_run(1, A, None));
}
