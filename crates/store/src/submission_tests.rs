//! Every order of what a caller and a writer do, with paused time.

use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

use super::*;
use crate::StoreResult;
use crate::command::{Scan, Scanned};

type Answer = StoreResult<Scanned>;

const DONE: Answer = Ok(Scanned { expired_runs: 1, credited_runs: 2, expired_observations: 3, more: false });

fn submit() -> (Submission<Scan>, PendingAnswer<Scanned>) {
    Submission::new(Scan)
}

fn answer(mut submission: Submission<Scan>, answer: Answer) {
    let _ = submission.execute(|Scan| answer);
    submission.release();
}

fn waiting(pending: PendingAnswer<Scanned>) -> JoinHandle<(Answer, Duration)> {
    tokio::spawn(async move {
        let start = Instant::now();
        (pending.wait().await, start.elapsed())
    })
}

/// Lets time pass for callers that have begun to wait.
async fn pass(time: Duration) {
    yield_now().await;
    advance(time).await;
    yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_never_gets_its_turn_is_busy_after_five_seconds_and_can_never_begin() {
    let (submission, pending) = submit();
    assert_eq!(waiting(pending).await.unwrap(), (Err(StoreError::Busy), Duration::from_secs(5)));
    assert!(!submission.begin());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_command_that_has_begun_is_waited_for() {
    let (submission, pending) = submit();
    let caller = waiting(pending);
    pass(Duration::from_millis(4_999)).await;
    assert!(submission.begin());
    pass(Duration::from_secs(20)).await;
    assert!(submission.begin(), "a writer that tries again goes on");
    answer(submission, DONE);
    assert_eq!(caller.await.unwrap(), (DONE, Duration::from_millis(24_999)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_within_the_limit_leaves_the_outcome_unknown() {
    let (submission, pending) = submit();
    assert!(submission.begin());
    assert_eq!(waiting(pending).await.unwrap(), (Err(StoreError::OutcomeUnknown), ANSWER_LIMIT));
    assert!(submission.begin(), "what has begun may still be done");
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_is_done_although_its_caller_goes_away_and_nothing_else_is() {
    for has_begun in [false, true] {
        let (submission, pending) = submit();
        let caller = waiting(pending);
        pass(Duration::from_secs(1)).await;
        assert!(!has_begun || submission.begin());
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert_eq!(submission.begin(), has_begun);
        if has_begun {
            answer(submission, DONE);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_again_can_be_withdrawn_and_is_busy_at_the_limit_if_its_turn_was_over() {
    for (begun_seconds, limit) in [(0, BEGIN_LIMIT), (6, ANSWER_LIMIT)] {
        let (submission, pending) = submit();
        let caller = waiting(pending);
        assert!(submission.begin());
        pass(Duration::from_secs(begun_seconds)).await;
        submission.postpone();
        assert_eq!(caller.await.unwrap(), (Err(StoreError::Busy), limit));
        assert!(!submission.begin());
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_without_an_answer_has_done_nothing_unless_it_had_begun() {
    let (submission, pending) = submit();
    drop(submission);
    assert_eq!(pending.wait().await, Err(StoreError::Unavailable));
    let (submission, pending) = submit();
    assert!(submission.begin());
    drop(submission);
    assert_eq!(pending.wait().await, Err(StoreError::OutcomeUnknown));
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_for_a_command_is_held_until_its_writer_lets_go_of_it() {
    let held = Arc::new(());
    let (withdrawn, pending) = Submission::holding(Scan, Some(Box::new(Arc::clone(&held))));
    assert_eq!(waiting(pending).await.unwrap().0, Err(StoreError::Busy));
    assert_eq!(Arc::strong_count(&held), 2, "the writer has the command");
    drop(withdrawn);
    assert_eq!(Arc::strong_count(&held), 1);
    let (begun, pending) = Submission::holding(Scan, Some(Box::new(Arc::clone(&held))));
    assert!(begun.begin());
    answer(begun, DONE);
    assert_eq!((Arc::strong_count(&held), pending.wait().await), (1, DONE));
}

/// The first of the two decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_either_begun_or_withdrawn_and_never_both() {
    for _ in 0..2_000 {
        let (submission, pending) = submit();
        let writer = tokio::task::spawn_blocking(move || {
            let begun = submission.begin();
            if begun {
                answer(submission, DONE);
            }
            begun
        });
        let withdrawn = pending.withdraw();
        assert_ne!(writer.await.unwrap(), withdrawn);
    }
}
