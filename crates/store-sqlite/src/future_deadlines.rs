//! Corrects deadlines that are far in the future, because the stored times came from a wrong clock (docs/decisions/0005):
//! leases and other deadlines end as if they had begun now. Timestamps of tasks do not change, nor does `not_before`, which may be
//! what a client said.

use rusqlite::{Connection, params};
use taskqueue_core::lease;
use taskqueue_core::task::TaskHead;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::TaskKey;

use crate::each_row::{CONTINUE, each_row};
use crate::rows::{self, PackedHead};
use crate::statements as sql;

/// `running` are all running tasks.
pub(crate) fn shorten(
    connection: &mut Connection,
    running: Vec<(TaskKey, TaskHead)>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    shorten_leases(&tx, running, now)?;
    let kept_until = lease::run_ids_kept_until(now).as_micros();
    tx.execute(sql::BOUND_DELETED_RUNS, params![kept_until])?;
    tx.execute(sql::BOUND_PURGES, params![kept_until])?;
    // Live workers report again within seconds.
    tx.execute(sql::DELETE_LATE_OBSERVATIONS, params![now.as_micros()])?;
    tx.execute(sql::SAVE_SCAN, params![now.as_micros()])?;
    // What is known of the latest time may be of tasks that were deleted. This reads all tasks; it is not for every start.
    let mut latest_at = Timestamp::default();
    each_row(&tx, &sql::LIST_HEADS, [], |row| {
        latest_at = latest_at.max(rows::claim_index(row)?.updated_at);
        Ok(CONTINUE)
    })?;
    tx.execute(sql::RESET_MARKS, params![latest_at.as_micros(), now.as_micros()])?;
    tx.commit()
}

fn shorten_leases(connection: &Connection, running: Vec<(TaskKey, TaskHead)>, now: Timestamp) -> rusqlite::Result<()> {
    let mut save = connection.prepare_cached(sql::SAVE_HEAD)?;
    for (key, mut head) in running {
        if let Some(run) = head.lifecycle.run.and_then(|run| lease::brought_back(run, now)) {
            head.lifecycle.run = Some(run);
            save.execute(params![key.0, head.lifecycle.status.as_str(), PackedHead::of(&head).pack()])?;
        }
    }
    Ok(())
}
