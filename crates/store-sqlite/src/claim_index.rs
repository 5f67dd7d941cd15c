//! What the writer keeps in memory so that a claim costs the same at a thousand and at a million pending tasks: the
//! pending order of every route, the pending tasks that cannot be claimed yet, the heads of the running tasks, and what is known
//! of used run ids (`history.rs`). It is derived from the file, and rebuilt from it at start and after every failure
//! (`claim_index/load.rs`).

mod awaited;
pub(crate) mod load;
pub(crate) mod queue_settings;
pub(crate) mod room;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use taskqueue_core::delta::{Delta, PendingEntry, PendingPlace};
use taskqueue_core::{
    QueueName, QueueSettings, Route, Routes, RunId, Status, Statuses, TaskHead, TaskId, Timestamp, lease,
};
use taskqueue_store::command::ClaimTarget;
use taskqueue_store::transaction::{Queue, QueueKey, RunUse, TaskKey};

use self::awaited::Awaited;
use self::queue_settings::SettingsIndex;
use self::room::{MemoryUse, Room};
use crate::history::History;
use crate::pending_order::{self, PendingOrder, Rank};
use crate::waiting_tasks::WaitingTasks;

/// The tasks that claims can take or may take later, and the running ones.
#[derive(Default)]
pub(crate) struct ClaimIndex {
    queues: HashMap<QueueName, QueueKey>,
    pub(crate) pending: HashMap<QueueKey, PendingOrder>,
    /// The memory of all of them. Kept as a sum, because there may be many queues.
    pending_bytes: usize,
    /// The memory that they and the waiting tasks may take.
    room: Room,
    /// Pending tasks that cannot be claimed yet, or whose time has come since the last batch.
    pub(crate) waiting: WaitingTasks,
    pub(crate) awaited: Awaited,
    /// Queues in which dependents may have been left to be settled.
    pub(crate) unsettled: HashSet<QueueKey>,
    /// Enough to decide heartbeats and reports without reading the file.
    running: HashMap<TaskKey, RunningTask>,
    running_ids: HashMap<(QueueKey, TaskId), TaskKey>,
    active_runs: HashMap<RunId, TaskKey>,
    pub(crate) settings: SettingsIndex,
    /// The tasks and runs that have ended, and what of that is in the file.
    pub(crate) history: History,
    last_pending_seq: i64,
    /// The time at which the leases were last scanned.
    pub(crate) last_scan_at: Option<Timestamp>,
    /// The latest time in the file, or a little later.
    pub(crate) latest_at: Timestamp,
    /// The task that this transaction has loaded last, if it had no outcome and none was saved since: the one that is claimed next.
    pub(crate) loaded_without_outcome: Option<TaskKey>,
    /// Counts updates of tasks, the only changes that may leave a task at its place in the pending order.
    pub(crate) updates: u64,
    /// Rows of tasks that were read to load it.
    pub(crate) rows_read: usize,
}

/// A running task. Only actions can change it, so this is what the file holds.
struct RunningTask {
    queue: QueueKey,
    head: TaskHead,
    /// False if it certainly has no outcome in the file.
    may_have_outcome: bool,
}

impl ClaimIndex {
    pub(crate) fn queue(&self, name: &QueueName) -> Option<QueueKey> {
        self.queues.get(name).copied()
    }

    pub(crate) fn add_queue(&mut self, name: QueueName, queue: QueueKey) {
        self.queues.insert(name, queue);
        self.room.add_queue(queue);
    }

    /// Removes a queue that has no running task. Its run ids stay used.
    pub(crate) fn remove_queue(&mut self, queue: Queue<'_>) {
        self.queues.remove(queue.name);
        self.room.remove_queue(queue.key);
        self.settings.remove(queue.key);
        self.waiting.remove_queue(queue.key);
        self.awaited.remove_queue(queue.key);
        self.pending_bytes -= self.pending.remove(&queue.key).map_or(0, |order| order.bytes());
    }

    pub(crate) fn next_pending_seq(&mut self) -> i64 {
        self.last_pending_seq += 1;
        self.last_pending_seq
    }

