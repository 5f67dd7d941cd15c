//! What the storage says about itself, for metrics.

use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::QueueFigures;
use taskqueue_core::time::Timestamp;

use crate::transaction::QueueKey;

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
