//! What is answered without the writer, and what is not. The writer of these stores has ended; the test holds the receiver of
//! the queue.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use taskqueue_core::definition::Definition;
use taskqueue_core::settings::SettingsPatch;
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::command::{Claim, Claimed, Lookup, Scan};
use taskqueue_store::conformance::any_command::{AnyCommand, Write};
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{StoreExt, commands};
use tempfile::TempDir;

use super::*;

/// A store whose commands arrive at the test.
struct Writerless {
    store: SqliteStore,
    requests: crate::writer::Backlog,
    clock: ManualClock,
    _folder: TempDir,
}

/// A store with the queue `q` that has done these commands, and then lost its writer.
async fn after(commands: Vec<AnyCommand>, options: Options) -> Writerless {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    let mut store = SqliteStore::open(&folder.path().join("tasks.db"), Arc::new(clock.clone()), &options).unwrap();
    store.write(create_queue("q")).await.unwrap();
    for command in commands {
        command.write_to(&store).await.unwrap();
    }
    let (queue, requests) = WriteQueue::new();
    let threads = Arc::get_mut(&mut store.threads).unwrap();
    std::mem::replace(&mut threads.queue, queue).close();
    threads.writer.join();
    Writerless { store, requests, clock, _folder: folder }
}

impl Writerless {
    /// The answer, if it is given at once; otherwise the command went to the writer.
    async fn answer<W: Write>(&mut self, command: W) -> Option<Result<W::Answer, StoreError>> {
        let mut write = pin!(command.write_to(&self.store));
        let answer = poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        let answer = answer.await;
        assert_eq!(
            answer.is_none(),
            self.requests.try_next().is_some_and(|next| !next.is_empty()),
            "either answered or handed over"
        );
        answer
    }
}

type ClaimAnswer = Option<Result<Option<Box<Claimed>>, StoreError>>;

const NO_TASK: ClaimAnswer = Some(Ok(None));
const TO_THE_WRITER: ClaimAnswer = None;

fn empty_claim() -> Claim {
    claim("q", "default", "empty")
}

#[tokio::test]
async fn a_claim_that_finds_nothing_needs_no_writer() {
    let mut store = after(commands![create("q", 1, with_routes(&["other"]))], Options::default()).await;
    for _ in 0..3 {
        assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    }
    assert_eq!(store.answer(claim_all([1, 2])).await, Some(Ok(vec![Ok(None), Ok(None)])));
}

#[tokio::test]
async fn whatever_is_not_sure_to_find_nothing_goes_to_the_writer() {
    let past =
        commands![create("q", 1, Definition::default()), claim("q", "default", 1), complete("q", 1, 1, object("{}"))];
    let active = commands![create("q", 2, Definition::default()), claim("q", "default", 2)];
    let pending = commands![create("q", 3, with_routes(&["gpu"]))];
    let mut store = after([&past[..], &active, &pending].concat(), Options::default()).await;
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    let others = [
        ("a task is there", AnyCommand::from(claim("q", "gpu", 4))),
        ("the queue is not", AnyCommand::from(claim("r", "default", 4))),
        ("an active run", AnyCommand::from(claim("q", "default", 2))),
        ("an active run, for another route", AnyCommand::from(claim("q", "other", 2))),
        ("a run that has ended", AnyCommand::from(claim("q", "default", 1))),
        ("an active run among new ones", AnyCommand::from(claim_all([4, 2]))),
        ("a run that has ended among new ones", AnyCommand::from(claim_all([4, 1]))),
        ("no claim", AnyCommand::from(heartbeat("q", 2, 2))),
        ("no claim", AnyCommand::from(create("q", 4, Definition::default()))),
        ("no claim", AnyCommand::from(Scan)),
    ];
    for (why, command) in others {
        assert_eq!(store.answer(command).await, None, "{why}");
    }
}

