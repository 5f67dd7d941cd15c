//! How a transaction sends what was saved, and how it ends.

use std::cell::Cell;

use futures_util::future::{TryFutureExt, join, join_all};
use taskqueue_store::transaction::Loaded;
use tokio_postgres::{Error, Row};

use super::PostgresTransaction;
use crate::changes::{Changes, Write};
use crate::failure::{Cause, cause, log_unless_conflict};
use crate::session::Session;
use crate::statements as sql;

/// What identifies a transaction after its connection was lost (`CURRENT_TRANSACTION`).
#[derive(Debug)]
pub(crate) struct TransactionId {
    pub(crate) number: String,
    /// Until the database server recovers from a crash, the number belongs to this transaction.
    pub(crate) crash_epoch: String,
}

/// How a transaction ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is durable, or it had changed nothing.
    Committed,
    /// Nothing of it was kept.
    Undone(Cause),
    /// The connection was lost during COMMIT. The id is used to find out later whether it was committed.
    Unknown(Option<TransactionId>),
}

impl Ended {
    fn of(error: &Error) -> Self {
        Self::Undone(log_unless_conflict("committing", error))
    }
}

impl PostgresTransaction<'_> {
    /// Sends what was saved so far. Afterwards the rows in memory are those of the database.
    pub(crate) fn send(&mut self) -> Loaded<()> {
        let (session, runtime) = (self.session, self.runtime);
        let sent = {
            let changes = Changes::of(&self.rows, self.shard, self.clock.now);
            self.dead.add(changes.dead_entries());
            let writes = changes.writes();
            self.wrote |= !writes.is_empty();
            let asked = writes.iter().map(|(sql, columns)| session.execute(sql, columns));
            runtime.block_on(join_all(asked))
        };
        for answer in sent {
            answer.map_err(|error| self.failed("writing", &error))?;
        }
        self.rows.mark_stored();
        Ok(())
    }

    /// Sends what was saved together with `COMMIT`, in one round trip. A transaction that changed nothing is rolled back
    /// instead.
    pub(crate) fn commit(self) -> Ended {
        let (session, changes) = (self.session, Changes::of(&self.rows, self.shard, self.clock.now));
        self.dead.add(changes.dead_entries());
        let writes = changes.writes();
        if writes.is_empty() && !self.wrote {
            return match self.runtime.block_on(session.execute_text("ROLLBACK")) {
                Ok(()) => Ended::Committed,
                Err(error) => Ended::of(&error),
            };
        }
        self.runtime.block_on(send_and_commit(session, &writes, self.settles))
    }
}

/// Sends these writes and `COMMIT` at once. With `settles` it can be found out later how the transaction ended.
async fn send_and_commit(session: &Session, writes: &[Write<'_>], settles: bool) -> Ended {
    let is_unsent = Cell::new(false);
    let asked = writes.iter().map(|(sql, columns)| session.execute(sql, columns).inspect_err(|_| is_unsent.set(true)));
    // When this begins, all writes are on their way, or the driver could not send one: what was sent would be half of it.
    let commit =
        async { if is_unsent.get() { Ok(false) } else { session.execute_text("COMMIT").await.map(|()| true) } };
    let named = async { if settles { session.first(&sql::CURRENT_TRANSACTION, &[]).await } else { Ok(None) } };
    let (id_row, (sent, committed)) = join(named, join(join_all(asked), commit)).await;
    // The first error in the order of the statements: the later ones fail because of it.
    let reported = id_row.as_ref().err().into_iter().chain(sent.iter().filter_map(|answer| answer.as_ref().err()));
    let reported = reported.chain(committed.as_ref().err()).find(|error| error.code().is_some());
    match (reported, &committed) {
        // The database refused a statement and so the whole transaction; COMMIT only confirms that.
        (Some(error), _) if cause(error) != Cause::Lost => Ended::of(error),
        // The connection is not used again.
        (_, Ok(false)) => {
            sent.iter().find_map(|answer| answer.as_ref().err()).map_or(Ended::Undone(Cause::Lost), Ended::of)
        }
        (None, Ok(true)) => Ended::Committed,
        // The connection was lost, with or without an error message. Everything was sent before, so the COMMIT may have
        // reached the database, for example through a pooler.
        _ => {
            let id = |row: Row| TransactionId { number: row.get("number"), crash_epoch: row.get("crash_epoch") };
            Ended::Unknown(id_row.ok().flatten().map(id))
        }
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_test_postgres::Cluster;

    use super::*;
    use crate::database_tests::{migrated, session};
    use crate::prefetch::begin_to_write;

    /// Nothing of a transaction is kept if the driver could not encode one of its statements: the others would be half of it.
    #[tokio::test]
    async fn a_transaction_with_a_statement_that_could_not_be_sent_is_undone() {
        let database = migrated(Cluster::shared());
        let session = session(&database).await;
        // Also when they are prepared for the next time, and when one of them was.
        for _ in 0..3 {
            begin_to_write(&session).await.unwrap();
            let (keys, names) = (vec![100_i64], vec!["new"]);
            // The second one takes numbers.
            let writes: [Write<'_>; 2] =
                [(&sql::INSERT_QUEUES, vec![&keys, &names]), (&sql::DELETE_UNSETTLED, vec![&names])];
            let ended = send_and_commit(&session, &writes, true).await;
            assert!(matches!(ended, Ended::Undone(Cause::Lost)), "{ended:?}");
            assert!(database.rows("SELECT 1 FROM taskqueue.queues WHERE name = 'new'").is_empty());
            session.execute_text("ROLLBACK").await.unwrap();
        }
    }
}
