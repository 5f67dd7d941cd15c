//! Corrects deadlines that are far in the future, because the stored times came from a wrong clock (docs/decisions/0005):
//! leases and other deadlines end as if they had begun now. Timestamps of tasks do not change.

use rusqlite::{Connection, params};
use taskqueue_core::lease;
use taskqueue_core::time::Timestamp;

use crate::statements as sql;

pub(crate) fn shorten(connection: &mut Connection, now: Timestamp) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    let (lease, kept_until) = (lease::from(now).as_micros(), lease::run_ids_kept_until(now).as_micros());
    tx.execute(sql::BOUND_LEASES, params![lease])?;
    tx.execute(sql::BOUND_DELETED_RUNS, params![kept_until])?;
    tx.execute(sql::BOUND_PURGES, params![kept_until])?;
    // Live workers report again within seconds.
    tx.execute(sql::DELETE_LATE_OBSERVATIONS, params![now.as_micros()])?;
    tx.execute(sql::SAVE_SCAN, params![now.as_micros()])?;
    tx.commit()
}