#[tokio::test]
async fn a_claim_in_a_queue_that_is_paused_or_full_needs_no_writer() {
    let limited = |max_running| {
        let limit = SettingsPatch { max_running: Some(Some(max_running)), ..SettingsPatch::default() };
        let (one, two) = (create("q", 1, Definition::default()), create("q", 2, Definition::default()));
        commands![one, two, claim("q", "default", 1), change_settings("q", limit)]
    };
    let mut full = after(limited(1), Options::default()).await;
    assert_eq!(full.answer(empty_claim()).await, NO_TASK);
    assert_eq!(full.answer(claim("q", "default", 1)).await, TO_THE_WRITER, "it has its task");
    let mut with_room = after(limited(2), Options::default()).await;
    assert_eq!(with_room.answer(empty_claim()).await, TO_THE_WRITER);
    let pause = SettingsPatch { paused: Some(true), ..SettingsPatch::default() };
    let mut commands = limited(2);
    commands.push(change_settings("q", pause).into());
    let mut paused = after(commands, Options::default()).await;
    assert_eq!(paused.answer(empty_claim()).await, NO_TASK);
    assert_eq!(paused.answer(claim("q", "default", 1)).await, TO_THE_WRITER, "it has its task");
}

#[tokio::test]
async fn a_claim_goes_to_the_writer_when_the_time_of_a_delayed_task_has_come() {
    let begin = Timestamp::from_micros(1_767_225_600_000_000);
    let delayed = |id, route, seconds| create_later(id, with_routes(&[route]), begin.plus_seconds(seconds));
    let blocked = create("q", 3, waits_for(&[4]));
    let commands = commands![delayed(1, "gpu", 30), delayed(2, "default", 60), blocked];
    let mut store = after(commands, Options::default()).await;
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    assert!(store.store.finds_nothing(Lookup::Upkeep));
    store.clock.advance_micros(30_000_000 - 1);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    assert!(store.store.finds_nothing(Lookup::Upkeep));
    store.clock.advance_micros(1);
    assert!(!store.store.finds_nothing(Lookup::Upkeep));
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER, "it is due, whatever its routes are");
}

#[tokio::test]
async fn a_claim_goes_to_the_writer_while_the_index_is_withdrawn() {
    let mut store = after(vec![], Options::default()).await;
    let claim_index = store.store.published_index.withdraw().unwrap();
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER);
    store.store.published_index.publish(claim_index);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
}

#[tokio::test]
async fn after_an_outage_claims_and_upkeep_go_to_the_writer_who_grants_the_credit() {
    let running = || commands![create("q", 1, with_routes(&["gpu"])), claim("q", "gpu", 1), Scan];
    let mut store = after(running(), Options::default()).await;
    store.clock.advance_seconds(15);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    store.clock.advance_micros(1);
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER);
    assert!(!store.store.finds_nothing(Lookup::Upkeep), "reads show the credit after the next upkeep");

    let mut store = after(running(), Options { outage_credit_seconds: 0, ..Options::default() }).await;
    store.clock.advance_seconds(600);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK, "no credit, nothing to do first");
    assert!(store.store.finds_nothing(Lookup::Upkeep));
}

#[tokio::test]
async fn a_finished_store_answers_no_claim() {
    let store = after(vec![], Options::default()).await;
    store.store.threads.close();
    assert_eq!(store.store.write(empty_claim()).await, Err(StoreError::Unavailable));
}

#[tokio::test]
async fn a_store_whose_writer_is_gone_answers_no_claim() {
    let Writerless { store, requests, clock: _, _folder } = after(vec![], Options::default()).await;
    drop(requests);
    assert_eq!(store.write(empty_claim()).await, Err(StoreError::Unavailable));
}

#[tokio::test]
async fn a_check_tells_a_writer_that_hangs_from_a_storage_that_failed() {
    let Writerless { store, .. } = &after(vec![], Options::default()).await;
    assert_eq!(store.check().await, Ok(vec![]));
    let a_minute_ago = Instant::now().checked_sub(std::time::Duration::from_secs(60)).unwrap();
    let _transaction = store.writer_health.begin(a_minute_ago, false);
    assert_eq!(store.check().await, Err(StoreError::Busy));
    store.failed.store(true, Ordering::Relaxed);
    assert_eq!(store.check().await, Err(StoreError::Unavailable), "that needs a person first");
}
