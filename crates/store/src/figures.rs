//! What the storage says about itself and its queues, and how the figures of many queues are read within a bound.

use taskqueue_core::stats::PendingDetail;
use taskqueue_core::{QueueFigures, RouteSelection, Timestamp};

use crate::store::Store;
use crate::writers::WriterCounts;
use crate::{QueueKey, StoreResult};

/// Routes of a queue that a store holds at a time while it counts them, besides those that are asked for: three megabytes.
pub const ROUTES_AT_ONCE: usize = 12_288;
/// Routes that one read tells one by one at most, of all its queues: as many queues are asked for at once.
const TOLD_AT_ONCE: usize = 4_096;
/// Queues that are asked for at once at most.
const QUEUES_AT_ONCE: usize = 128;

/// The figures of some queues and of the store at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFigures {
    pub now: Timestamp,
    /// Those of the queues that exist, in the order in which they were asked for.
    pub queues: Vec<(QueueKey, QueueFigures)>,
    /// How many of the queues that were asked for were looked at: the first ones, at least one. A store may stop where it has
    /// looked at many routes.
    pub looked_at: usize,
    /// The bytes of the storage, as far as it is known.
    pub database_bytes: Option<u64>,
}

/// Passes the figures of queues to `take`, some queues at a time, in their order. However many queues and routes there are, one
/// read holds some `TOLD_AT_ONCE` and [`ROUTES_AT_ONCE`] routes.
pub async fn read_figures(
    store: &dyn Store,
    queues: &[QueueKey],
    routes: &RouteSelection,
    pending: PendingDetail,
    mut take: impl FnMut(StoreFigures) + Send,
) -> StoreResult<()> {
    let at_once = (TOLD_AT_ONCE / routes.most().max(1)).clamp(1, QUEUES_AT_ONCE);
    let mut left = queues;
    while !left.is_empty() {
        let figures = store.figures(&left[..left.len().min(at_once)], routes, pending).await?;
        left = &left[figures.looked_at.clamp(1, left.len())..];
        take(figures);
    }
    Ok(())
}

/// The figures of the part of the storage that is in this process. Known without asking the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    pub writer: WriterCounts,
    /// Commands that wait for a writer, and how many may.
    pub queued_writes: usize,
    pub queue_capacity: usize,
    /// Readers of bounded reads: threads or connections, and how many of them read.
    pub readers: usize,
    pub readers_in_use: usize,
    /// Reads under way that may visit every task.
    pub long_reads: usize,
}
