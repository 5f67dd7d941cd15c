//! What a read sees: one moment of the database, on a connection of its own. A long read holds a slot of the scheduler
//! while it computes, and not while it waits for rows.

use std::pin::Pin;

use futures_util::{FutureExt, TryStreamExt};
use taskqueue_store::long_reads::ActiveRead;
use tokio_postgres::{Row, RowStream};

use crate::readers::ReadError;
use crate::session::Session;

pub(crate) struct Snapshot<'a> {
    pub(crate) session: &'a Session,
    /// For a long read, which runs on its own thread and may block it.
    active: Option<&'a ActiveRead>,
}

impl<'a> Snapshot<'a> {
    /// For a read of bounded cost.
    pub(crate) fn bounded(session: &'a Session) -> Self {
        Self { session, active: None }
    }

    /// For a read that may scan every task.
    pub(crate) fn long(session: &'a Session, active: &'a ActiveRead) -> Self {
        Self { session, active: Some(active) }
    }

    /// Must be called before each row is processed. Waits for a slot.
    pub(crate) fn yield_if_due(&self) -> Result<(), ReadError> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
    }

    /// Must be called before waiting for anything else.
    pub(crate) fn release_slot(&self) {
        if let Some(active) = self.active {
            active.release_slot();
        }
    }

    /// The next row, with a slot to process it.
    pub(crate) async fn next(&self, rows: &mut Pin<Box<RowStream>>) -> Result<Option<Row>, ReadError> {
        let row = match rows.try_next().now_or_never() {
            Some(row) => row?,
            None => {
                self.release_slot();
                rows.try_next().await?
            }
        };
        match &row {
            Some(_) => self.yield_if_due()?,
            None => self.release_slot(),
        }
        Ok(row)
    }
}
