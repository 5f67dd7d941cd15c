//! The thread that reads segments to build what is kept of them in memory: all of them after a start, and each one that was
//! merged. It has a connection of its own, so the writer goes on meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use crate::failure::is_unreadable;
use crate::used_runs::segment::{IndexSlot, SegmentIndex, SegmentRow};

/// Pause after which indexes that could not be built are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// A segment whose index is wanted.
pub(crate) struct IndexRequest {
    pub(crate) row: SegmentRow,
    pub(crate) filter_bytes: usize,
    pub(crate) slot: IndexSlot,
}

/// The way for requests; `None` ends the thread.
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
    let mut failed: Vec<IndexRequest> = Vec::new();
    loop {
        let received = match failed.is_empty() {
            true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => requests.recv_timeout(RETRY_PAUSE),
        };
        match received {
            Ok(Some(request)) => failed.extend(build(connection, request, ending)),
            Err(RecvTimeoutError::Timeout) => {
                failed = failed.into_iter().filter_map(|request| build(connection, request, ending)).collect();
            }
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Builds an index. Gives the request back if the database could not be read now.
fn build(connection: &Connection, request: IndexRequest, ending: &AtomicBool) -> Option<IndexRequest> {
    let IndexRequest { row, filter_bytes, slot } = &request;
    // A segment that nobody holds any more was merged.
    let wanted = || !ending.load(Ordering::Relaxed) && Arc::strong_count(slot) > 1;
    if !wanted() {
        return None;
    }
    let built = SegmentIndex::build(connection, *row, *filter_bytes, &wanted);
    if let Err(error) = &built {
        tracing::warn!(%error, "used run ids could not be read to speed up claims; claims ask the disk meanwhile");
        // With a damaged page it stays so. A claim that asks for that page lets all of them be made anew.
        if !is_unreadable(error) {
            return Some(request);
        }
    }
    let _ = slot.set(built.unwrap_or_default());
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;
    use crate::used_runs::segment::SegmentState;

    #[test]
    fn an_index_that_could_not_be_built_is_built_later() {
        let mut connection = Connection::open_in_memory().unwrap();
        let (slot, ending) = (IndexSlot::default(), AtomicBool::new(false));
        let row = SegmentRow { number: 1, oldest: 1, newest: 1, state: SegmentState::Live, pages: 1, entries: 1 };
        let request = IndexRequest { row, filter_bytes: 1 << 20, slot: slot.clone() };
        // The table is not there yet.
        let again = build(&connection, request, &ending).unwrap();
        assert!(slot.get().is_none());
        migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
        let page = "INSERT INTO run_pages (page, entries) VALUES (1 << 32, x'00010203040506070801')";
        connection.execute(page, []).unwrap();
        assert!(build(&connection, again, &ending).is_none());
        assert!(slot.get().is_some_and(Option::is_some));
    }
}
