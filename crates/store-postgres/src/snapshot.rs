//! What a read sees: one moment of the database, on a connection that nobody else uses meanwhile. A read that may take
//! long computes only when it is its turn, and not while it waits for rows.

use std::pin::Pin;

use futures_util::{FutureExt, TryStreamExt};
use taskqueue_store::long_reads::Turn;
use tokio_postgres::{Row, RowStream};

use crate::readers::ReadError;
use crate::session::Session;

/// One moment of the database.
pub(crate) struct Snapshot<'a> {
    pub(crate) session: &'a Session,
    /// The turn of a read that may take long: it runs on a thread of its own, which may be made to wait.
    turn: Option<&'a Turn>,
}

impl<'a> Snapshot<'a> {
    /// For a read of bounded cost.
    pub(crate) fn bounded(session: &'a Session) -> Self {
        Self { session, turn: None }
    }

    /// For a read that takes turns.
    pub(crate) fn long(session: &'a Session, turn: &'a Turn) -> Self {
        Self { session, turn: Some(turn) }
    }

    /// To be called for each row before it is looked at. Waits for the turn of this read.
    pub(crate) fn pause(&self) -> Result<(), ReadError> {
        Ok(self.turn.map_or(Ok(()), Turn::pause)?)
    }

    /// To be called before anything is waited for.
    pub(crate) fn release(&self) {
        if let Some(turn) = self.turn {
            turn.release();
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
            Some(_) => self.pause()?,
            None => self.release(),
        }
        Ok(row)
    }
}
