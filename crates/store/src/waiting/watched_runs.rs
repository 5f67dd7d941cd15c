//! The runs that held heartbeats or waiting reads of output watch, and which of these are woken when something happens to a
//! run. Nothing here waits, asks a store or reads a clock.
//!
//! The rule that nothing is missed: a watcher is added before its heartbeat is executed or its output is read, and what happens
//! in the meantime is kept until the watcher takes it.

use std::collections::BTreeMap;
use std::task::Waker;

use taskqueue_core::ids::RunId;

/// A run, and the number of one of its watchers: a heartbeat that was repeated may be held twice, and many may read one output.
pub(super) type WatcherId = (RunId, u64);

#[derive(Default)]
pub(super) struct WatchedRuns {
    watchers: BTreeMap<WatcherId, Watcher>,
    last_number: u64,
}

#[derive(Default)]
struct Watcher {
    /// Woken since the last wake-up was taken.
    is_woken: bool,
    waker: Option<Waker>,
}

impl WatchedRuns {
    pub(super) fn add(&mut self, run_id: RunId) -> WatcherId {
        self.last_number += 1;
        let id = (run_id, self.last_number);
        self.watchers.insert(id, Watcher::default());
        id
    }

    pub(super) fn remove(&mut self, id: WatcherId) {
        self.watchers.remove(&id);
    }

    /// Wakes all watchers of a run.
    pub(super) fn wake(&mut self, run_id: RunId) -> impl Iterator<Item = Waker> {
        let watchers = self.watchers.range_mut((run_id, 0)..=(run_id, u64::MAX));
        watchers.filter_map(|(_, watcher)| watcher.wake())
    }

    pub(super) fn wake_all(&mut self) -> impl Iterator<Item = Waker> {
        self.watchers.values_mut().filter_map(Watcher::wake)
    }

    /// Whether a watcher has been woken since the last wake-up was taken; if not, `waker` is called when it is.
    pub(super) fn is_woken(&mut self, id: WatcherId, waker: &Waker) -> bool {
        let Some(watcher) = self.watchers.get_mut(&id) else { return true };
        if !watcher.is_woken && !watcher.waker.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            watcher.waker = Some(waker.clone());
        }
        watcher.is_woken
    }

    /// Takes the wake-up of a watcher, if there is one.
    pub(super) fn take_wake_up(&mut self, id: WatcherId) -> bool {
        self.watchers.get_mut(&id).is_some_and(|watcher| std::mem::take(&mut watcher.is_woken))
    }

    /// Each watched run, once for each of its watchers.
    pub(super) fn run_ids(&self) -> Vec<RunId> {
        self.watchers.keys().map(|(run_id, _)| *run_id).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.watchers.len()
    }
}

impl Watcher {
    fn wake(&mut self) -> Option<Waker> {
        self.is_woken = true;
        self.waker.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::commands::run_id;

    fn woken(runs: &mut WatchedRuns, ids: &[WatcherId]) -> Vec<bool> {
        ids.iter().map(|id| runs.is_woken(*id, Waker::noop()) && runs.take_wake_up(*id)).collect()
    }

    #[test]
    fn the_end_of_a_run_wakes_all_of_its_watchers_and_no_others() {
        let mut runs = WatchedRuns::default();
        let ids = [1, 2, 2, 3].map(|run| runs.add(run_id(run)));
        assert_eq!(woken(&mut runs, &ids), [false; 4]);
        assert_eq!(runs.wake(run_id(2)).count(), 2);
        assert_eq!(woken(&mut runs, &ids), [false, true, true, false]);
        assert_eq!(runs.wake_all().count(), 2, "two of them do not wait");
        assert_eq!(woken(&mut runs, &ids), [true; 4]);
        assert_eq!(runs.run_ids(), [1, 2, 2, 3].map(run_id));
        ids.into_iter().for_each(|id| runs.remove(id));
        assert!(runs.len() == 0 && runs.wake(run_id(2)).next().is_none());
    }

    #[test]
    fn an_end_that_comes_before_a_watcher_asks_is_kept_until_it_is_taken() {
        let mut runs = WatchedRuns::default();
        let id = runs.add(run_id(1));
        assert_eq!(runs.wake(run_id(1)).count(), 0, "it does not wait yet");
        assert!(runs.is_woken(id, Waker::noop()) && runs.is_woken(id, Waker::noop()));
        assert_eq!(woken(&mut runs, &[id]), [true]);
        assert_eq!(woken(&mut runs, &[id]), [false]);
    }
}
