//! Background removal of the tasks of deleted queues, of the output of deleted tasks, in small transactions, and of tally rows
//! that add up to zero. Any number of servers may do it at the same time; each skips what another has locked.
//!
//! Also the dead index entries that claims leave behind are vacuumed. Claims remove rows at the front of `ready`, and every claim
//! skips the dead entries before the first live one: 6.5 us per thousand. Autovacuum runs once a minute, when a busy server
//! has left hundreds of thousands, so a server that has left many vacuums itself (docs/decisions/0009).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Error, Row};

use crate::changes::archived_shard;
use crate::derived_tables::DERIVED_TABLES;
use crate::failure::describe;
use crate::open::Connector;
use crate::prefetch::begin_to_write;
use crate::session::Session;
use crate::statements as sql;

/// Removes up to `limit` tasks of a deleted queue and as many pieces of output, and with `merge` merges the tally into that
/// shard. Returns whether there may be more to purge.
pub(crate) async fn purge(session: &Session, limit: i64, merge: Option<i16>) -> Result<bool, Error> {
    if let Some(shard) = merge {
        begin_to_write(session).await?;
        merge_tally(session, shard).await?;
        // It holds queues.
        session.execute_text("COMMIT").await?;
    }
    begin_to_write(session).await?;
    let queue = session.first(&sql::LOCK_PURGE, &[]).await?;
    let queue = queue.map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
    if let Some((queue, runs_kept_until)) = queue {
        // First of all: who moves a delayed task holds it, and then waits for its row.
        let mut rows = session.execute(&sql::PURGE_TASKS, &[&queue, &limit, &runs_kept_until]).await?;
        for purge in DERIVED_TABLES.iter().filter_map(|table| table.purge) {
            rows += session.execute(purge, &[&queue, &limit]).await?;
        }
        if rows == 0 {
            session.execute(&sql::DELETE_PURGE, &[&queue]).await?;
        }
    }
    let has_output = purge_output(session, limit).await?;
    session.execute_text("COMMIT").await?;
    Ok(queue.is_some() || has_output)
}

/// Removes up to `limit` pieces of the output of deleted tasks. Returns whether there may be more.
async fn purge_output(session: &Session, limit: i64) -> Result<bool, Error> {
    let tasks = session.query(&sql::LOCK_OUTPUT_PURGES, &[&limit]).await?;
    let tasks: Vec<i64> = tasks.iter().map(|row| row.get(0)).collect();
    if tasks.is_empty() {
        return Ok(false);
    }
    let pieces = session.execute(&sql::PURGE_OUTPUT, &[&tasks, &limit]).await?;
    if i64::try_from(pieces).is_ok_and(|pieces| pieces < limit) {
        session.execute(&sql::DELETE_OUTPUT_PURGES, &[&tasks]).await?;
    }
    Ok(true)
}

/// Removes tally rows whose shards add up to zero. What other writers have added since is added again.
async fn merge_tally(session: &Session, shard: i16) -> Result<(), Error> {
    let rows = session.query(&sql::MERGE_TALLY, &[]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let text = |column: usize| rows.iter().map(|row| row.get(column)).collect::<Vec<String>>();
    let int = |column: usize| rows.iter().map(|row| row.get(column)).collect::<Vec<i64>>();
    let shard = |row: &Row| if row.get::<_, bool>(4) { archived_shard(shard) } else { shard };
    let shards: Vec<i16> = rows.iter().map(shard).collect();
    session.execute(&sql::ADD_TALLY, &[&int(0), &text(1), &text(2), &int(3), &shards]).await?;
    Ok(())
}

/// Dead entries that are worth a vacuum: fewer cost a claim less than a tenth of a millisecond.
const VACUUM_THRESHOLD: u64 = 10_000;
/// The pause after a vacuum, as a multiple of its duration: with a million pending tasks it reads all of a large index.
const PAUSE_FACTOR: u32 = 20;
const VACUUM_TIMEOUT: Duration = Duration::from_secs(60);
/// The shortest pause after a vacuum that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// Whether the role may vacuum. Without the right, each VACUUM writes warnings to PostgreSQL's log.
const OWNS: &str = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'taskqueue.ready'::regclass";
/// Always cleans the index, takes no lock that blocks claims, and skips the tables while another server vacuums them.
const VACUUM: &str = "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) taskqueue.ready, taskqueue.running, \
    taskqueue.delayed";

/// Approximate number of entries of `ready` and `delayed` that this server has left dead since its last vacuum: a batch that is tried
/// again counts twice.
#[derive(Default)]
pub(crate) struct DeadEntries {
    count: AtomicU64,
    threshold_reached: Notify,
}

impl DeadEntries {
    pub(crate) fn add(&self, entries: usize) {
        let more = u64::try_from(entries).unwrap_or(u64::MAX);
        if more > 0 && self.count.fetch_add(more, Ordering::Relaxed) + more >= VACUUM_THRESHOLD {
            self.threshold_reached.notify_one();
        }
    }

    /// Waits for the threshold and resets the count.
    async fn wait_for_threshold(&self) {
        while self.count.load(Ordering::Relaxed) < VACUUM_THRESHOLD {
            self.threshold_reached.notified().await;
        }
        self.count.store(0, Ordering::Relaxed);
    }
}

/// Vacuums whenever the threshold is reached, until the store is dropped.
pub(crate) async fn run_vacuum(dead: Arc<DeadEntries>, connector: Arc<Connector>) -> Infallible {
    let mut logged = false;
    loop {
        dead.wait_for_threshold().await;
        let begun = Instant::now();
        let vacuumed = vacuum(&connector).await;
        let mut pause = begun.elapsed() * PAUSE_FACTOR;
        if let Err(why) = vacuumed {
            pause = pause.max(PAUSE_AFTER_FAILURE);
            if !std::mem::replace(&mut logged, true) {
                tracing::info!(why, "the pending order could not be vacuumed; autovacuum will do it");
            }
        }
        sleep(pause).await;
    }
}

/// Uses a new connection: a quiet server never vacuums, so none is held for it.
async fn vacuum(connector: &Connector) -> Result<(), String> {
    let client = connector.client(None).await.map_err(|error| error.to_string())?;
    let vacuumed = async {
        let owns = client.query_typed(&connector.schema().apply(OWNS), &[]).await.map_err(|error| describe(&error))?;
        if !owns.first().is_some_and(|row| row.get(0)) {
            return Err("the role does not own the tables".to_owned());
        }
        client.batch_execute(&connector.schema().apply(VACUUM)).await.map_err(|error| describe(&error))
    };
    match timeout(VACUUM_TIMEOUT, vacuumed).await {
        Ok(done) => done,
        Err(_) => {
            connector.cancel_statement(client.cancel_token()).await;
            Err(format!("it took longer than {VACUUM_TIMEOUT:?}"))
        }
    }
}

#[cfg(test)]
#[path = "purge_tests.rs"]
mod tests;
