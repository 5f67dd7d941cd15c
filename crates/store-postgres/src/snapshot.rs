//! What a read sees: one moment of the database, on a connection that nobody else uses meanwhile. A read that may take
//! long computes only when it is its active, and not while it waits for rows.

use std::pin::Pin;

use futures_util::{FutureExt, TryStreamExt};
use taskqueue_store::long_reads::ActiveRead;
use tokio_postgres::{Row, RowStream};

use crate::readers::ReadError;
use crate::session::Session;

/// One moment of the database.
pub(crate) struct Snapshot<'a> {
    pub(crate) session: &'a Session,
    /// The active of a read that may take long: it runs on a thread of its own, which may be made to wait.
    active: Option<&'a ActiveRead>,
}

impl<'a> Snapshot<'a> {
    /// For a read of bounded cost.
    pub(crate) fn bounded(session: &'a Session) -> Self {
        Self { session, active: None }
    }

    /// For a read that takes turns.
    pub(crate) fn long(session: &'a Session, active: &'a ActiveRead) -> Self {
        Self { session, active: Some(active) }
    }

    /// To be called for each row before it is looked at. Waits for the active of this read.
    pub(crate) fn yield_if_due(&self) -> Result<(), ReadError> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
    }

    /// To be called before anything is waited for.
    pub(crate) fn release(&self) {
        if let Some(active) = self.active {
            active.release_slot();
        }
    }

    /// The next row, to be looked at now.
    pub(crate) async fn next(&self, rows: &mut Pin<Box<RowStream>>) -> Result<Option<Row>, ReadError> {
        let row = match rows.try_next().now_or_never() {
            Some(row) => row?,
            None => {
                self.release();
                rows.try_next().await?
            }
        };
        match &row {
            Some(_) => self.yield_if_due()?,
            None => self.release(),
        }
        Ok(row)
    }
}
