//! Who ran a task last: what a claim says of its worker is kept by everything else that happens to the task, and the id of a
//! run is shown only when the run is over.

use taskqueue_core::lease;
use taskqueue_core::lifecycle;
use taskqueue_core::lifecycle::LastRunChange;

use crate::one_task::{NOW, acted, changed, claim_change, fails, reported, run, task};
use crate::prelude::*;

fn worker(host: &str) -> JsonObject {
    JsonObject::from_canonical(&format!(r#"{{"host":"{host}"}}"#))
}

fn claimed(task: &Task, n: u32, worker: Option<&JsonObject>) -> Task {
    changed(task, &claim_change(task, n, worker))
}

/// What the API shows: attempt, worker, run id.
fn shown(task: &Task) -> Option<(i64, String, Option<String>)> {
    task.view().last_run.map(|run| (run.attempt, run.worker.to_owned(), run.run_id.map(str::to_owned)))
}

fn expected(attempt: i64, host: &str, ended: Option<u32>) -> Option<(i64, String, Option<String>)> {
    Some((attempt, worker(host).as_str().to_owned(), ended.map(|n| run(n).to_string())))
}

#[test]
fn the_run_id_is_shown_once_the_run_is_over_however_it_ends() {
    let running = claimed(&task(), 1, Some(&worker("a")));
    assert_eq!(shown(&running), expected(1, "a", None), "an active run id is never shown");
    let late = NOW.plus_seconds(301);
    let expired = changed(&running, &lifecycle::expire(&running.head(), late, 7).unwrap());
    let ended = [
        reported(&running, 1, &RunReport::Complete { result: worker("result") }).unwrap(),
        reported(&running, 1, &fails()).unwrap(),
        reported(&running, 1, &RunReport::Unclaim { delay: None }).unwrap(),
        acted(&running, TaskAction::Cancel),
        expired,
    ];
    for task in ended {
        assert_eq!(shown(&task), expected(1, "a", Some(1)), "{:?}", task.lifecycle.finished_run);
    }
    assert!(lease::is_over(running.lifecycle.run.unwrap().lease_expires_at, late));
}

#[test]
fn everything_but_a_claim_keeps_who_ran_a_task() {
    let running = claimed(&task(), 1, Some(&worker("a")));
    let beating = changed(&running, &lifecycle::heartbeat(&running.head(), run(1), None, NOW, 7).unwrap().change);
    assert_eq!(shown(&beating), expected(1, "a", None));
    let unclaimed = reported(&beating, 1, &RunReport::Unclaim { delay: None }).unwrap();
    assert_eq!((unclaimed.lifecycle.attempt, shown(&unclaimed)), (0, expected(1, "a", Some(1))));
    let cancelled = acted(&unclaimed, TaskAction::Cancel);
    let requeued = acted(&cancelled, TaskAction::Requeue);
    assert_eq!((requeued.lifecycle.attempt, shown(&requeued)), (0, expected(1, "a", Some(1))));
    let update = Update { result: Some(worker("b")), priority: Some(3), ..Update::default() };
    let updated = update.apply(&requeued, NOW).unwrap().unwrap();
    assert_eq!(shown(&updated), expected(1, "a", Some(1)));
}

#[test]
fn a_claim_replaces_who_ran_a_task_or_removes_it() {
    let failed = reported(&claimed(&task(), 1, Some(&worker("a"))), 1, &fails()).unwrap();
    let again = claimed(&failed, 2, Some(&worker("b")));
    assert_eq!(shown(&again), expected(2, "b", None), "the id of the run before is not shown either");
    assert_eq!(shown(&reported(&again, 2, &RunReport::Unclaim { delay: None }).unwrap()), expected(2, "b", Some(2)));
    let silent = claimed(&failed, 2, None);
    assert_eq!(shown(&silent), None);
    assert_eq!(shown(&reported(&silent, 2, &fails()).unwrap()), None);
    assert_eq!(shown(&claimed(&task(), 1, Some(&JsonObject::empty()))).unwrap().1, "{}", "empty is not absent");
}

#[test]
fn a_claim_without_a_worker_writes_only_if_there_is_something_to_remove() {
    assert_eq!(claim_change(&task(), 1, None).last_run, LastRunChange::Keep);
    let failed = reported(&claimed(&task(), 1, Some(&worker("a"))), 1, &fails()).unwrap();
    assert_eq!(claim_change(&failed, 2, None).last_run, LastRunChange::Clear);
    let set = LastRunChange::Set(LastRun { attempt: 2, worker: worker("b") });
    assert_eq!(claim_change(&failed, 2, Some(&worker("b"))).last_run, set);
}

#[test]
fn the_worker_counts_for_memory_and_pages_and_not_for_the_stored_size() {
    let running = claimed(&task(), 1, Some(&worker("a")));
    let bytes = worker("a").as_str().len();
    assert_eq!(running.bytes(), task().bytes() + bytes);
    assert_eq!(running.view().bytes(), task().view().bytes() + bytes);
    assert_eq!(running.head().definition_bytes, task().head().definition_bytes);
}
