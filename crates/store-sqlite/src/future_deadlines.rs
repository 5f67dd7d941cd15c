//! Corrects deadlines that are far in the future, because the stored times came from a wrong clock (docs/decisions/0005):
//! leases and other deadlines end as if they had begun now. Timestamps of tasks do not change.

use rusqlite::{Connection, params};
use taskqueue_core::lease;
use taskqueue_core::time::Timestamp;

use crate::each_row::{CONTINUE, each_row};
use crate::rows::{self, PackedHead};
use crate::statements as sql;

pub(crate) fn shorten(connection: &mut Connection, now: Timestamp) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    shorten_leases(&tx, lease::from(now))?;
    let kept_until = lease::run_ids_kept_until(now).as_micros();
    tx.execute(sql::BOUND_DELETED_RUNS, params![kept_until])?;
    tx.execute(sql::BOUND_PURGES, params![kept_until])?;
    // Live workers report again within seconds.
    tx.execute(sql::DELETE_LATE_OBSERVATIONS, params![now.as_micros()])?;
    tx.execute(sql::SAVE_SCAN, params![now.as_micros()])?;
    tx.commit()
}

fn shorten_leases(connection: &Connection, lease_expires_at: Timestamp) -> rusqlite::Result<()> {
    let mut shortened = Vec::new();
    each_row(connection, &sql::LIST_RUNNING, [], |row| {
        let mut head = rows::head(row)?;
        if let Some(run) = head.lifecycle.run.as_mut().filter(|run| run.lease_expires_at > lease_expires_at) {
            run.lease_expires_at = lease_expires_at;
            shortened.push((rows::key(row)?, head));
        }
        Ok(CONTINUE)
    })?;
    let mut save = connection.prepare_cached(sql::SAVE_HEAD)?;
    for (key, head) in shortened {
        save.execute(params![key.0, head.lifecycle.status.as_str(), PackedHead::of(&head).pack()])?;
    }
    Ok(())
}
