//! What a writer does besides its commands. It runs on the test's own thread.
#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use taskqueue_store::command::Command;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::submission::{PendingAnswer, Submission};
use taskqueue_store::write_backlog::MAX_SINGLE;
use taskqueue_store::write_queue::WriteQueue;
use taskqueue_test_postgres::{Cluster, Database};

use super::*;
use crate::address::Address;
use crate::database_tests::migrated;
use crate::session::Schema;

/// A writer on a database with the queue `q`.
fn writer(database: &Database) -> Writer {
    let connector = Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap();
    Writer::new(Arc::new(connector), Arc::default(), Arc::default(), None, Arc::default(), 0, 0).unwrap()
}

fn submit<C: Command>(command: C) -> (Write, PendingAnswer<C::Answer>) {
    let (submission, answer) = Submission::new(command);
    (Write::new(C::into_request(submission)), answer)
}

fn wait<A>(answer: PendingAnswer<A>) -> Result<A, StoreError> {
    Builder::new_current_thread().enable_time().build().unwrap().block_on(answer.wait())
}

fn serve<C: Command>(writer: &mut Writer, command: C) -> Result<C::Answer, StoreError> {
    let (write, answer) = submit(command);
    writer.execute(vec![write]);
    wait(answer)
}

#[test]
fn a_writer_that_is_never_idle_purges_deleted_queues_all_the_same() {
    let database = migrated(Cluster::shared());
    let mut writer = writer(&database);
    assert!(serve(&mut writer, create_all(0..1_000)).is_ok());
    assert!(serve(&mut writer, delete_queue("q", true)).is_ok());
    // All are there when it begins, and no more can come: it is never idle.
    let (requests, backlog) = WriteQueue::new();
    let answers: Vec<_> = (0..MAX_SINGLE * BATCHES_PER_PURGE + 1)
        .map(|_| {
            let (write, answer) = submit(heartbeat("q", 1, 1));
            requests.submit(write).unwrap();
            answer
        })
        .collect();
    requests.close();
    writer.run(&Arc::new(Mutex::new(backlog)));
    assert!(answers.into_iter().all(|answer| matches!(wait(answer), Err(StoreError::Refused(_)))));
    let left = database.rows("SELECT count(*) FROM taskqueue.tasks");
    assert_eq!(left, [[Some((1_000 - PURGE).to_string())]]);
}
