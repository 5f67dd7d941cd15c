//! What a writer does when something went wrong: a transaction that failed, a commit whose outcome is not known, a
//! connection that was lost.

use std::time::{Duration, Instant};

use tokio::time::{self, sleep};

use super::{BatchFailure, Write, Writer};
use crate::failure::{Cause, failed};
use crate::open::Connector;
use crate::session::Session;
use crate::transaction::{Ended, TransactionId};
use crate::{prefetch, statements as sql};

/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(250);

impl Writer {
    /// Rolls a transaction back. If the connection may not be usable for another one, it is
    /// closed.
    pub(super) fn roll_back(&mut self, failure: &BatchFailure) {
        let reusable = matches!(failure, BatchFailure::Again(Cause::Conflict | Cause::Busy) | BatchFailure::Broken(_));
        let rolled_back = |session: &Session| self.runtime.block_on(session.execute_text("ROLLBACK")).is_ok();
        if !(reusable && self.session.as_ref().is_some_and(rolled_back)) {
            self.session = None;
        }
    }

    /// Lets other commands into the queue of a long command again, if there is a connection.
    pub(super) fn free_queue(&mut self, batch: &[Write]) {
        let [write] = batch else { return };
        let Some(queue) = write.request.queue().filter(|_| write.request.is_long()) else { return };
        let Some(session) = &self.session else { return };
        if let Err(error) = self.runtime.block_on(prefetch::free(session, queue.as_str())) {
            failed("freeing a queue", &error);
            self.session = None;
        }
    }

    /// What became of a transaction; when the connection was lost inside `COMMIT`, by asking on another one.
    pub(super) fn end(&self, ended: Ended) -> Result<(), BatchFailure> {
        match ended {
            Ended::Committed => Ok(()),
            Ended::Undone(cause) => Err(BatchFailure::Again(cause)),
            Ended::Unknown(name) => match self.runtime.block_on(find_commit_outcome(&self.shared.connector, name)) {
                Some(true) => Ok(()),
                Some(false) => Err(BatchFailure::Again(Cause::Lost)),
                None => Err(BatchFailure::Unknown),
            },
        }
    }

    /// Makes sure that there is a connection. A database that was not to be reached is left alone for a moment.
    pub(super) fn connect(&mut self) -> Result<(), BatchFailure> {
        if self.session.as_ref().is_some_and(|session| !session.is_closed()) {
            return Ok(());
        }
        self.session = None;
        if let Some((at, error)) = &self.connect_failed_at
            && at.elapsed() < CONNECT_PAUSE
        {
            return Err(BatchFailure::Unconnected(error.clone()));
        }
        match self.runtime.block_on(self.shared.connector.writing_session()) {
            Ok((session, settles)) => {
                (self.session, self.settles, self.connect_failed_at) = (Some(session), settles, None);
                Ok(())
            }
            Err(error) => {
                let error = error.to_store_error("connecting to write");
                self.connect_failed_at = Some((Instant::now(), error.clone()));
                Err(BatchFailure::Unconnected(error))
            }
        }
    }
}

/// How long to ask. Callers wait for the writer for 5 seconds at most.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(4);
const OUTCOME_PAUSE: Duration = Duration::from_millis(50);

/// Whether the transaction was committed; nothing if the database cannot tell, or not in time.
pub(crate) async fn find_commit_outcome(connector: &Connector, id: Option<TransactionId>) -> Option<bool> {
    let (id, begun) = (id?, time::Instant::now());
    while begun.elapsed() < OUTCOME_TIMEOUT {
        match query_status(connector, &id).await {
            Some((status, true)) if status == "committed" => return Some(true),
            // The database has crashed since, and may have given the id to another transaction.
            Some((status, false)) if status == "committed" => break,
            Some((status, _)) if status == "aborted" => return Some(false),
            // The server process is still committing, or the database is starting.
            _ => sleep(OUTCOME_PAUSE).await,
        }
    }
    let transaction = id.number;
    tracing::error!(
        transaction,
        "the connection was lost during COMMIT; whether the transaction was committed is not known"
    );
    None
}

