//! The writers of a server, each on a thread and with a connection of its own, and which commands they execute.

use std::sync::Arc;

use taskqueue_store::write_queue::{QueuedWrite, WriteQueue};
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::writers::{WriterFigures, WriterHealth, WriterThreads};
use tokio::sync::Mutex;

use crate::bulk::SnapshotId;
use crate::random_u64;
use crate::writer::{SharedState, Writer};

/// Parts of the tally. Writers of all servers share them by chance; two on one part wait for each other's commit.
const SHARDS: u64 = 32;

/// The writers and their queues.
pub(crate) struct Writers {
    pub(crate) ordinary: WriteQueue<SnapshotId>,
    /// For what takes much of a transaction, with a writer of its own: a full transaction takes some hundred milliseconds, also one of a
    /// lease scan, and no heartbeat waits for it.
    pub(crate) heavy: WriteQueue<SnapshotId>,
    /// For long commands, with a writer of its own: no other command waits for it.
    pub(crate) long: WriteQueue<SnapshotId>,
    /// For what nobody asks for, with a writer of its own: it may have much to do, and neither claims nor long commands wait for it.
    upkeep: WriteQueue<SnapshotId>,
    pub(crate) threads: WriterThreads,
    /// Of each ordinary writer.
    pub(crate) health: Vec<Arc<WriterHealth>>,
    /// Of all writers.
    pub(crate) figures: Arc<WriterFigures>,
}

impl Writers {
    /// With so many writers of ordinary commands.
    pub(crate) fn start(shared: &SharedState, count: u64) -> std::io::Result<Self> {
        let (first_shard, figures) = (random_u64() % SHARDS, Arc::clone(&shared.figures));
        let writer = |number: u64| {
            let shard = i16::try_from((first_shard + number) % SHARDS).unwrap_or_default();
            Writer::new(shared.clone(), shard)
        };
        let ordinary_writers = (0..count).map(writer).collect::<std::io::Result<Vec<_>>>()?;
        // One is enough for what is left of deleted queues.
        let heavy_writer = writer(count)?.purging();
        let (long_writer, upkeep_writer) = (writer(count + 1)?, writer(count + 2)?);
        let (ordinary, ordinary_writes) = WriteQueue::new();
        let (heavy, heavy_writes) = WriteQueue::new();
        let (long, long_writes) = WriteQueue::new();
        let (upkeep, upkeep_writes) = WriteQueue::new();
        let health = ordinary_writers.iter().map(Writer::health).collect();
        let writers = Self { ordinary, heavy, long, upkeep, threads: WriterThreads::default(), health, figures };
        let shared = Arc::new(Mutex::new(ordinary_writes));
        for writer in ordinary_writers {
            let queue = Arc::clone(&shared);
            writers.threads.spawn("writer", move || writer.run(&queue))?;
        }
        writers.threads.spawn("heavy-writer", move || heavy_writer.run(&Arc::new(Mutex::new(heavy_writes))))?;
        writers.threads.spawn("long-writer", move || long_writer.run(&Arc::new(Mutex::new(long_writes))))?;
        writers.threads.spawn("upkeep-writer", move || upkeep_writer.run(&Arc::new(Mutex::new(upkeep_writes))))?;
        Ok(writers)
    }

    /// The queue of a command.
    pub(crate) fn queue(&self, write: &QueuedWrite<SnapshotId>) -> &WriteQueue<SnapshotId> {
        match &write.request {
            WriteRequest::Upkeep(_) => &self.upkeep,
            request if request.is_long() => &self.long,
            // Before all others there: a late scan would count as an outage.
            WriteRequest::Scan(_) => &self.heavy,
            _ if write.is_light() => &self.ordinary,
            _ => &self.heavy,
        }
    }

    pub(crate) fn close_queues(&self) {
        [&self.ordinary, &self.heavy, &self.long, &self.upkeep].into_iter().for_each(WriteQueue::close);
    }
}
