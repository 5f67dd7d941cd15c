//! Begins a transaction for upkeep: what is due and nobody asks for.

use futures_util::future::{join, join3};
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::transaction::RELEASED_AT_ONCE;
use tokio_postgres::{Error, Row};

use super::{BatchKeys, Begun, NO_CLOCK, PrefetchedRows, begin_for_long};
use crate::clock::Clock;
use crate::rows;
use crate::session::Session;
use crate::statements as sql;

/// Begins a transaction for upkeep. If nothing is due, nothing is written and nothing is held; otherwise the clock is held: one server
/// at a time does upkeep or scans the leases, and no other upkeep waits for it. `now` is a time instead of the database's, for tests.
pub(crate) async fn begin_upkeep(
    session: &Session,
    now: Option<Timestamp>,
) -> Result<Result<Begun, StoreError>, Error> {
    let micros = now.map(Timestamp::as_micros);
    let (begun, peeked) = join(begin_for_long(session), session.query(&sql::PEEK_UPKEEP, &[&micros])).await;
    begun?;
    let clock = peeked?;
    let Some(row) = clock.first() else { return Ok(Err(NO_CLOCK)) };
    let (has_delayed, has_more, read) =
        match rows::due_upkeep(row).and_then(|due| Ok((due.0, due.1, rows::clock(row)?))) {
            Ok(found) => found,
            Err(damaged) => return Ok(Err(damaged.into())),
        };
    if !has_delayed && !has_more {
        return Ok(begun_with(&clock, true, 0));
    }
    let mut held = session.query(&sql::LOCK_CLOCK_IF_FREE, &[]).await?;
    let mut moved = 0;
    if has_delayed && !held.is_empty() {
        moved = release_delayed(session, now.unwrap_or(Clock::new(read).now)).await?;
        begin_for_long(session).await?;
        held = if has_more { session.query(&sql::LOCK_CLOCK_IF_FREE, &[]).await? } else { Vec::new() };
    }
    let is_idle = held.is_empty();
    Ok(begun_with(if is_idle { &clock } else { &held }, is_idle, moved))
}

fn begun_with(clock: &[Row], is_idle: bool, moved: usize) -> Result<Begun, StoreError> {
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
