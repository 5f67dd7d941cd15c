//! Reads. Those of bounded cost use a small pool of connections on the async threads: a read that lost its connection is
//! repeated on a new one, and a read whose caller has gone is cancelled on the database. Reads that may scan every task have
//! their own threads and connections (`long_reader.rs`).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt, join, select};
use parking_lot::Mutex;
use taskqueue_store::long_reads::{LongReads, StopReason};
use taskqueue_store::{StoreError, StoreResult};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_postgres::{CancelToken, Error};

use crate::Concurrency;
use crate::failure::{Cause, cause, describe, failed};
use crate::long_reader::{LongReader, Snapshot};
use crate::open::Connector;
use crate::rows::Damaged;
use crate::session::Session;

/// How many connections of the pool never read pages.
const WITHOUT_PAGES: usize = 2;
/// How many of their threads and connections stay when idle.
const IDLE_LONG_READERS: usize = 2;
/// How long a read may wait for a connection of the pool (docs/reference/http-api.md §12), and how long a short one may
/// take.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a page may take: a slow network needs time for 16 MiB. With the wait for a connection it is 30 seconds.
const PAGE_TIMEOUT: Duration = Duration::from_secs(25);
/// Time between two requests to cancel a read: one that arrives before the statement has no effect.
const CANCEL_INTERVAL: Duration = Duration::from_millis(200);

/// Begins a snapshot. Its settings end with it, because a pooler may give the connection to other clients. Every filter
/// runs once, so compiling it does not pay.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = '25s'; SET LOCAL lock_timeout = '4s'; SET LOCAL jit = off";
pub(crate) const END: &str = "COMMIT";

/// The cost of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A statement or two for a few rows by key, without a transaction that is left to be ended.
    Short,
    /// The same to see whether the database works: it waits for no other kind of read.
    Check,
    /// A page that an index leads to, without a filter. It runs in a snapshot, which it begins with [`in_snapshot`].
    Page,
}

pub(crate) trait ConnectionSource: Send + Sync + 'static {
    /// A new connection without prepared statements: a single statement outside a transaction cannot check whether a pooler
    /// has assigned another server process. Has a timeout, and logs failures.
    fn connect(&self) -> BoxFuture<'_, StoreResult<Session>>;

    /// Asks the database to cancel the statement of a connection.
    fn cancel(&self, token: CancelToken) -> BoxFuture<'static, ()>;
}

impl ConnectionSource for Connector {
    fn connect(&self) -> BoxFuture<'_, StoreResult<Session>> {
        async { self.session().await.map_err(|error| error.to_store_error("connecting to read")) }.boxed()
    }

    fn cancel(&self, token: CancelToken) -> BoxFuture<'static, ()> {
        self.cancel_statement(token).boxed()
    }
}

/// Cancels the statement of a connection. A request that arrives before the statement has no effect, so a second one follows.
pub(crate) fn cancel_twice(source: &dyn ConnectionSource, session: &Session) -> BoxFuture<'static, ()> {
    let cancel = || source.cancel(session.client().cancel_token());
    let (first, second) = (cancel(), cancel());
    async move {
        first.await;
        tokio::time::sleep(CANCEL_INTERVAL).await;
        second.await;
    }
    .boxed()
}

pub(crate) type Read<T> = Result<T, ReadError>;

/// The reason why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// No statement is running.
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error(transparent)]
    Failed(#[from] Error),
    /// It was stopped, or found values that this service does not write. Rows may still be arriving.
    #[error(transparent)]
    BrokenOff(StoreError),
}

impl From<StopReason> for ReadError {
    fn from(stopped: StopReason) -> Self {
        Self::BrokenOff(stopped.into())
    }
}

impl From<Damaged> for ReadError {
    fn from(damaged: Damaged) -> Self {
        Self::BrokenOff(damaged.into())
    }
}

impl ReadError {
    /// What the caller may know. The rest is logged.
    pub(crate) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) | Self::BrokenOff(error) => error,
            Self::Failed(error) => failed(doing, &error),
        }
    }

    /// Whether the read may succeed on a new connection. An idle connection may have been lost unnoticed.
    pub(crate) fn is_retryable(&self, doing: &'static str) -> bool {
        let Self::Failed(error) = self else { return false };
        // `session.rs` logs lost statements.
        if cause(error) == Cause::Lost {
            tracing::warn!(doing, error = describe(error), "a connection was lost; reading again on a new one");
        }
        matches!(cause(error), Cause::Lost | Cause::StatementLost)
    }
}

/// Begins the snapshot of a page and runs its first statement, in one round trip. [`Readers`] ends it.
pub(crate) async fn in_snapshot<T>(
    session: &Session,
    first: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let (begun, first) = join(session.execute_text(BEGIN), first).await;
    begun.and(first)
}

/// The pool of connections, and the threads of the long reads.
pub(crate) struct Readers {
    pool: Arc<Pool>,
    /// As many as there may be.
    most: usize,
    connections: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    /// One connection more.
    checks: Arc<Semaphore>,
    closed: watch::Sender<bool>,
    long: LongReads<LongReader>,
}

struct Pool {
    source: Arc<dyn ConnectionSource>,
    /// `None` once closed.
    idle: Mutex<Option<Vec<Arc<Session>>>>,
}

/// The right to use a connection.
struct ReadPermit {
    _connection: OwnedSemaphorePermit,
    _page: Option<OwnedSemaphorePermit>,
}

