//! Every order in which a caller and a writer can meet, with paused time.

use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

use super::*;

fn waiting(awaited: Awaited) -> JoinHandle<(Outcome, Duration)> {
    tokio::spawn(async move {
        let start = Instant::now();
        (awaited.outcome().await, start.elapsed())
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
    let (handed, awaited) = hand_over();
    assert_eq!(waiting(awaited).await.unwrap(), (Err(StoreError::Busy), TURN_LIMIT));
    assert!(!handed.begin());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_command_that_has_begun_is_waited_for() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    pass(Duration::from_millis(4_999)).await;
    assert!(handed.begin());
    pass(Duration::from_secs(20)).await;
    assert!(handed.begin(), "a writer that tries again goes on");
    handed.answer(Ok(Answer::Done));
    assert_eq!(caller.await.unwrap(), (Ok(Answer::Done), Duration::from_millis(24_999)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_within_the_limit_leaves_the_outcome_unknown() {
    let (handed, awaited) = hand_over();
    assert!(handed.begin());
    assert_eq!(waiting(awaited).await.unwrap(), (Err(StoreError::OutcomeUnknown), ANSWER_LIMIT));
    assert!(handed.begin(), "what has begun may still be done");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_before_the_beginning_takes_nothing() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    pass(Duration::from_secs(1)).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert!(!handed.begin());
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_is_done_although_its_caller_goes_away() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    pass(Duration::from_secs(1)).await;
    assert!(handed.begin());
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert!(handed.begin());
    handed.answer(Ok(Answer::Done));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_again_can_be_taken_back() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    assert!(handed.begin());
    handed.wait_again();
    assert_eq!(caller.await.unwrap(), (Err(StoreError::Busy), TURN_LIMIT));
    assert!(!handed.begin());
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_again_when_its_turn_was_over_is_busy_at_the_limit() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    assert!(handed.begin());
    pass(Duration::from_secs(6)).await;
    handed.wait_again();
    assert_eq!(caller.await.unwrap(), (Err(StoreError::Busy), ANSWER_LIMIT));
    assert!(!handed.begin());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_without_an_answer_has_done_nothing_unless_it_had_begun() {
    let (handed, awaited) = hand_over();
    drop(handed);
    assert_eq!(awaited.outcome().await, Err(StoreError::Unavailable));
    let (handed, awaited) = hand_over();
    assert!(handed.begin());
    drop(handed);
    assert_eq!(awaited.outcome().await, Err(StoreError::OutcomeUnknown));
}

/// Whoever is first decides, for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_either_begun_or_taken_back_and_never_both() {
    for _ in 0..2_000 {
        let (handed, awaited) = hand_over();
        let writer = tokio::task::spawn_blocking(move || {
            let begun = handed.begin();
            if begun {
                handed.answer(Ok(Answer::Done));
            }
            begun
        });
        let taken_back = awaited.take_back();
        assert_ne!(writer.await.unwrap(), taken_back);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_at_once_is_given_at_once() {
    let (handed, awaited) = hand_over();
    let caller = waiting(awaited);
    pass(Duration::from_millis(1)).await;
    assert!(handed.begin());
    handed.answer(Err(StoreError::Unavailable));
    assert_eq!(caller.await.unwrap().0, Err(StoreError::Unavailable));
}
