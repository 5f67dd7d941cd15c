//! When the times in the file lie far ahead of a clock that is believed (docs/decisions/0005): whatever would then last
//! for years, leases above all, lasts as long as if it had begun now. Timestamps of tasks stay as they are.

use rusqlite::{Connection, params};
use taskqueue_core::lease;
use taskqueue_core::time::Timestamp;

use crate::statements as sql;

/// Bounds everything that ends at a time of its own.
pub(crate) fn shorten(connection: &mut Connection, now: Timestamp) -> rusqlite::Result<()> {
    let tx = connection.transaction()?;
    let (lease, kept_until) = (lease::from(now).as_micros(), lease::run_ids_kept_until(now).as_micros());
    tx.execute(sql::BOUND_LEASES, params![lease])?;
    tx.execute(sql::BOUND_DELETED_RUNS, params![kept_until])?;
    tx.execute(sql::BOUND_PURGES, params![kept_until])?;
    // Workers that live tell of themselves again within seconds.
    tx.execute(sql::DELETE_LATE_OBSERVATIONS, params![now.as_micros()])?;
    tx.execute(sql::SAVE_SCAN, params![now.as_micros()])?;
    tx.commit()
}
