//! What a writer does when something went wrong: a transaction that failed, a commit whose outcome is not known, a
//! connection that was lost.

use std::time::{Duration, Instant};

use super::{BatchFailure, Write, Writer};
use crate::commit_outcome::find_commit_outcome;
use crate::failure::{Cause, failed};
use crate::prefetch;
use crate::session::Session;
use crate::statements as sql;
use crate::transaction::Ended;

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
        match self.runtime.block_on(self.shared.connector.session(sql::WRITER)) {
            Ok(session) => {
                self.settles = self.runtime.block_on(session.can_name_transactions());
                self.runtime.block_on(session.let_client_be_watched());
                (self.session, self.connect_failed_at) = (Some(session), None);
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