    /// The first task of a route in the pending order.
    pub(crate) fn first_pending(&self, queue: QueueKey, route: &str) -> Option<TaskKey> {
        self.pending.get(&queue)?.first(route)
    }

    /// Moves delayed tasks whose time has come to the pending order, at most so many, and gives how many they were. The time may
    /// go back afterwards; they stay.
    pub(crate) fn release_due(&mut self, now: Timestamp, most: usize) -> usize {
        let mut released = 0;
        while released < most
            && let Some((queue, task, delayed)) = self.waiting.take_due(now)
        {
            self.add_to_order(queue, task, delayed.rank, &delayed.routes);
            released += 1;
        }
        released
    }

    /// Moves delayed tasks of one queue until a task of this route is in the order, or no more is due. Returns how many they were.
    pub(crate) fn release_for(&mut self, queue: QueueKey, route: &str, now: Timestamp) -> usize {
        let mut released = 0;
        while self.first_pending(queue, route).is_none()
            && let Some((task, delayed)) = self.waiting.take_due_of(queue, now)
        {
            self.add_to_order(queue, task, delayed.rank, &delayed.routes);
            released += 1;
        }
        released
    }

    /// Returns whether an upkeep certainly has nothing to do.
    pub(crate) fn has_no_upkeep(&self, now: Timestamp) -> bool {
        self.unsettled.is_empty() && !self.waiting.has_due(now) && !self.settings.has_outdated(now)
    }

