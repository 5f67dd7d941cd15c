//! Rows of counts: activity, workers by route, and the tasks that have been pending longest.

use taskqueue_core::activity::Activity;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::stats::pending_since;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::ProcessId;
use taskqueue_store::transaction::QueueKey;
use tokio_postgres::Row;

use super::{Damaged, Read, count, found_queue, get, head, parsed, time};

/// What a process has saved of a span.
pub(crate) struct SavedSpan {
    pub(crate) start: Timestamp,
    pub(crate) process: ProcessId,
    pub(crate) activity: Activity,
}

pub(crate) fn saved_span(row: &Row) -> Read<SavedSpan> {
    let activity = Activity::from_bytes(get(row, "counted")?).map_err(|_| Damaged::at("counted"))?;
    Ok(SavedSpan { start: time(row, "start_at")?, process: ProcessId(get(row, "process")?), activity })
}

/// Since when activity is counted.
pub(crate) fn known_since(row: &Row) -> Read<Timestamp> {
    time(row, "since")
}

/// How many current workers of a route there are.
pub(crate) struct WorkersRow<'a> {
    pub(crate) queue: QueueKey,
    pub(crate) route: &'a str,
    pub(crate) status: WorkerStatus,
    pub(crate) workers: u64,
}

pub(crate) fn workers(row: &Row) -> Read<WorkersRow<'_>> {
    Ok(WorkersRow {
        queue: found_queue(row)?,
        route: get(row, "route")?,
        status: parsed(row, "status", WorkerStatus::parse)?,
        workers: count(row, "workers")?,
    })
}

/// Since when a task of a route is pending.
pub(crate) struct OldestRow {
    /// The place of the route among those that were asked for.
    pub(crate) place: usize,
    pub(crate) since: Timestamp,
}

pub(crate) fn oldest_pending(row: &Row) -> Read<OldestRow> {
    let number: i64 = get(row, "route_number")?;
    let place = usize::try_from(number - 1).map_err(|_| Damaged::at("route_number"))?;
    Ok(OldestRow { place, since: pending_since(&head(row)?.lifecycle) })
}
