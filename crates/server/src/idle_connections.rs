//! Connections without a request under way, oldest first, so that one of them can be closed when a new connection would
//! exceed the cap (docs/decisions/0019). The one to close is found without a search.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The order in which connections are closed: first those that never sent an authenticated request, then the others;
/// among both, the one that has been idle for longest.
type Rank = (bool, u64);

#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<RankedConnections>);

#[derive(Debug, Default)]
struct RankedConnections {
    /// How often a connection became idle; an order that needs no clock.
    count: u64,
    by_rank: BTreeMap<Rank, Arc<Notify>>,
}

impl IdleConnections {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().by_rank.len()
    }

    /// Closes the first in order. Returns whether there was one.
    pub(crate) fn close_one(&self) -> bool {
        let first = self.0.lock().by_rank.pop_first();
        first.map(|(_, close)| close.notify_one()).is_some()
    }
}

/// The entry of one connection, which is in the list while the connection is idle.
#[derive(Debug)]
pub(crate) struct IdleEntry {
    connections: Arc<IdleConnections>,
    is_authenticated: AtomicBool,
    /// Its place in the list, if it is there.
    rank: Mutex<Option<Rank>>,
    close: Arc<Notify>,
}

impl IdleEntry {
    pub(crate) fn new(connections: Arc<IdleConnections>) -> Self {
        Self { connections, is_authenticated: AtomicBool::new(false), rank: Mutex::default(), close: Arc::default() }
    }

    pub(crate) fn set_idle(&self) {
        let mut place = self.rank.lock();
        if place.is_none() {
            let mut connections = self.connections.0.lock();
            connections.count += 1;
            let rank = (self.is_authenticated.load(Ordering::Relaxed), connections.count);
            connections.by_rank.insert(rank, Arc::clone(&self.close));
            *place = Some(rank);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.rank.lock().is_some()
    }

    /// Returns whether a request may begin. Not if the connection was chosen to be closed.
    pub(crate) fn set_busy(&self) -> bool {
        let mut place = self.rank.lock();
        match *place {
            None => true,
            Some(rank) => {
                let was_listed = self.connections.0.lock().by_rank.remove(&rank).is_some();
                if was_listed {
                    *place = None;
                }
                was_listed
            }
        }
    }

    pub(crate) fn set_authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection is to be closed.
    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        if let Some(rank) = *self.rank.lock() {
            self.connections.0.lock().by_rank.remove(&rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Which of `members` are to be closed.
    fn closed(members: &[IdleEntry]) -> Vec<usize> {
        let is_closed = |member: &IdleEntry| {
            let mut closed = std::pin::pin!(member.close_requested());
            closed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        (0..members.len()).filter(|index| is_closed(&members[*index])).collect()
    }

    #[test]
    fn unauthenticated_connections_are_closed_first_and_among_equals_the_longest_idle() {
        let connections = Arc::new(IdleConnections::default());
        let members: Vec<IdleEntry> = (0..6).map(|_| IdleEntry::new(Arc::clone(&connections))).collect();
        members.iter().for_each(IdleEntry::set_idle);
        // 0 and 3 are authenticated; 0 became idle again, after 3. 5 is busy.
        for index in [3, 0, 5] {
            assert!(members[index].set_busy());
            members[index].set_authenticated();
        }
        members[3].set_idle();
        members[0].set_idle();
        members[0].set_idle();
        for expected in [1, 2, 4, 3, 0] {
            assert!(connections.close_one());
            assert_eq!(closed(&members), [expected]);
        }
        assert!(!connections.close_one(), "a busy connection stays");
    }

    #[test]
    fn nothing_begins_on_a_connection_that_is_to_be_closed_and_a_dropped_one_is_not_listed() {
        let connections = Arc::new(IdleConnections::default());
        let (first, second) = (IdleEntry::new(Arc::clone(&connections)), IdleEntry::new(Arc::clone(&connections)));
        first.set_idle();
        second.set_idle();
        assert!(connections.close_one());
        assert!(!first.set_busy() && !first.set_busy());
        assert!(second.set_busy() && second.set_busy() && !second.is_idle());
        second.set_idle();
        drop(second);
        assert!(!connections.close_one());
    }
}