    /// Returns whether claims would certainly find nothing. `execute` says the same. Never reads the disk: when that would be
    /// needed to know whether a run id is new, the claims go to the writer. The time is asked for only where a task is delayed.
    pub(crate) fn finds_nothing(
        &self,
        ClaimTarget { queue, route, run_ids }: ClaimTarget<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> bool {
        let nothing = |queue: &QueueKey| {
            let nothing_pending = self.first_pending(*queue, route.as_str()).is_none()
                && !self.unsettled.contains(queue)
                && !self.waiting.has_due_of(*queue, now);
            nothing_pending || self.settings.room(*queue, route) == Some(0)
        };
        self.queues.get(queue).is_some_and(nothing) && run_ids.iter().all(|run_id| self.is_surely_new(*run_id))
    }

    /// The keys of the tasks of a queue that are in one of these states, pending or running, each once. Nothing if there are
    /// more than `most`, several routes of a pending task counted: collecting them would delay the writer.
    pub(crate) fn living(&self, queue: &QueueName, statuses: Statuses, most: usize) -> Option<Vec<TaskKey>> {
        let (queue, mut keys) = (self.queues.get(queue)?, Vec::new());
        if statuses.contains(Status::Running) {
            if self.running.len() > most {
                return None;
            }
            keys.extend(self.running.iter().filter(|(_, running)| running.queue == *queue).map(|(task, _)| *task));
        }
        if statuses.contains(Status::Pending) {
            let ordered = self.pending.get(queue).is_none_or(|order| order.add_keys(&mut keys, most));
            if !ordered || !self.waiting.add_keys(*queue, &mut keys, most) {
                return None;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    /// Returns whether there is room in memory for so many bytes more of a queue's pending tasks, if those of all queues become so
    /// many bytes more.
    pub(crate) fn has_room(&self, queue: QueueKey, queue_growth: usize, growth: usize) -> bool {
        let queue_bytes = self.pending.get(&queue).map_or(0, PendingOrder::bytes) + self.waiting.bytes_of(queue);
        let all_bytes = self.pending_bytes + self.waiting.bytes();
        let used = MemoryUse { queue_bytes: queue_bytes + queue_growth, all_bytes: all_bytes + growth };
        self.room.has_room(queue, used)
    }

    /// Returns what tasks with these routes would add to the pending order of a queue.
    pub(crate) fn growth<'a>(&self, queue: QueueKey, tasks: impl Iterator<Item = &'a Routes>) -> usize {
        pending_order::growth(self.pending.get(&queue), tasks)
    }

    /// Returns how many tasks are in the pending order of a route.
    pub(crate) fn pending(&self, queue: QueueKey, route: &str) -> usize {
        self.pending.get(&queue).map_or(0, |order| order.count(route))
    }

    /// Returns how many tasks claims for a route could take now.
    pub(crate) fn claimable(&self, queue: QueueKey, route: &Route) -> usize {
        let room =
            self.settings.room(queue, route).map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX));
        if room == 0 { 0 } else { self.pending(queue, route.as_str()).min(room) }
    }

    /// Sets the settings of a queue. All running tasks are visited.
    pub(crate) fn set_settings(&mut self, queue: QueueKey, settings: QueueSettings) {
        let running = self.running.values().filter(|running| running.queue == queue);
        self.settings.set(queue, settings, running.map(|running| running.head.lifecycle.last_route.as_ref()));
    }

    /// The task of an active run.
    pub(crate) fn active_run(&self, run_id: RunId) -> Option<(QueueKey, TaskKey)> {
        self.active_runs.get(&run_id).and_then(|task| Some((self.running.get(task)?.queue, *task)))
    }

    fn is_surely_new(&self, run_id: RunId) -> bool {
        self.active_run(run_id).is_none() && self.history.runs.is_surely_new(run_id)
    }

    /// Returns what a run id is used for. Reads the disk if memory cannot say it.
    pub(crate) fn run_use(&self, connection: &Connection, run_id: RunId) -> rusqlite::Result<RunUse> {
        Ok(match self.active_run(run_id) {
            Some((queue, task)) => RunUse::Active(queue, task),
            None if self.history.runs.is_used(connection, run_id)? => RunUse::Past,
            None => RunUse::New,
        })
    }

    /// The key of a running task.
    pub(crate) fn running_task(&self, queue: QueueKey, id: TaskId) -> Option<TaskKey> {
        self.running_ids.get(&(queue, id)).copied()
    }

    /// The head of a running task.
    pub(crate) fn running_head(&self, task: TaskKey) -> Option<&TaskHead> {
        self.running.get(&task).map(|running| &running.head)
    }

    /// Returns whether a task certainly has no outcome.
    pub(crate) fn lacks_outcome(&self, task: TaskKey) -> bool {
        self.loaded_without_outcome == Some(task) || self.running.get(&task).is_some_and(|one| !one.may_have_outcome)
    }

    pub(crate) fn gets_outcome(&mut self, task: TaskKey) {
        self.loaded_without_outcome = None;
        self.running.get_mut(&task).into_iter().for_each(|one| one.may_have_outcome = true);
    }

    /// Up to `most` tasks whose lease ends, or whose time is over, at or before `until`. Visits running tasks: there are as many as
    /// busy workers.
    pub(crate) fn running_until(&self, until: Timestamp, most: usize) -> Vec<(QueueKey, TaskKey)> {
        let ends =
            |running: &RunningTask| running.head.lifecycle.run.is_some_and(|run| lease::run_ends_at(&run) <= until);
        let ending = self.running.iter().filter(|(_, running)| ends(running));
        let mut tasks: Vec<_> = ending.map(|(task, running)| (running.queue, *task)).take(most).collect();
        tasks.sort_unstable();
        tasks
    }

    /// Times in the file may be in the future, because a clock was wrong. The service was not up then.
    pub(crate) fn no_scan_after(&mut self, now: Timestamp) {
        self.last_scan_at = self.last_scan_at.map(|last| last.min(now));
    }

    /// The machine slept since the last scan, which then counts as long ago.
    pub(crate) fn count_as_outage(&mut self) {
        self.last_scan_at = self.last_scan_at.map(|_| Timestamp::default());
    }

    /// Returns whether any run is active.
    pub(crate) fn has_active_runs(&self) -> bool {
        !self.active_runs.is_empty()
    }

    /// Adds a pending task where it belongs: it can be claimed by each of its routes, or it waits.
    pub(crate) fn add_pending(&mut self, queue: QueueKey, task: TaskKey, entry: PendingEntry<'_>, now: Timestamp) {
        match entry.place(now) {
            PendingPlace::Order => self.add_to_order(queue, task, rank(entry), entry.routes),
            PendingPlace::Delayed(until) => {
                self.waiting.add_delayed(queue, (until, task), rank(entry), entry.routes);
            }
            PendingPlace::Blocked => self.waiting.add_blocked(queue, task),
        }
    }

    fn add_to_order(&mut self, queue: QueueKey, task: TaskKey, rank: Rank, routes: &Routes) {
        let order = self.pending.entry(queue).or_default();
        let before = order.bytes();
        order.add(rank, task, routes);
        self.pending_bytes = self.pending_bytes - before + order.bytes();
    }

    /// Removes a pending task from where it is. A task whose time has come may be in the order already, whatever the time is now.
    fn remove_pending(&mut self, queue: QueueKey, task: TaskKey, entry: PendingEntry<'_>) {
        if entry.blocked {
            return self.waiting.remove_blocked(queue, task);
        }
        if let Some(until) = entry.not_before
            && self.waiting.remove_delayed(queue, (until, task))
        {
            return;
        }
        if let Some(order) = self.pending.get_mut(&queue) {
            let before = order.bytes();
            order.remove(rank(entry), entry.routes);
            self.pending_bytes = self.pending_bytes - before + order.bytes();
        }
    }

    /// Applies a change of a task.
    pub(crate) fn apply(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        delta: &Delta<'_>,
        after: Option<&TaskHead>,
        now: Timestamp,
    ) {
        self.history.apply(task, delta);
        if let Some(entry) = delta.pending.removed {
            self.remove_pending(queue, task, entry);
        }
        if let Some(entry) = delta.pending.added {
            self.add_pending(queue, task, entry, now);
        }
        if let Some(run_id) = delta.run.removed {
            if let Some(ended) = self.running.remove(&task) {
                self.running_ids.remove(&(queue, ended.head.id));
                self.settings.count_run(queue, ended.head.lifecycle.last_route.as_ref(), false);
            }
            self.active_runs.remove(&run_id);
        }
        if let Some(head) = after.filter(|head| head.lifecycle.run.is_some()) {
            self.set_running(queue, task, head.clone());
        }
    }

    /// Records a running task as it is now.
    fn set_running(&mut self, queue: QueueKey, task: TaskKey, head: TaskHead) {
        self.active_runs.extend(head.lifecycle.run.map(|run| (run.run_id, task)));
        self.running_ids.insert((queue, head.id), task);
        match self.running.entry(task) {
            Entry::Occupied(mut known) => known.get_mut().head = head,
            Entry::Vacant(new) => {
                self.settings.count_run(queue, head.lifecycle.last_route.as_ref(), true);
                let may_have_outcome = self.loaded_without_outcome != Some(task);
                new.insert(RunningTask { queue, head, may_have_outcome });
            }
        }
    }
}

fn rank(entry: PendingEntry<'_>) -> Rank {
    (Reverse(entry.priority), entry.pending_seq)
}

/// Delayed and blocked tasks in the claim index: where they are, how many become claimable at a time, and that a claim does not
/// notice them.
#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::waiting_tasks::WaitingLists;
    use taskqueue_store::conformance::commands::{claim, queue, routes};

