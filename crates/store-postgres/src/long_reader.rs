//! A reader of reads that may look at every task: a thread with a connection, which it drives itself, so that neither the
//! rows that arrive nor what is computed from them takes an async thread of the server. Rows stay at the database while
//! the read waits for its active.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either, select};
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::{ActiveRead, StopReason};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::readers::{CANCEL_AGAIN, END, PATIENCE, ReadError, Source};
use crate::session::Session;
use crate::snapshot::Snapshot;

/// A read: what it is called, what it is about, and how it is done.
pub(crate) struct LongWork<I, T> {
    pub(crate) doing: &'static str,
    pub(crate) input: I,
    pub(crate) read: for<'a> fn(&'a Snapshot<'a>, &'a I) -> BoxFuture<'a, Result<T, ReadError>>,
}

/// What a thread of the long reads owns.
pub(crate) struct LongReader {
    source: Arc<dyn Source>,
    /// Drives the connection while a read waits for it, and only then.
    runtime: Option<Runtime>,
    session: Option<Session>,
    /// Whether the last read has left its snapshot open.
    open: bool,
}

/// How a try ended, and whether its connection is of use.
enum Tried<T> {
    /// In order: the snapshot is to be ended.
    Done(Session, Result<T, ReadError>),
    /// The connection failed.
    Lost(ReadError),
    /// In the middle of the rows.
    CutOff(Session, ReadError),
}

impl LongReader {
    /// Without a connection.
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, runtime: None, session: None, open: false }
    }

    /// Does a read.
    pub(crate) fn read<I, T>(&mut self, active: &ActiveRead, work: &LongWork<I, T>) -> Result<T, StoreError> {
        // Connecting and asking is no computing.
        active.release_slot();
        let runtime = match self.runtime.take().map_or_else(|| Builder::new_current_thread().enable_all().build(), Ok) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "a thread that reads could not start");
                return Err(StoreError::Unavailable);
            }
        };
        let answer = runtime.block_on(self.tries(active, work));
        active.release_slot();
        self.keep(runtime);
        answer.map_err(|error| error.into_store_error(work.doing))
    }

    /// Keeps what drives the connection as long as there is one. Dropped, it closes the sockets of those that were given up:
    /// nothing else drives them to their end.
    fn keep(&mut self, runtime: Runtime) {
        self.runtime = self.session.is_some().then_some(runtime);
    }

    async fn tries<I, T>(&mut self, active: &ActiveRead, work: &LongWork<I, T>) -> Result<T, ReadError> {
        let kept = self.session.take().filter(|session| !session.is_closed());
        let first = self.once(kept, active, work).await;
        match first {
            Err(error) if error.is_worth_another_try(work.doing) => self.once(None, active, work).await,
            answer => answer,
        }
    }

    /// One try, on the connection that was kept or on a new one.
    async fn once<I, T>(
        &mut self,
        kept: Option<Session>,
        active: &ActiveRead,
        work: &LongWork<I, T>,
    ) -> Result<T, ReadError> {
        let session = match kept {
            Some(session) => session,
            None => until_stopped(active, self.source.connect()).await??,
        };
        match attempt(session, active, work).await {
            Tried::Done(session, answer) => {
                (self.session, self.open) = (Some(session), true);
                answer
            }
            Tried::Lost(error) => Err(error),
            Tried::CutOff(session, error) => {
                active.release_slot();
                self.cancel(session).await;
                Err(error)
            }
        }
    }

    /// Stops what a connection is doing on the server, and gives the connection up.
    async fn cancel(&self, session: Session) {
        let cancel = || self.source.cancel(session.client().cancel_token());
        let (first, second) = (cancel(), cancel());
        first.await;
        sleep(CANCEL_AGAIN).await;
        second.await;
    }

    /// Ends the snapshot of the last read, whose caller has its answer already.
    pub(crate) fn after(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let (Some(runtime), Some(session)) = (self.runtime.take(), self.session.take()) else { return };
        let ended = runtime.block_on(async { timeout(PATIENCE, session.execute_text(END)).await });
        self.session = Some(session).filter(|_| matches!(ended, Ok(Ok(()))));
        self.keep(runtime);
    }
}

async fn attempt<I, T>(session: Session, active: &ActiveRead, work: &LongWork<I, T>) -> Tried<T> {
    let answer = {
        let snapshot = Snapshot::long(&session, active);
        until_stopped(active, (work.read)(&snapshot, &work.input)).await
    };
    match answer {
        Ok(answer @ (Ok(_) | Err(ReadError::Refused(_)))) => Tried::Done(session, answer),
        // Nothing is running, but who knows what the connection is good for.
        Ok(Err(error @ ReadError::Failed(_))) => Tried::Lost(error),
        Ok(Err(error @ (ReadError::Damaged(_) | ReadError::Stopped(_)))) => Tried::CutOff(session, error),
        Err(stopped) => Tried::CutOff(session, stopped.into()),
    }
}

/// Waits for something as long as the read may go on.
async fn until_stopped<T>(active: &ActiveRead, work: impl Future<Output = T>) -> Result<T, StopReason> {
    let work = pin!(timeout(active.time_left(), work));
    match select(work, pin!(active.interrupted())).await {
        Either::Left((Ok(done), _)) => Ok(done),
        Either::Left((Err(_), _)) => Err(StopReason::OutOfTime),
        Either::Right(_) => Err(active.acquire_slot().err().unwrap_or(StopReason::Abandoned)),
    }
}
