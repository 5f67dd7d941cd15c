//! Begins transactions that have one command: a long one, which needs its queue alone; a scan; and upkeep, which does what is due
//! and nobody asks for.

use futures_util::future::{join, join3};
use taskqueue_core::{QueueName, Timestamp};
use taskqueue_store::transaction::RELEASED_AT_ONCE;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::{BatchKeys, Begun, NO_CLOCK, PrefetchedRows, begin_to_write};
use crate::clock::Clock;
use crate::readers::Read;
use crate::session::{Params, Session, Sql};
use crate::transaction_rows::Found;
use crate::{rows, statements as sql};

/// For commands that visit every task of a queue.
const LONG_TIMEOUT: &str = "SET LOCAL statement_timeout = '25s'";

/// For how long no other transaction may begin in a queue that a long command needs exclusively. Whoever waits for the lock announces
/// it again before it is over. What a killed server has announced ends by itself, so it must be short: nobody can use the queue until
/// then.
const HELD_MICROS: i64 = 1_000_000;
/// How long one of the tries waits for the lock, and how many there are: 4 seconds in all, as for every other lock.
const LOCK_TRY: &str = "SET LOCAL lock_timeout = '500ms'";
const LOCK_TRIES: usize = 8;
const LOCKED: &str = "SET LOCAL lock_timeout = '4s'";

/// Begins a transaction for a long command, and locks its queue; or for a scan, which has none.
pub(crate) async fn begin_alone(session: &Session, queue: Option<&QueueName>) -> Read<Begun> {
    let Some(queue) = queue else {
        begin_for_long(session).await?;
        // Only one scan at a time, over all servers.
        let clock = session.query(&sql::LOCK_CLOCK, &[]).await?;
        return Ok(PrefetchedRows::default().into_begun(&clock, &BatchKeys::default())?);
    };
    let name = queue.as_str();
    let queues = lock_alone(session, name).await?;
    let (set, freed) = join(session.execute_text(LOCKED), session.execute(&sql::FREE_QUEUE, &[&name])).await;
    set.and(freed)?;
    let clock = session.query(&sql::LOAD_CLOCK, &[]).await?;
    let mut begun = PrefetchedRows::only(&sql::LOCK_QUEUES, queues).into_begun(&clock, &BatchKeys::default())?;
    begun.rows.queues.entry(queue.clone()).or_insert(Found::Missing);
    begun.rows.dependencies.is_alone = true;
    Ok(Begun { wrote: true, ..begun })
}

/// Begins a transaction for a long command and locks its queue, which is announced as long as this waits.
async fn lock_alone(session: &Session, name: &str) -> Result<Vec<Row>, Error> {
    let mut tried = 0;
    loop {
        tried += 1;
        // In a separate transaction, so that others see it.
        write_alone(session, &sql::HOLD_QUEUE, &[&name, &HELD_MICROS]).await?;
        begin_for_long(session).await?;
        let names = vec![name];
        let locking = async { session.query(&sql::LOCK_QUEUE_ALONE, &[&names]).await };
        let (set, locked) = join(session.execute_text(LOCK_TRY), locking).await;
        match set.and(locked) {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && tried < LOCK_TRIES => {
                session.execute_text("ROLLBACK").await?;
            }
            done => return done,
        }
    }
}

async fn begin_for_long(session: &Session) -> Result<(), Error> {
    let (begun, set) = join(begin_to_write(session), session.execute_text(LONG_TIMEOUT)).await;
    begun.and(set)
}

/// Withdraws the announcement that a queue is needed alone.
pub(crate) async fn free(session: &Session, name: &str) -> Result<(), Error> {
    write_alone(session, &sql::FREE_QUEUE, &[&name]).await
}

/// Executes a statement in a transaction of its own.
async fn write_alone(session: &Session, sql: &'static Sql, params: Params<'_>) -> Result<(), Error> {
    let (begun, written) = join(begin_to_write(session), session.execute(sql, params)).await;
    begun.and(written)?;
    session.execute_text("COMMIT").await
}

/// Begins a transaction for upkeep. If nothing is due, nothing is written and nothing is held; otherwise the clock is held: one server
/// at a time does upkeep or scans the leases, and no other upkeep waits for it. `now` is a time instead of the database's, for tests.
pub(crate) async fn begin_upkeep(session: &Session, now: Option<Timestamp>) -> Read<Begun> {
    let micros = now.map(Timestamp::as_micros);
    let (begun, peeked) = join(begin_for_long(session), session.query(&sql::PEEK_UPKEEP, &[&micros])).await;
    begun?;
    let clock = peeked?;
    let row = clock.first().ok_or(NO_CLOCK)?;
    let (has_delayed, has_more): (bool, bool) = (rows::get(row, "has_delayed")?, rows::get(row, "has_more")?);
    let now = now.map_or_else(|| rows::clock(row).map(|read| Clock::new(read).now), Ok)?;
    if !has_delayed && !has_more {
        return begun_with(&clock, true, 0);
    }
    let mut held = session.query(&sql::LOCK_CLOCK_IF_FREE, &[]).await?;
    let mut moved = 0;
    if has_delayed && !held.is_empty() {
        moved = release_delayed(session, now).await?;
        begin_for_long(session).await?;
        held = if has_more { session.query(&sql::LOCK_CLOCK_IF_FREE, &[]).await? } else { Vec::new() };
    }
    let is_idle = held.is_empty();
    begun_with(if is_idle { &clock } else { &held }, is_idle, moved)
}

fn begun_with(clock: &[Row], is_idle: bool, moved: usize) -> Read<Begun> {
    let begun = PrefetchedRows::default().into_begun(clock, &BatchKeys::default())?;
    Ok(Begun { is_idle, moved, ..begun })
}

/// Moves delayed tasks whose time has come to the pending order, and commits. The rest of an upkeep takes longer, and claims would pass
/// over the tasks that it holds: they wait for this transaction instead. All of it is sent at once, so that it ends also if this server
/// does not go on.
async fn release_delayed(session: &Session, now: Timestamp) -> Result<usize, Error> {
    let (micros, limit) = (now.as_micros(), i64::try_from(RELEASED_AT_ONCE).unwrap_or(i64::MAX));
    let (begun, released, committed) = join3(
        session.query(&sql::BEGIN_RELEASE, &[]),
        session.first(&sql::RELEASE_DELAYED, &[&micros, &limit]),
        session.execute_text("COMMIT"),
    )
    .await;
    let released = begun.and(released)?;
    committed?;
    Ok(released.map_or(Ok(0), |row| row.try_get::<_, i64>("tasks"))?.try_into().unwrap_or(0))
}
