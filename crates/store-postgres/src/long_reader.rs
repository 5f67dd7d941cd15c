//! A thread for long reads. It drives its own connection, so that neither receiving rows nor processing them uses an async
//! thread of the server. A read sees one moment of the database. It holds a slot of the scheduler while it computes, and not
//! while it waits for rows, which stay at the database meanwhile.

use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::future::{Either, select};
use futures_util::{FutureExt, TryStreamExt};
use taskqueue_store::long_reads::{ActiveRead, StopReason};
use taskqueue_store::{StoreError, StoreResult};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::{Row, RowStream};

use crate::readers::{ConnectionSource, END, READ_TIMEOUT, Read, ReadError, cancel_twice};
use crate::session::Session;

/// The state of one thread.
pub(crate) struct LongReader {
    source: Arc<dyn ConnectionSource>,
    /// Drives the connection, only while a read waits for it.
    runtime: Option<Runtime>,
    session: Option<Session>,
    /// Whether the snapshot of the last read is still open.
    snapshot_open: bool,
}

impl LongReader {
    pub(crate) fn new(source: Arc<dyn ConnectionSource>) -> Self {
        Self { source, runtime: None, session: None, snapshot_open: false }
    }

    /// Runs a read that may scan every task.
    pub(crate) fn run<T>(
        &mut self,
        active: &ActiveRead,
        doing: &'static str,
        read: &impl AsyncFn(&Snapshot<'_>) -> Read<T>,
    ) -> StoreResult<T> {
        // Connecting and sending the query need no slot.
        active.release_slot();
        let runtime = match self.runtime.take().map_or_else(|| Builder::new_current_thread().enable_all().build(), Ok) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "the runtime of a reader thread could not be created");
                return Err(StoreError::Unavailable);
            }
        };
        let answer = runtime.block_on(async {
            let idle = self.session.take().filter(|session| !session.is_closed());
            match self.attempt(idle, active, read).await {
                Err(error) if error.is_retryable(doing) => self.attempt(None, active, read).await,
                answer => answer,
            }
        });
        active.release_slot();
        self.put_back(runtime);
        answer.map_err(|error| error.into_store_error(doing))
    }

    /// Keeps the runtime while there is a connection. Dropping it closes the sockets of discarded connections, which nothing
    /// else drives.
    fn put_back(&mut self, runtime: Runtime) {
        self.runtime = self.session.is_some().then_some(runtime);
    }

    /// One attempt, on the idle connection or a new one.
    async fn attempt<T>(
        &mut self,
        idle: Option<Session>,
        active: &ActiveRead,
        read: &impl AsyncFn(&Snapshot<'_>) -> Read<T>,
    ) -> Read<T> {
        let session = match idle {
            Some(session) => session,
            None => until_stopped(active, self.source.connect()).await??,
        };
        let answer = until_stopped(active, read(&Snapshot::long(&session, active))).await;
        let interrupted = match answer {
            // The connection can be used again once the snapshot is closed.
            Ok(answer @ (Ok(_) | Err(ReadError::Refused(_)))) => {
                (self.session, self.snapshot_open) = (Some(session), true);
                return answer;
            }
            // No statement is running, but the state of the connection is unknown.
            Ok(failed @ Err(ReadError::Failed(_))) => return failed,
            Ok(broken_off @ Err(ReadError::BrokenOff(_))) => broken_off,
            Err(stopped) => Err(stopped.into()),
        };
        // Rows may still be arriving.
        active.release_slot();
        cancel_twice(&*self.source, &session).await;
        interrupted
    }

    /// Closes the snapshot of the last read, whose caller already has the answer.
    pub(crate) fn close_snapshot(&mut self) {
        if !std::mem::take(&mut self.snapshot_open) {
            return;
        }
        let (Some(runtime), Some(session)) = (self.runtime.take(), self.session.take()) else { return };
        let ended = runtime.block_on(async { timeout(READ_TIMEOUT, session.execute_text(END)).await });
        self.session = Some(session).filter(|_| matches!(ended, Ok(Ok(()))));
        self.put_back(runtime);
    }
}

/// Waits for `work` until the read must stop.
async fn until_stopped<T>(active: &ActiveRead, work: impl Future<Output = T>) -> Result<T, StopReason> {
    let work = pin!(timeout(active.time_left(), work));
    match select(work, pin!(active.interrupted())).await {
        Either::Left((Ok(done), _)) => Ok(done),
        Either::Left((Err(_), _)) => Err(StopReason::OutOfTime),
        Either::Right(_) => Err(active.acquire_slot().err().unwrap_or(StopReason::Abandoned)),
    }
}

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
    pub(crate) fn yield_if_due(&self) -> Read<()> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
    }

    /// Must be called before waiting for anything else.
    pub(crate) fn release_slot(&self) {
        if let Some(active) = self.active {
            active.release_slot();
        }
    }

    /// The next row, with a slot to process it.
    pub(crate) async fn next(&self, rows: &mut Pin<Box<RowStream>>) -> Read<Option<Row>> {
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
