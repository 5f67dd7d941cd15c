//! The readers of what costs little: a small pool of connections, made when they are needed, on the async threads. A read
//! that lost its connection is done again on a new one, and a read that nobody waits for any more is stopped on the
//! server too. Reads that may look at every task have connections and threads of their own (`long_reader.rs`).

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt, join, select};
use taskqueue_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Error};

use taskqueue_store::long_reads::{LongReads, StopReason};

use crate::failure::{Cause, cause, describe, failed};
use crate::long_reader::{LongReader, LongWork};
use crate::open::Connector;
use crate::rows::Damaged;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// Connections of the pool at most. The database decides how many it really runs at a time; more would only wait there.
const CONNECTIONS: usize = 6;
/// How many of them may serve pages at a time.
const PAGES: usize = CONNECTIONS - 2;
/// Reads at most that may take long, each with a thread and a connection. One costs this process about 1 MiB, and while
/// it looks at large tasks some MiB more: a few rows that have arrived.
pub(crate) const LONG_READS: usize = 12;
/// How many of their threads and connections stay when there is nothing to do.
const LONG_KEPT: usize = 2;
/// How long a read may wait for a connection of the pool (decisions.md section 4), and how long a short one may take there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a page may take: a network may need a while for 16 MiB. No request takes more than 30 seconds in all.
const PAGE_PATIENCE: Duration = Duration::from_secs(25);
/// How long after a request to stop a read another one is sent: one that overtakes the statement stops nothing.
pub(crate) const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Begins a snapshot. Its settings end with it, because a pooler may give the connection to others in between. Filters
/// are looked at once, so compiling them costs more than it gains.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = '25s'; SET LOCAL lock_timeout = '4s'; SET LOCAL jit = off";
/// Ends a snapshot.
pub(crate) const END: &str = "COMMIT";

/// How long a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// One statement about a few rows by key. It sees one moment without a transaction.
    Short,
    /// A page that begins at a place of an index and takes every row. It runs in a snapshot, which it begins with
    /// [`in_snapshot`].
    Page,
}

/// Where connections come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// A new connection. Nothing is prepared on it: a single statement has no transaction that could tell whether a
    /// pooler has put another process of the server behind it. It gives up in time, and logs why.
    fn connect(&self) -> BoxFuture<'_, Result<Session, StoreError>>;

    /// Asks the server to stop what a connection is doing.
    fn cancel(&self, token: CancelToken) -> BoxFuture<'static, ()>;
}

impl Source for Connector {
    fn connect(&self) -> BoxFuture<'_, Result<Session, StoreError>> {
        async { self.session(&[]).await.map_err(|error| error.failed("connecting to read")) }.boxed()
    }

    fn cancel(&self, token: CancelToken) -> BoxFuture<'static, ()> {
        self.canceller(token).boxed()
    }
}

/// Why a read gave nothing.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// A rule says no.
    Refused(StoreError),
    /// It was not to go on.
    Stopped(StopReason),
    /// The database failed.
    Failed(Error),
    /// The database holds what this service did not write.
    Damaged(Damaged),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StopReason> for ReadError {
    fn from(stopped: StopReason) -> Self {
        Self::Stopped(stopped)
    }
}

impl ReadError {
    /// What the caller may know; the rest is logged.
    pub(crate) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Stopped(stopped) => stopped.into(),
            Self::Failed(error) => failed(doing, &error),
            Self::Damaged(damaged) => damaged.into(),
        }
    }

    /// Whether the read may go well on a new connection. Connections that idled may have died unnoticed; a new one has
    /// not, and has prepared nothing that is lost.
    pub(crate) fn is_worth_another_try(&self, doing: &'static str) -> bool {
        let Self::Failed(error) = self else { return false };
        // Of a statement that a pooler forgot, whoever noticed it has told (`session.rs`).
        if cause(error) == Cause::Lost {
            tracing::warn!(doing, error = describe(error), "a connection was lost; reading again on a new one");
        }
        matches!(cause(error), Cause::Lost | Cause::StatementLost)
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Damaged> for ReadError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged)
    }
}

/// Begins the snapshot of a read together with its first statement, in one round trip. [`Readers`] ends it.
pub(crate) async fn in_snapshot<T>(
    session: &Session,
    first: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let (begun, first) = join(session.execute_text(BEGIN), first).await;
    begun.and(first)
}

/// The pool, and the readers of the long reads beside it.
pub(crate) struct Readers {
    pool: Arc<Pool>,
    any: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    closed: watch::Sender<bool>,
    long: LongReads<LongReader>,
}

struct Pool {
    source: Arc<dyn Source>,
    /// Connections that do nothing; nothing once closed.
    idle: Mutex<Option<Vec<Session>>>,
}

/// The right to use a connection.
struct ReadPermit {
    _any: OwnedSemaphorePermit,
    _page: Option<OwnedSemaphorePermit>,
}