impl Readers {
    pub(crate) fn new(source: Arc<dyn ConnectionSource>, Concurrency { reads, long_reads, .. }: Concurrency) -> Self {
        let own = Arc::clone(&source);
        let make = move || LongReader::new(Arc::clone(&own));
        Self {
            pool: Arc::new(Pool { source, idle: Mutex::new(Some(Vec::new())) }),
            most: reads,
            connections: Arc::new(Semaphore::new(reads)),
            pages: Arc::new(Semaphore::new(reads.saturating_sub(WITHOUT_PAGES).max(1))),
            checks: Arc::new(Semaphore::new(1)),
            closed: watch::Sender::new(false),
            long: LongReads::new(long_reads, IDLE_LONG_READERS, make, LongReader::close_snapshot),
        }
    }

    /// Connections of the pool that are in use, and how many there may be.
    pub(crate) fn in_use_and_all(&self) -> (usize, usize) {
        (self.most - self.connections.available_permits(), self.most)
    }

    pub(crate) fn long_reads_under_way(&self) -> usize {
        self.long.count()
    }

    /// Runs a read that may scan every task, on its own thread and connection. It may run twice, so it must not write.
    pub(crate) async fn read_long<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl AsyncFn(&Snapshot<'_>) -> Read<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.long.run(move |reader, active| reader.run(active, doing, &read)).await?
    }

    /// Refuses new reads, interrupts running ones and closes the connections.
    pub(crate) fn close(&self) {
        self.connections.close();
        self.pages.close();
        self.checks.close();
        self.long.stop();
        self.closed.send_replace(true);
        drop(self.pool.idle.lock().take());
    }

    /// Runs a read on a connection of the pool. It may run twice, so it must not write.
    pub(crate) async fn read<T: Send, F: Future<Output = Read<T>> + Send>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl Fn(Arc<Session>) -> F + Send + Sync,
    ) -> StoreResult<T> {
        let permit = Arc::new(self.acquire(lane).await?);
        let mut closed = self.closed.subscribe();
        let limit = if lane == Lane::Page { PAGE_TIMEOUT } else { READ_TIMEOUT };
        let attempts = async {
            let session = match self.pool.take_idle() {
                Some(session) => session,
                None => Arc::new(self.pool.source.connect().await?),
            };
            let answer = match self.pooled(session, &permit).run(lane, &read).await {
                Err(error) if error.is_retryable(doing) => {
                    let session = Arc::new(self.pool.source.connect().await?);
                    self.pooled(session, &permit).run(lane, &read).await
                }
                answer => answer,
            };
            answer.map_err(|error| error.into_store_error(doing))
        };
        let work = pin!(timeout(limit, attempts));
        match select(work, pin!(closed.wait_for(|closed| *closed))).await {
            Either::Left((Ok(answer), _)) => answer,
            Either::Left((Err(_), _)) => {
                tracing::warn!(doing, "the database took too long for a read");
                Err(StoreError::Busy)
            }
            Either::Right(_) => Err(StoreError::Unavailable),
        }
    }

    async fn acquire(&self, lane: Lane) -> StoreResult<ReadPermit> {
        let permit = async {
            let (page, connections) = match lane {
                Lane::Short => (None, &self.connections),
                Lane::Check => (None, &self.checks),
                Lane::Page => (Some(Arc::clone(&self.pages).acquire_owned().await?), &self.connections),
            };
            Ok(ReadPermit { _connection: Arc::clone(connections).acquire_owned().await?, _page: page })
        };
        match timeout(READ_TIMEOUT, permit).await {
            Ok(permit) => permit.map_err(|_: tokio::sync::AcquireError| StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }

    fn pooled(&self, session: Arc<Session>, permit: &Arc<ReadPermit>) -> PooledSession {
        PooledSession { session: Some(session), permit: Arc::clone(permit), pool: Arc::clone(&self.pool) }
    }
}

impl Pool {
    /// The idle connection that was used last: it is the least likely to be lost.
    fn take_idle(&self) -> Option<Arc<Session>> {
        let mut idle = self.idle.lock();
        let idle = idle.as_mut()?;
        idle.retain(|session| !session.client().is_closed());
        idle.pop()
    }

    fn put_back(&self, session: Arc<Session>) {
        if let Some(idle) = self.idle.lock().as_mut() {
            idle.push(session);
        }
    }
}

/// A connection in use. If it is dropped during a read, the read is cancelled on the database and the connection closed.
struct PooledSession {
    session: Option<Arc<Session>>,
    permit: Arc<ReadPermit>,
    pool: Arc<Pool>,
}

impl PooledSession {
    async fn run<T, F: Future<Output = Read<T>>>(mut self, lane: Lane, read: &impl Fn(Arc<Session>) -> F) -> Read<T> {
        let Some(session) = &self.session else { return Err(StoreError::Unavailable.into()) };
        let answer = read(Arc::clone(session)).await;
        match &answer {
            Ok(_) | Err(ReadError::Refused(_)) => self.return_to_pool(lane),
            // No statement is running, but the state of the connection is unknown.
            Err(ReadError::Failed(_)) => drop(self.session.take()),
            Err(ReadError::BrokenOff(_)) => drop(self),
        }
        answer
    }

    /// The snapshot of a page is closed after its caller has got the answer.
    fn return_to_pool(mut self, lane: Lane) {
        let Some(session) = self.session.take() else { return };
        let (pool, permit) = (Arc::clone(&self.pool), Arc::clone(&self.permit));
        match lane {
            Lane::Short | Lane::Check => pool.put_back(session),
            Lane::Page => drop(tokio::spawn(async move {
                if session.execute_text(END).await.is_ok() {
                    pool.put_back(session);
                }
                drop(permit);
            })),
        }
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        let (Some(session), Ok(runtime)) = (self.session.take(), Handle::try_current()) else { return };
        let (cancelled, permit) = (cancel_twice(&*self.pool.source, &session), Arc::clone(&self.permit));
        runtime.spawn(async move {
            cancelled.await;
            drop((session, permit));
        });
    }
}
