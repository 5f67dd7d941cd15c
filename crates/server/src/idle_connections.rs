//! Connections without a request under way, oldest first, so that one of them can be closed when a newcomer finds no place
//! (docs/decisions/0019). The one to close is found without a search, however many there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The order in which connections are closed: those whose client never showed that it may call, then the others; among
/// both, who has been idle for longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_known: bool,
    since: u64,
}

/// All idle connections.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    /// How often a connection became idle; an order that needs no clock.
    count: u64,
    by_rank: BTreeMap<Rank, Arc<Notify>>,
}

impl IdleConnections {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.listed().by_rank.len()
    }

    /// Closes the first in order; whether there was one.
    pub(crate) fn close_one(&self) -> bool {
        let first = self.listed().by_rank.pop_first();
        first.map(|(_, close)| close.notify_one()).is_some()
    }
}

/// One connection, as the list of idle ones sees it.
#[derive(Debug)]
pub(crate) struct IdleEntry {
    connections: Arc<IdleConnections>,
    state: Mutex<State>,
    close: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    is_known: bool,
    rank: Option<Rank>,
}

impl IdleEntry {
    pub(crate) fn new(connections: Arc<IdleConnections>) -> Self {
        Self { connections, state: Mutex::default(), close: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No request is under way.
    pub(crate) fn rests(&self) {
        let mut state = self.state();
        if state.rank.is_none() {
            let mut listed = self.connections.listed();
            listed.count += 1;
            let rank = Rank { is_known: state.is_known, since: listed.count };
            listed.by_rank.insert(rank, Arc::clone(&self.close));
            state.rank = Some(rank);
        }
    }

    /// Whether it is listed as idle.
    pub(crate) fn is_resting(&self) -> bool {
        self.state().rank.is_some()
    }

    /// A request begins. Not if the connection was chosen to be closed: then nothing may be begun on it.
    pub(crate) fn works(&self) -> bool {
        let mut state = self.state();
        match state.rank {
            None => true,
            Some(rank) => {
                let was_listed = self.connections.listed().by_rank.remove(&rank).is_some();
                if was_listed {
                    state.rank = None;
                }
                was_listed
            }
        }
    }

    /// Its client has shown that it may call.
    pub(crate) fn note_authenticated(&self) {
        self.state().is_known = true;
    }

    /// Waits until it is to be closed.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        if let Some(rank) = self.state().rank {
            self.connections.listed().by_rank.remove(&rank);
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
            let mut closed = std::pin::pin!(member.closed());
            closed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        (0..members.len()).filter(|index| is_closed(&members[*index])).collect()
    }

    #[test]
    fn strangers_go_first_then_the_others_and_who_rests_for_longest_before_who_rests_for_less() {
        let connections = Arc::new(IdleConnections::default());
        let members: Vec<IdleEntry> = (0..6).map(|_| IdleEntry::new(Arc::clone(&connections))).collect();
        members.iter().for_each(IdleEntry::rests);
        // 0 and 3 have shown that they may call; 0 rests anew, behind 3. 5 works.
        for index in [3, 0, 5] {
            assert!(members[index].works());
            members[index].note_authenticated();
        }
        members[3].rests();
        members[0].rests();
        members[0].rests();
        for expected in [1, 2, 4, 3, 0] {
            assert!(connections.close_one());
            assert_eq!(closed(&members), [expected]);
        }
        assert!(!connections.close_one(), "whoever works stays");
    }

    #[test]
    fn nothing_begins_on_a_connection_that_is_to_be_closed_and_who_has_left_is_not_listed() {
        let connections = Arc::new(IdleConnections::default());
        let (first, second) = (IdleEntry::new(Arc::clone(&connections)), IdleEntry::new(Arc::clone(&connections)));
        first.rests();
        second.rests();
        assert!(connections.close_one());
        assert!(!first.works() && !first.works());
        assert!(second.works() && second.works() && !second.is_resting());
        second.rests();
        drop(second);
        assert!(!connections.close_one());
    }
}
