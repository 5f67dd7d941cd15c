//! How far a run is: who keeps and who clears what it said, and what it counts. The table of refusals is in
//! `lifecycle_tests.rs`.

use taskqueue_core::lifecycle;
use taskqueue_core::lifecycle::{NewProgress, ProgressChange};
use taskqueue_core::limits::TASK_DATA_BYTES;

use crate::one_task::{NOW, acted, changed, claim_change, fails, reported, run, task};
use crate::prelude::*;

/// An object of so many bytes.
fn sized(bytes: usize) -> JsonObject {
    object(&format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - r#"{"a":""}"#.len())))
}

fn claimed(task: &Task, n: u32) -> Task {
    changed(task, &claim_change(task, n, None))
}

/// What comes of progress of the run, said alone and with a heartbeat: the same.
fn said(task: &Task, n: u32, value: &JsonObject, now: Timestamp) -> Result<Task, Refusal> {
    let new = NewProgress { value, result_bytes: task.outcome.result.as_str().len() };
    let alone = lifecycle::report_progress(&task.head(), run(n), new, now, 7);
    let with_heartbeat = lifecycle::heartbeat(&task.head(), run(n), Some(new), now, 7);
    let progress = |change: &Change| change.progress.clone();
    let beat = with_heartbeat.as_ref().map(|renewed| progress(&renewed.change));
    assert_eq!(alone.as_ref().map(progress), beat);
    alone.map(|change| changed(task, &change)).map_err(|refused| refused.refusal)
}

/// What the API shows: value, time, attempt.
fn shown(task: &Task) -> Option<(String, Timestamp, i64)> {
    let view = task.view();
    let shown = view.progress.map(|value| Some((value.to_owned(), view.progress_updated_at?, view.progress_attempt?)));
    assert!(shown != Some(None) && view.progress_attempt.is_some() == shown.is_some(), "all or none");
    shown.flatten()
}

fn expected(value: &str, updated_at: Timestamp, attempt: i64) -> Option<(String, Timestamp, i64)> {
    Some((value.to_owned(), updated_at, attempt))
}

#[test]
fn progress_replaces_the_one_before_as_a_whole() {
    let running = claimed(&task(), 1);
    assert_eq!(shown(&running), None);
    let first = said(&running, 1, &object(r#"{"step":1,"total":9}"#), NOW).unwrap();
    assert_eq!(shown(&first), expected(r#"{"step":1,"total":9}"#, NOW, 1));
    let later = NOW.plus_seconds(5);
    let second = said(&first, 1, &JsonObject::empty(), later).unwrap();
    assert_eq!(shown(&second), expected("{}", later, 1), "an empty object is one");
    assert_eq!(second.lifecycle, running.lifecycle, "neither the lease nor a time of the task changes");
}

#[test]
fn everything_but_a_claim_keeps_progress() {
    let step = object(r#"{"step":1}"#);
    let running = said(&claimed(&task(), 1), 1, &step, NOW).unwrap();
    let kept = expected(step.as_str(), NOW, 1);
    let beating = lifecycle::heartbeat(&running.head(), run(1), None, NOW, 7).unwrap().change;
    assert_eq!(shown(&changed(&running, &beating)), kept);
    let expired = lifecycle::expire(&running.head(), NOW.plus_seconds(301), 7).unwrap();
    let ended = [
        reported(&running, 1, &RunReport::Complete { result: object(r#"{"a":1}"#) }).unwrap(),
        reported(&running, 1, &fails()).unwrap(),
        reported(&running, 1, &RunReport::Unclaim { delay: None }).unwrap(),
        acted(&running, TaskAction::Cancel),
        changed(&running, &expired),
    ];
    for task in ended {
        assert_eq!(shown(&task), kept, "{:?}", task.lifecycle.finished_run);
    }
    let requeued = acted(&acted(&running, TaskAction::Cancel), TaskAction::Requeue);
    assert_eq!(shown(&requeued), kept);
    let update = Update { priority: Some(3), result: Some(object("{}")), ..Update::default() };
    let updated = update.apply(&requeued, NOW).unwrap().unwrap();
    assert_eq!(shown(&updated), kept);
    let effect = update.effect(&requeued).unwrap().unwrap();
    assert_eq!(update.updated_head(&requeued.head(), effect, NOW), updated.head());
}

#[test]
fn a_claim_clears_progress_and_writes_only_if_there_is_some() {
    assert_eq!(claim_change(&task(), 1, None).progress, ProgressChange::Keep);
    let running = said(&claimed(&task(), 1), 1, &JsonObject::empty(), NOW).unwrap();
    let failed = reported(&running, 1, &fails()).unwrap();
    assert_eq!(claim_change(&failed, 2, None).progress, ProgressChange::Clear);
    let again = claimed(&failed, 2);
    assert_eq!(shown(&again), None);
    assert_eq!(shown(&said(&again, 2, &JsonObject::empty(), NOW).unwrap()), expected("{}", NOW, 2));
}

/// What a task has left for its result.
fn room() -> usize {
    TASK_DATA_BYTES - task().head().definition_bytes
}

/// What it has left for its result and its progress together.
fn room_for_both() -> usize {
    room() - r#","progress":"#.len()
}

#[test]
fn progress_counts_definition_and_result_and_not_the_progress_before() {
    let running = claimed(&task(), 1);
    for result_bytes in [2, 1000] {
        let result = if result_bytes == 2 { JsonObject::empty() } else { sized(result_bytes) };
        let task = Task { outcome: Outcome { result, ..running.outcome.clone() }, ..running.clone() };
        let full = said(&task, 1, &sized(room_for_both() - result_bytes), NOW).unwrap();
        assert_eq!(said(&task, 1, &sized(room_for_both() - result_bytes + 1), NOW), Err(Refusal::TaskDataTooLarge));
        assert!(
            said(&full, 1, &sized(room_for_both() - result_bytes), NOW).is_ok(),
            "it takes the place of the one before"
        );
        assert_eq!(full.head().progress_bytes, room_for_both() - result_bytes);
    }
}

#[test]
fn complete_counts_definition_and_progress_and_not_the_result_before() {
    let running = claimed(&task(), 1);
    let outcome = Outcome { result: sized(room()), ..running.outcome.clone() };
    let running = Task { outcome, ..running };
    let complete = |task: &Task, bytes| reported(task, 1, &RunReport::Complete { result: sized(bytes) });
    assert!(complete(&running, room()).is_ok());
    let far = Progress { value: sized(1000), updated_at: NOW, attempt: 1 };
    let far = Task { outcome: Outcome { progress: Some(far), ..running.outcome.clone() }, ..running };
    assert!(complete(&far, room_for_both() - 1000).is_ok());
    assert_eq!(complete(&far, room_for_both() - 999), Err(Refusal::TaskDataTooLarge));
}

#[test]
fn an_update_counts_definition_result_and_progress() {
    let running = said(&claimed(&task(), 1), 1, &sized(1000), NOW).unwrap();
    let failed = reported(&running, 1, &fails()).unwrap();
    let to = |bytes| Update { result: Some(sized(bytes)), ..Update::default() }.apply(&failed, NOW);
    assert!(to(room_for_both() - 1000).is_ok());
    assert_eq!(to(room_for_both() - 999), Err(Refusal::TaskDataTooLarge));
    let args = |bytes| Update { args: Some(sized(bytes)), ..Update::default() }.apply(&failed, NOW);
    // The empty result and the empty args, which these take the place of, are as long as each other.
    assert!(args(room_for_both() - 1000).is_ok());
    assert_eq!(args(room_for_both() - 999), Err(Refusal::TaskDataTooLarge));
}

#[test]
fn the_size_is_checked_after_the_run() {
    let running = claimed(&task(), 1);
    let too_large = sized(TASK_DATA_BYTES);
    assert_eq!(said(&running, 1, &too_large, NOW), Err(Refusal::TaskDataTooLarge));
    assert_eq!(said(&running, 2, &too_large, NOW), Err(Refusal::StaleRun { run_id: run(2) }));
}

#[test]
fn progress_counts_for_memory_and_pages_and_the_stored_size() {
    let running = said(&claimed(&task(), 1), 1, &sized(100), NOW).unwrap();
    assert_eq!(running.bytes(), task().bytes() + 100);
    assert_eq!(running.view().bytes(), claimed(&task(), 1).view().bytes() + 100);
    assert_eq!((running.head().progress_bytes, task().head().progress_bytes), (100, 0));
}