impl Readers {
    /// A pool without connections.
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        let own = Arc::clone(&source);
        let make = move || LongReader::new(Arc::clone(&own));
        Self {
            pool: Arc::new(Pool { source, idle: Mutex::new(Some(Vec::new())) }),
            any: Arc::new(Semaphore::new(CONNECTIONS)),
            pages: Arc::new(Semaphore::new(PAGES)),
            closed: watch::Sender::new(false),
            long: LongReads::new(LONG_READS, LONG_KEPT, make, LongReader::after),
        }
    }

    /// How many reads that may take long are under way.
    pub(crate) fn long_reads_under_way(&self) -> usize {
        self.long.under_way()
    }

    /// Runs a read that may look at every task, on a thread and a connection of its own, if need be twice: `read` must not
    /// do anything but read.
    pub(crate) async fn read_long<I: Send + Sync + 'static, T: Send + 'static>(
        &self,
        doing: &'static str,
        input: I,
        read: for<'a> fn(&'a Snapshot<'a>, &'a I) -> BoxFuture<'a, Result<T, ReadError>>,
    ) -> Result<T, StoreError> {
        self.long.run(move |reader, active| reader.read(active, &LongWork { doing, input, read })).await?
    }

    /// Takes no more reads, cuts off those under way and closes the connections.
    pub(crate) fn close(&self) {
        self.any.close();
        self.pages.close();
        self.long.stop();
        self.closed.send_replace(true);
        drop(self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Runs a read on a connection, if need be twice: `read` must not do anything but read.
    pub(crate) async fn read<I: Sync + ?Sized, T: Send>(
        &self,
        lane: Lane,
        doing: &'static str,
        input: &I,
        read: for<'a> fn(&'a Session, &'a I) -> BoxFuture<'a, Result<T, ReadError>>,
    ) -> Result<T, StoreError> {
        let permit = Arc::new(self.permit(lane).await?);
        let mut closed = self.closed.subscribe();
        let patience = if lane == Lane::Short { PATIENCE } else { PAGE_PATIENCE };
        let work = pin!(timeout(patience, self.attempts(lane, doing, &permit, input, read)));
        match select(work, pin!(closed.wait_for(|closed| *closed))).await {
            Either::Left((Ok(answer), _)) => answer,
            Either::Left((Err(_), _)) => {
                tracing::warn!(doing, "the database took too long for a read");
                Err(StoreError::Busy)
            }
            Either::Right(_) => Err(StoreError::Unavailable),
        }
    }

    async fn permit(&self, lane: Lane) -> Result<ReadPermit, StoreError> {
        let permit = async {
            let page = match lane {
                Lane::Short => None,
                Lane::Page => Some(Arc::clone(&self.pages).acquire_owned().await?),
            };
            Ok(ReadPermit { _any: Arc::clone(&self.any).acquire_owned().await?, _page: page })
        };
        match timeout(PATIENCE, permit).await {
            Ok(permit) => permit.map_err(|_: tokio::sync::AcquireError| StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }

    async fn attempts<I: Sync + ?Sized, T: Send>(
        &self,
        lane: Lane,
        doing: &'static str,
        permit: &Arc<ReadPermit>,
        input: &I,
        read: for<'a> fn(&'a Session, &'a I) -> BoxFuture<'a, Result<T, ReadError>>,
    ) -> Result<T, StoreError> {
        let session = match self.pool.idle() {
            Some(session) => session,
            None => self.pool.source.connect().await?,
        };
        let answer = match self.pooled(session, permit).run(lane, input, read).await {
            Err(error) if error.is_worth_another_try(doing) => {
                let session = self.pool.source.connect().await?;
                self.pooled(session, permit).run(lane, input, read).await
            }
            answer => answer,
        };
        answer.map_err(|error| error.into_store_error(doing))
    }

    fn pooled(&self, session: Session, permit: &Arc<ReadPermit>) -> PooledSession {
        PooledSession { session: Some(session), permit: Arc::clone(permit), pool: Arc::clone(&self.pool) }
    }
}

impl Pool {
    /// A connection that does nothing, if there is one. The one that was used last is the least likely to be dead.
    fn idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.as_mut()?;
        idle.retain(|session| !session.client().is_closed());
        idle.pop()
    }

    fn put_back(&self, session: Session) {
        if let Some(idle) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            idle.push(session);
        }
    }
}

/// A connection in use. Dropped in the middle of a read, it stops the read on the server and is never used again.
struct PooledSession {
    session: Option<Session>,
    permit: Arc<ReadPermit>,
    pool: Arc<Pool>,
}

impl PooledSession {
    async fn run<I: Sync + ?Sized, T>(
        self,
        lane: Lane,
        input: &I,
        read: for<'a> fn(&'a Session, &'a I) -> BoxFuture<'a, Result<T, ReadError>>,
    ) -> Result<T, ReadError> {
        let Some(session) = &self.session else { return Err(StoreError::Unavailable.into()) };
        let answer = read(session, input).await;
        match &answer {
            Ok(_) | Err(ReadError::Refused(_)) => self.return_to_pool(lane),
            Err(ReadError::Failed(_)) => self.discard(),
            // Rows may still be coming.
            Err(ReadError::Damaged(_) | ReadError::Stopped(_)) => drop(self),
        }
        answer
    }

    /// The read ended in order. The snapshot of a page is ended while its caller has the answer already.
    fn return_to_pool(mut self, lane: Lane) {
        let Some(session) = self.session.take() else { return };
        let (pool, permit) = (Arc::clone(&self.pool), Arc::clone(&self.permit));
        match lane {
            Lane::Short => pool.put_back(session),
            Lane::Page => drop(tokio::spawn(async move {
                if session.execute_text(END).await.is_ok() {
                    pool.put_back(session);
                }
                drop(permit);
            })),
        }
    }

    /// The read ended in disorder: nothing is running, but who knows what the connection is good for.
    fn discard(mut self) {
        drop(self.session.take());
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        let (Some(session), Ok(runtime)) = (self.session.take(), Handle::try_current()) else { return };
        let cancel = || self.pool.source.cancel(session.client().cancel_token());
        // A request to stop that overtakes the statement stops nothing, so another one follows when it must have begun.
        let (first, second) = (cancel(), cancel());
        let permit = Arc::clone(&self.permit);
        runtime.spawn(async move {
            first.await;
            tokio::time::sleep(CANCEL_AGAIN).await;
            second.await;
            drop((session, permit));
        });
    }
}
