//! Background removal of the tasks of deleted queues, of the output of deleted tasks, in small transactions, and of tally rows
//! that add up to zero. Any number of servers may do it at the same time; each skips what another has locked.

use tokio_postgres::{Error, Row};

use crate::changes::archived_shard;
use crate::derived_tables::DERIVED_TABLES;
use crate::prefetch::begin_to_write;
use crate::session::Session;
use crate::statements as sql;

/// Removes up to `limit` tasks of a deleted queue and as many pieces of output, and with `merge` merges the tally into that
/// shard. Returns whether there may be more to purge.
pub(crate) async fn purge(session: &Session, limit: i64, merge: Option<i16>) -> Result<bool, Error> {
    begin_to_write(session).await?;
    if let Some(shard) = merge {
        merge_tally(session, shard).await?;
    }
    let queue = session.first(&sql::LOCK_PURGE, &[]).await?;
    let queue = queue.map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
    if let Some((queue, runs_kept_until)) = queue {
        let mut rows = 0;
        for purge in DERIVED_TABLES.iter().filter_map(|table| table.purge) {
            rows += session.execute(purge, &[&queue, &limit]).await?;
        }
        rows += session.execute(&sql::PURGE_TASKS, &[&queue, &limit, &runs_kept_until]).await?;
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
