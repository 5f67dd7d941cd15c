//! When the board can be seen by others. The writer runs on the test's own thread.

use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::transaction::Transaction;
use tempfile::TempDir;

use super::*;
use crate::migrate;

/// A writer over a fresh file with the queue `q`.
fn writer() -> (Writer, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ownership = Arc::new(Ownership::take(&folder.path().join("tasks.db")).unwrap());
    let mut connection = open::writer(ownership.path()).unwrap();
    migrate::migrate(&mut connection, ownership.path()).unwrap();
    let checkpointer = Checkpointer::start(open::checkpointer(ownership.path()).unwrap()).unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000)));
    let mut writer = Writer::new(connection, Board::default(), ownership, clock, 90, checkpointer, Arc::default());
    assert_eq!(serve(&mut writer, vec![create_queue("q")]), [Ok(Answer::Created(true))]);
    (writer, folder)
}

/// Serves a batch, as the thread does.
fn serve(writer: &mut Writer, commands: Vec<Command>) -> Vec<Outcome> {
    let (batch, answers): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .map(|command| {
            let (answer, answered) = oneshot::channel();
            (Request { command, answer }, answered)
        })
        .unzip();
    writer.with_board(|writer| writer.serve(batch));
    answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect()
}

fn shows_nothing(writer: &Writer) -> bool {
    writer.wall.shows_nothing_for(&claim("q", "default", 1))
}

#[test]
fn nobody_sees_the_board_until_the_commit() {
    let (mut writer, _folder) = writer();
    assert!(shows_nothing(&writer));
    writer.with_board(|writer| {
        let wall = writer.wall();
        let seen = writer.in_transaction(|tx| {
            tx.insert_queue(&queue("r"))?;
            Ok(wall.shows_nothing_for(&claim("q", "default", 1)) || wall.take_down().is_some())
        });
        assert_eq!(seen, Ok(false));
        assert!(!shows_nothing(writer));
    });
    assert!(shows_nothing(&writer));
    assert!(writer.wall.shows_nothing_for(&claim("r", "default", 1)));
}

#[test]
fn empty_claims_that_reach_the_writer_need_no_transaction() {
    let (mut writer, folder) = writer();
    // Whoever holds the file lets every transaction fail.
    let stranger = Connection::open(folder.path().join("tasks.db")).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claims = (1..=3).map(|run| claim("q", "default", run)).collect();
    assert_eq!(
        serve(&mut writer, claims),
        [Ok(Answer::Claimed(None)), Ok(Answer::Claimed(None)), Ok(Answer::Claimed(None))]
    );
}

#[test]
fn after_a_panic_in_a_batch_others_see_what_the_file_holds() {
    let (mut writer, _folder) = writer();
    writer.with_board(|writer| {
        let panicked = writer.in_transaction::<()>(|tx| {
            tx.insert_queue(&queue("r"))?;
            panic!("a bug in a rule");
        });
        assert_eq!(panicked, Err(StoreError::Unavailable));
    });
    assert!(shows_nothing(&writer));
    assert!(!writer.wall.shows_nothing_for(&claim("r", "default", 1)), "there is no such queue");
    assert_eq!(serve(&mut writer, vec![create_queue("r")]), [Ok(Answer::Created(true))]);
    assert!(writer.wall.shows_nothing_for(&claim("r", "default", 1)));
}

#[test]
fn a_panic_outside_of_a_transaction_takes_the_board_away() {
    let (mut writer, _folder) = writer();
    let wall = writer.wall();
    let panicked = catch_unwind(AssertUnwindSafe(|| writer.with_board(|_| panic!("the end of the thread"))));
    assert!(panicked.is_err());
    assert!(!wall.shows_nothing_for(&claim("q", "default", 1)) && wall.take_down().is_none());
}

#[test]
fn nobody_sees_the_board_of_a_storage_that_failed_until_it_was_opened_again() {
    let (mut writer, _folder) = writer();
    writer.with_board(Writer::fail);
    assert!(!shows_nothing(&writer));
    assert_eq!(serve(&mut writer, vec![claim("q", "default", 1)]), [Err(StoreError::Unavailable)]);
    assert!(!shows_nothing(&writer));
    writer.with_board(Writer::reopen);
    assert!(shows_nothing(&writer));
}
