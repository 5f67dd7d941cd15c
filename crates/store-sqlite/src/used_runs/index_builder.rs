//! The thread that reads segments to build what is kept of them in memory: all of them after a start, and each one that was
//! merged. It has a connection of its own, so the writer goes on meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::used_runs::segment::{IndexSlot, SegmentIndex, SegmentRow};

/// A segment whose index is wanted.
pub(crate) struct IndexRequest {
    pub(crate) row: SegmentRow,
    pub(crate) filter_bytes: usize,
    pub(crate) slot: IndexSlot,
}

/// Where requests go; nothing ends the thread.
pub(crate) type IndexRequests = Sender<Option<IndexRequest>>;

/// The running thread. Ends with it.
pub(crate) struct IndexBuilder {
    requests: IndexRequests,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IndexBuilder {
    pub(crate) fn start(connection: Connection) -> std::io::Result<Self> {
        let (requests, received) = channel();
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("run-filters".into())
            .spawn(move || run(&connection, &received, &is_ending))?;
        Ok(Self { requests, ending, thread: Some(thread) })
    }

    pub(crate) fn requests(&self) -> IndexRequests {
        self.requests.clone()
    }
}

impl Drop for IndexBuilder {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = self.requests.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, requests: &Receiver<Option<IndexRequest>>, ending: &AtomicBool) {
    while let Ok(Some(IndexRequest { row, filter_bytes, slot })) = requests.recv() {
        // A segment that nobody holds any more was merged.
        let wanted = || !ending.load(Ordering::Relaxed) && Arc::strong_count(&slot) > 1;
        let built = SegmentIndex::build(connection, row, filter_bytes, &wanted);
        let built = built.unwrap_or_else(|error| {
            tracing::warn!(%error, "used run ids could not be read to speed up claims; claims ask the disk instead");
            None
        });
        let _ = slot.set(built);
    }
}
