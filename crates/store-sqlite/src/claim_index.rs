//! What the writer keeps in memory so that a claim costs the same at a thousand and at a million pending tasks: the
//! pending order of every route, the pending tasks that cannot be claimed yet, the heads of the running tasks, and what is known
//! of used run ids (`history.rs`). It is derived from the file, and rebuilt from it at start and after every failure
//! (`claim_index/load.rs`).

mod awaited;
mod load;
mod oldest;
mod queue_settings;
mod room;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use taskqueue_core::definition::Routes;
use taskqueue_core::delta::{Delta, PendingEntry, PendingPlace};
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::lease;
use taskqueue_core::status::Statuses;
use taskqueue_core::task::{Status, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_store::command::Sought;
use taskqueue_store::transaction::{Queue, QueueKey, RunUse, TaskKey};

use crate::ended::EndedTasks;
use crate::history::History;
use crate::pending_order::{self, PendingOrder, Rank};
use crate::waiting_tasks::WaitingTasks;

use awaited::Awaited;
pub(crate) use oldest::{OldestTasks, QueueRoute};
use queue_settings::SettingsIndex;
pub(crate) use room::Room;
use room::Use;

#[derive(Default)]
pub(crate) struct ClaimIndex {
    queues: HashMap<QueueName, QueueKey>,
    pub(crate) pending: HashMap<QueueKey, PendingOrder>,
    /// The memory of all of them. Kept as a sum, because there may be many queues.
    pending_bytes: usize,
    /// What they and the waiting tasks may take.
    room: Room,
    /// Pending tasks that cannot be claimed yet, or whose time has come since the last batch.
    pub(crate) waiting: WaitingTasks,
    pub(crate) awaited: Awaited,
    /// Queues in which dependents may have been left to be settled.
    pub(crate) unsettled: HashSet<QueueKey>,
    /// Enough to decide heartbeats and reports without reading the file.
    running: HashMap<TaskKey, Running>,
    running_ids: HashMap<(QueueKey, TaskId), TaskKey>,
    active_runs: HashMap<RunId, TaskKey>,
    settings: SettingsIndex,
    /// Tasks that have ended where they are kept for a limited time.
    pub(crate) ended: EndedTasks,
    /// Which tasks and runs have ended, and what of that is in the file.
    pub(crate) history: History,
    last_pending_seq: i64,
    /// When the leases were last scanned.
    pub(crate) last_scan_at: Option<Timestamp>,
    /// The latest time in the file, or a little later.
    pub(crate) latest_at: Timestamp,
    /// Counts updates of tasks, the only changes that may leave a task at its place in the pending order.
    updates: u64,
    /// Rows of tasks that were read to load it.
    pub(crate) rows_read: usize,
}

/// A running task. Only actions can change it, so this is what the file holds.
struct Running {
    queue: QueueKey,
    head: TaskHead,
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

    /// The same for one queue until a task of this route is in the order, or no more is due.
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

    /// Whether an upkeep certainly has nothing to do.
    pub(crate) fn has_no_upkeep(&self, now: Timestamp) -> bool {
        self.unsettled.is_empty() && !self.waiting.has_due(now) && !self.has_outdated(now)
    }

    /// Whether claims would certainly find nothing. `execute` says the same. Never reads the disk: when that would be needed to
    /// know whether a run id is new, the claims go to the writer. The time is asked for only where a task is delayed.
    pub(crate) fn finds_nothing(
        &self,
        Sought { queue, route, run_ids }: Sought<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> bool {
        let nothing = |queue: &QueueKey| {
            let nothing_pending = self.first_pending(*queue, route.as_str()).is_none()
                && !self.unsettled.contains(queue)
                && !self.waiting.has_due_of(*queue, now);
            nothing_pending || self.room(*queue, route) == Some(0)
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

    /// Whether there is room in memory for so many bytes more of a queue's pending tasks, if those of all queues become so many
    /// bytes more.
    pub(crate) fn has_room(&self, queue: QueueKey, queue_growth: usize, growth: usize) -> bool {
        let queue_bytes = self.pending.get(&queue).map_or(0, PendingOrder::bytes) + self.waiting.bytes_of(queue);
        let all_bytes = self.pending_bytes + self.waiting.bytes();
        let used = Use { queue_bytes: queue_bytes + queue_growth, all_bytes: all_bytes + growth };
        self.room.has_room(queue, used)
    }

    /// What tasks with these routes would add to the pending order of a queue.
    pub(crate) fn growth<'a>(&self, queue: QueueKey, tasks: impl Iterator<Item = &'a Routes>) -> usize {
        pending_order::growth(self.pending.get(&queue), tasks)
    }

    /// How many tasks are in the pending order of a route.
    pub(crate) fn pending(&self, queue: QueueKey, route: &str) -> usize {
        self.pending.get(&queue).map_or(0, |order| order.count(route))
    }

    /// The task of an active run.
    pub(crate) fn active_run(&self, run_id: RunId) -> Option<(QueueKey, TaskKey)> {
        self.active_runs.get(&run_id).and_then(|task| Some((self.running.get(task)?.queue, *task)))
    }

    fn is_surely_new(&self, run_id: RunId) -> bool {
        self.active_run(run_id).is_none() && self.history.runs.is_surely_new(run_id)
    }

    /// What a run id is used for. Reads the disk if memory cannot say it.
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

    /// All running tasks.
    pub(crate) fn running_tasks(&self) -> Vec<(TaskKey, TaskHead)> {
        self.running.iter().map(|(task, running)| (*task, running.head.clone())).collect()
    }

    /// Up to `most` tasks whose lease ends, or whose time is over, at or before `until`. Visits running tasks: there are as many as
    /// busy workers.
    pub(crate) fn running_until(&self, until: Timestamp, most: usize) -> Vec<(QueueKey, TaskKey)> {
        let ends = |running: &Running| running.head.lifecycle.run.is_some_and(|run| lease::run_ends_at(&run) <= until);
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

    /// Whether any run is active.
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
                self.settings.end_run(queue, ended.head.lifecycle.last_route.as_ref());
            }
            self.active_runs.remove(&run_id);
        }
        if let Some(head) = after.filter(|head| head.lifecycle.run.is_some()) {
            self.set_running(queue, task, head.clone());
        }
    }

    /// A task was updated.
    pub(crate) fn updated(&mut self) {
        self.updates += 1;
    }

    /// Records a running task as it is now.
    fn set_running(&mut self, queue: QueueKey, task: TaskKey, head: TaskHead) {
        self.active_runs.extend(head.lifecycle.run.map(|run| (run.run_id, task)));
        self.running_ids.insert((queue, head.id), task);
        match self.running.entry(task) {
            Entry::Occupied(mut known) => known.get_mut().head = head,
            Entry::Vacant(new) => {
                self.settings.begin_run(queue, head.lifecycle.last_route.as_ref());
                new.insert(Running { queue, head });
            }
        }
    }
}

fn rank(entry: PendingEntry<'_>) -> Rank {
    (Reverse(entry.priority), entry.pending_seq)
}

#[cfg(test)]
#[path = "claim_index_tests.rs"]
mod tests;