    const QUEUE: QueueKey = QueueKey(1);

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn index() -> ClaimIndex {
        let mut index = ClaimIndex::default();
        index.add_queue(queue("q"), QUEUE);
        index
    }

    fn entry(routes: &Routes, task: i64, not_before: Option<i64>, blocked: bool) -> PendingEntry<'_> {
        PendingEntry { routes, priority: 0, pending_seq: task, not_before: not_before.map(at), blocked }
    }

    /// Adds a task of this route whose time comes at `not_before`.
    fn delay(index: &mut ClaimIndex, route: &str, task: i64, not_before: i64) {
        index.add_pending(QUEUE, TaskKey(task), entry(&routes(&[route]), task, Some(not_before), false), at(0));
    }

    #[test]
    fn delayed_tasks_become_claimable_some_at_a_time_and_a_claim_goes_on_until_it_has_one() {
        let mut index = index();
        (1..=10).for_each(|task| delay(&mut index, "a", task, 5));
        delay(&mut index, "b", 11, 6);
        delay(&mut index, "b", 12, 7);
        assert_eq!(index.release_due(at(4), 100), 0);
        assert_eq!(index.release_due(at(6), 3), 3);
        assert_eq!((index.pending(QUEUE, "a"), index.pending(QUEUE, "b")), (3, 0));
        assert_eq!(index.release_for(QUEUE, "a", at(6)), 0, "there is one");
        assert_eq!(index.release_for(QUEUE, "b", at(6)), 8, "those before it become claimable, too");
        assert_eq!(index.first_pending(QUEUE, "b"), Some(TaskKey(11)));
        assert_eq!(index.release_for(QUEUE, "c", at(6)), 0, "12 is not due");
    }

    #[test]
    fn a_task_that_has_become_claimable_stays_so_if_the_clock_goes_back_and_can_be_removed() {
        let mut index = index();
        delay(&mut index, "a", 1, 5);
        assert_eq!(index.release_due(at(5), 100), 1);
        let claim = claim("q", "a", 1);
        assert!(!index.finds_nothing((&claim).into(), || at(3)));
        assert_eq!(index.release_due(at(3), 100), 0);
        assert_eq!(index.first_pending(QUEUE, "a"), Some(TaskKey(1)));
        index.remove_pending(QUEUE, TaskKey(1), entry(&routes(&["a"]), 1, Some(5), false));
        assert!(index.finds_nothing((&claim).into(), || at(9)));
        assert_eq!((index.pending_bytes, index.waiting.bytes()), (0, 0));
    }

    #[test]
    fn delayed_and_blocked_tasks_are_living_and_count_towards_the_memory_of_their_queue() {
        let mut index = index();
        let names = routes(&["a"]);
        index.add_pending(QUEUE, TaskKey(1), entry(&names, 1, None, false), at(0));
        index.add_pending(QUEUE, TaskKey(2), entry(&names, 2, Some(5), false), at(0));
        index.add_pending(QUEUE, TaskKey(3), entry(&names, 3, Some(5), true), at(0));
        let pending = Statuses::NONE.with(Status::Pending);
        assert_eq!(index.living(&queue("q"), pending, 3), Some([1, 2, 3].map(TaskKey).to_vec()));
        assert_eq!(index.living(&queue("q"), pending, 2), None);
        let all = index.pending_bytes + index.waiting.bytes();
        assert!(index.waiting.bytes_of(QUEUE) > 0);
        for (most_bytes, expected) in [(all, false), (2 * all, true)] {
            index.room = Room::within(most_bytes);
            assert_eq!(index.has_room(QUEUE, 0, 0), expected);
        }
        assert_eq!(index.release_due(at(5), 100), 1, "the blocked one stays where it is");
        for (task, not_before, blocked) in [(1, None, false), (2, Some(5), false), (3, Some(5), true)] {
            index.remove_pending(QUEUE, TaskKey(task), entry(&names, task, not_before, blocked));
        }
        assert_eq!((index.pending_bytes, index.waiting.bytes()), (0, 0));
    }

    /// The time of many claims, each at the beginning of a batch of its own.
    fn time_of_claims(index: &mut ClaimIndex) -> Duration {
        let begun = Instant::now();
        for _ in 0..20_000 {
            assert_eq!(index.release_due(at(4), 1_000), 0);
            index.release_for(QUEUE, "a", at(4));
            assert_eq!(index.first_pending(QUEUE, "a"), Some(TaskKey(1)));
        }
        begun.elapsed()
    }

    #[test]
    fn a_million_delayed_tasks_do_not_slow_claims_down() {
        let mut index = index();
        index.add_pending(QUEUE, TaskKey(1), entry(&routes(&["a"]), 1, None, false), at(0));
        let alone = time_of_claims(&mut index);
        let mut lists = WaitingLists::default();
        for task in 2..1_000_002 {
            lists.add_delayed(QUEUE, (at(5 + task), TaskKey(task)), (Reverse(0), task), r#"["a"]"#);
        }
        index.waiting = lists.into_tasks();
        let beside = time_of_claims(&mut index);
        // A walk over them would take a thousand times as long. The machine may be busy.
        assert!(beside < 20 * alone + Duration::from_millis(200), "{alone:?} alone, {beside:?} beside a million");
    }
}
