//! What the storage says about itself, for metrics.

use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::QueueFigures;
use taskqueue_core::time::Timestamp;

use crate::transaction::QueueKey;
use crate::writer_figures::WriterCounts;

/// The figures of a store at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFigures {
    pub now: Timestamp,
    /// By key: in the order of their creation.
    pub queues: Vec<NamedFigures>,
    /// What the storage takes, as far as it is known.
    pub database_bytes: Option<u64>,
}

/// The figures of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFigures {
    pub key: QueueKey,
    pub queue: QueueName,
    pub figures: QueueFigures,
}

/// What the part of the storage that is in this process does at one moment. Known without asking the database.
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