async fn query_status(connector: &Connector, id: &TransactionId) -> Option<(String, bool)> {
    let session = connector.session().await.ok()?;
    let row = session.first(&sql::CHECK_TRANSACTION, &[&id.number, &id.crash_epoch]).await.ok()??;
    Some((row.try_get(0).ok()?, row.try_get(1).ok()?))
}

#[cfg(test)]
mod tests {
    use taskqueue_test_postgres::{Cluster, Database};
    use tokio::task::block_in_place;

    use super::*;
    use crate::address::Address;
    use crate::database_tests::migrated;
    use crate::session::{Schema, Session};

    fn connector(database: &Database) -> Connector {
        Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap()
    }

    /// Begins a transaction that writes something.
    async fn begin(session: &Session, queue: i64) -> TransactionId {
        let insert = format!("INSERT INTO taskqueue.queues (queue_key, name) VALUES ({queue}, 'new{queue}')");
        session.execute_text(&format!("BEGIN; {insert}")).await.unwrap();
        let row = session.first(&sql::CURRENT_TRANSACTION, &[]).await.unwrap().unwrap();
        TransactionId { number: row.get(0), crash_epoch: row.get(1) }
    }

    /// On a server of its own: a checkpoint in between, as a database of another test that is dropped causes it, leaves it unknown.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_transaction_is_told_by_its_name() {
        let cluster = Cluster::private();
        let database = migrated(&cluster);
        let connector = connector(&database);
        let session = connector.session().await.unwrap();
        let name = begin(&session, 100).await;
        session.execute_text("COMMIT").await.unwrap();
        assert_eq!(find_commit_outcome(&connector, Some(name)).await, Some(true));
        let name = begin(&session, 101).await;
        session.execute_text("ROLLBACK").await.unwrap();
        assert_eq!(find_commit_outcome(&connector, Some(name)).await, Some(false));
        assert_eq!(find_commit_outcome(&connector, None).await, None);
    }

    /// A crash loses the names of transactions that were not written to disk; the next ones get them.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_name_that_a_crash_gave_to_another_transaction_is_not_trusted() {
        let cluster = Cluster::private();
        // Nothing is written to disk before somebody commits.
        cluster.configure("wal_writer_delay = 10s");
        let database = migrated(&cluster);
        let connector = connector(&database);
        let session = connector.session().await.unwrap();
        let name = begin(&session, 100).await;
        block_in_place(|| {
            cluster.crash();
            cluster.start();
            // Each a transaction of its own, with the next name.
            database.admin(&"SELECT pg_current_xact_id(); COMMIT;".repeat(200));
        });
        let status = database.rows(&format!("SELECT pg_xact_status('{}'::xid8)", name.number));
        assert_eq!(status, [[Some("committed".to_owned())]], "another transaction has its name");
        assert_eq!(find_commit_outcome(&connector, Some(name)).await, None);
        assert!(database.rows("SELECT 1 FROM taskqueue.queues WHERE queue_key = 100").is_empty());
    }

    /// A caller waits longer, so it is told that nobody knows. A socket that is not there refuses at once, so that the time is that of
    /// the pauses alone.
    #[tokio::test(start_paused = true)]
    async fn a_database_that_cannot_be_asked_leaves_it_unknown_within_five_seconds() {
        let nobody = tempfile::tempdir().unwrap();
        let folder = nobody.path().to_str().unwrap().replace('/', "%2F");
        let address = Address::parse(&format!("postgres://me@{folder}/db")).unwrap();
        let connector = Connector::new(address, Schema::new("taskqueue")).unwrap();
        let (id, begun) = (TransactionId { number: "1".to_owned(), crash_epoch: "1".to_owned() }, time::Instant::now());
        assert_eq!(find_commit_outcome(&connector, Some(id)).await, None);
        let asked = begun.elapsed();
        assert!(OUTCOME_TIMEOUT <= asked && asked < Duration::from_secs(5), "{asked:?}");
    }
}
