//! Pending tasks beside the pending order, in memory: delayed ones, by the time at which they can be claimed, and blocked ones,
//! whose dependencies have not succeeded (docs/decisions/0063). What they cost is in docs/memory.md. Queues without any have
//! nothing here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use taskqueue_core::{Routes, Timestamp};
use taskqueue_store::{QueueKey, TaskKey};

use crate::pending_order::Rank;

/// Memory of a delayed task: an entry of a tree whose nodes are half full. A test checks this number and the next one.
pub(crate) const DELAYED_BYTES: usize = 112;
/// Memory of a blocked task: the same with a key alone.
const BLOCKED_BYTES: usize = 24;
/// Memory of different routes, which the delayed tasks of a queue share, without their text.
const ROUTES_BYTES: usize = 96;

/// DelayedTask tasks of a queue whose time has come that are counted apart. They are moved to the pending order within a second, and
/// the writer waits for whoever counts them.
const MOST_DUE: usize = 1_000;

/// The time at which a task can be claimed, and its key.
type DueTask = (Timestamp, TaskKey);

/// A delayed task with what the pending order needs of it, so that nothing is read when its time comes.
#[derive(Clone, Debug)]
pub(crate) struct DelayedTask {
    pub(crate) rank: Rank,
    pub(crate) routes: Routes,
}

/// The waiting tasks of all queues.
#[derive(Default)]
pub(crate) struct WaitingTasks {
    queues: HashMap<QueueKey, QueueTasks>,
    /// The time at which the first delayed task of each queue that has any can be claimed.
    first_due: BTreeSet<(Timestamp, QueueKey)>,
    /// An upper bound of the memory in use.
    bytes: usize,
}

#[derive(Default)]
struct QueueTasks {
    delayed: BTreeMap<DueTask, DelayedTask>,
    blocked: BTreeSet<TaskKey>,
    /// The routes of the delayed tasks, and how many have them.
    routes: HashMap<Routes, usize>,
    bytes: usize,
}

/// Waiting tasks while they are read from the file: sorted lists make compact trees.
#[derive(Default)]
pub(crate) struct WaitingLists {
    queues: HashMap<QueueKey, QueueLists>,
}

#[derive(Default)]
struct QueueLists {
    delayed: Vec<(DueTask, DelayedTask)>,
    blocked: Vec<TaskKey>,
    routes: HashMap<Routes, usize>,
}

impl WaitingLists {
    pub(crate) fn add_delayed(&mut self, queue: QueueKey, due: DueTask, rank: Rank, routes: &str) {
        let lists = self.queues.entry(queue).or_default();
        let (routes, _) = shared(&mut lists.routes, &Routes::from_json(routes));
        lists.delayed.push((due, DelayedTask { rank, routes }));
    }

    pub(crate) fn add_blocked(&mut self, queue: QueueKey, task: TaskKey) {
        self.queues.entry(queue).or_default().blocked.push(task);
    }

    pub(crate) fn into_tasks(self) -> WaitingTasks {
        let mut tasks = WaitingTasks::default();
        for (queue, QueueLists { delayed, blocked, routes }) in self.queues {
            let entries = delayed.len() * DELAYED_BYTES + blocked.len() * BLOCKED_BYTES;
            let bytes = entries + routes.keys().map(routes_bytes).sum::<usize>();
            let (delayed, blocked) = (delayed.into_iter().collect(), blocked.into_iter().collect());
            let of_queue = QueueTasks { delayed, blocked, routes, bytes };
            tasks.first_due.extend(of_queue.first_due().map(|at| (at, queue)));
            tasks.bytes += bytes;
            tasks.queues.insert(queue, of_queue);
        }
        tasks
    }
}

impl WaitingTasks {
    pub(crate) fn add_delayed(&mut self, queue: QueueKey, due: DueTask, rank: Rank, routes: &Routes) {
        self.change(queue, |of_queue| {
            let (routes, is_new) = shared(&mut of_queue.routes, routes);
            of_queue.bytes += DELAYED_BYTES + if is_new { routes_bytes(&routes) } else { 0 };
            of_queue.delayed.insert(due, DelayedTask { rank, routes });
        });
    }

    /// Removes a delayed task, if it is here: its time may have come already.
    pub(crate) fn remove_delayed(&mut self, queue: QueueKey, due: DueTask) -> bool {
        self.queues.contains_key(&queue) && self.change(queue, |of_queue| of_queue.take_delayed(due)).is_some()
    }

    pub(crate) fn add_blocked(&mut self, queue: QueueKey, task: TaskKey) {
        self.change(queue, |of_queue| {
            of_queue.bytes += if of_queue.blocked.insert(task) { BLOCKED_BYTES } else { 0 };
        });
    }

    pub(crate) fn remove_blocked(&mut self, queue: QueueKey, task: TaskKey) {
        self.change(queue, |of_queue| {
            of_queue.bytes -= if of_queue.blocked.remove(&task) { BLOCKED_BYTES } else { 0 };
        });
    }

    pub(crate) fn remove_queue(&mut self, queue: QueueKey) {
        if let Some(removed) = self.queues.remove(&queue) {
            self.bytes -= removed.bytes;
            removed.first_due().map(|at| self.first_due.remove(&(at, queue)));
        }
    }

    /// Returns whether the time of a delayed task has come, of any queue.
    pub(crate) fn has_due(&self, now: Timestamp) -> bool {
        self.first_due.first().is_some_and(|(at, _)| *at <= now)
    }

    /// Returns whether the time of a delayed task of this queue has come.
    pub(crate) fn has_due_of(&self, queue: QueueKey, now: impl FnOnce() -> Timestamp) -> bool {
        self.queues.get(&queue).and_then(QueueTasks::first_due).is_some_and(|at| at <= now())
    }

    /// Takes a delayed task whose time has come, of the queue where that was first.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<(QueueKey, TaskKey, DelayedTask)> {
        let (_, queue) = *self.first_due.first()?;
        self.take_due_of(queue, now).map(|(task, delayed)| (queue, task, delayed))
    }

    /// Takes the first delayed task of a queue, if its time has come.
    pub(crate) fn take_due_of(&mut self, queue: QueueKey, now: Timestamp) -> Option<(TaskKey, DelayedTask)> {
        let (due, _) = self.queues.get(&queue)?.delayed.first_key_value()?;
        let due = *due;
        let taken = if due.0 <= now { self.change(queue, |of_queue| of_queue.take_delayed(due)) } else { None };
        taken.map(|delayed| (due.1, delayed))
    }

    /// The delayed tasks of a queue whose time has come, the earliest first.
    pub(crate) fn due_of(&self, queue: QueueKey, now: Timestamp) -> impl Iterator<Item = (TaskKey, &DelayedTask)> {
        let delayed = self.queues.get(&queue).map(|of_queue| &of_queue.delayed);
        let due = delayed.into_iter().flat_map(move |delayed| delayed.range(..=(now, TaskKey(i64::MAX))));
        due.map(|((_, task), delayed)| (*task, delayed))
    }

    /// Returns how many tasks of a queue are delayed, and how many are blocked.
    pub(crate) fn counts_of(&self, queue: QueueKey, now: Timestamp) -> (usize, usize) {
        let Some(QueueTasks { delayed, blocked, .. }) = self.queues.get(&queue) else { return (0, 0) };
        (delayed.len() - self.due_of(queue, now).take(MOST_DUE).count(), blocked.len())
    }

    /// Adds the keys of the tasks of a queue to `keys`. Returns false if there would be more than `most` in it.
    pub(crate) fn add_keys(&self, queue: QueueKey, keys: &mut Vec<TaskKey>, most: usize) -> bool {
        let Some(QueueTasks { delayed, blocked, .. }) = self.queues.get(&queue) else { return true };
        if keys.len() + delayed.len() + blocked.len() > most {
            return false;
        }
        keys.extend(delayed.keys().map(|(_, task)| *task).chain(blocked.iter().copied()));
        true
    }

    /// An upper bound of the memory in use for a queue.
    pub(crate) fn bytes_of(&self, queue: QueueKey) -> usize {
        self.queues.get(&queue).map_or(0, |of_queue| of_queue.bytes)
    }

    /// An upper bound of the memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes what a queue has, and what is known of all queues with it.
    fn change<T>(&mut self, queue: QueueKey, change: impl FnOnce(&mut QueueTasks) -> T) -> T {
        let of_queue = self.queues.entry(queue).or_default();
        let (bytes, first_due) = (of_queue.bytes, of_queue.first_due());
        let changed = change(of_queue);
        self.bytes = self.bytes - bytes + of_queue.bytes;
        let now_first = of_queue.first_due();
        if first_due != now_first {
            first_due.map(|at| self.first_due.remove(&(at, queue)));
            self.first_due.extend(now_first.map(|at| (at, queue)));
        }
        if of_queue.delayed.is_empty() && of_queue.blocked.is_empty() {
            self.queues.remove(&queue);
        }
        changed
    }
}

impl QueueTasks {
    fn first_due(&self) -> Option<Timestamp> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    fn take_delayed(&mut self, due: DueTask) -> Option<DelayedTask> {
        let taken = self.delayed.remove(&due)?;
        self.bytes -= DELAYED_BYTES;
        if let Some(count) = self.routes.get_mut(&taken.routes) {
            *count -= 1;
            if *count == 0 {
                self.routes.remove(&taken.routes);
                self.bytes -= routes_bytes(&taken.routes);
            }
        }
        Some(taken)
    }
}

/// Returns the routes that others share, and whether nobody had them.
fn shared(all: &mut HashMap<Routes, usize>, routes: &Routes) -> (Routes, bool) {
    if let Some((shared, _)) = all.get_key_value(routes) {
        let shared = shared.clone();
        all.entry(shared.clone()).and_modify(|count| *count += 1);
        return (shared, false);
    }
    all.insert(routes.clone(), 1);
    (routes.clone(), true)
}

fn routes_bytes(routes: &Routes) -> usize {
    ROUTES_BYTES + routes.as_json().len()
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use taskqueue_store::conformance::commands::routes;

    use super::*;

    const QUEUE: QueueKey = QueueKey(1);
    const OTHER: QueueKey = QueueKey(2);

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn rank(task: i64) -> Rank {
        (Reverse(0), task)
    }

    #[test]
    fn delayed_tasks_are_taken_in_the_order_of_their_times_and_none_before_its_time() {
        let mut tasks = WaitingTasks::default();
        for (queue, time, task) in [(QUEUE, 30, 1), (OTHER, 20, 2), (QUEUE, 10, 3), (QUEUE, 10, 4), (OTHER, 40, 5)] {
            tasks.add_delayed(queue, (at(time), TaskKey(task)), rank(task), &routes(&["a"]));
        }
        assert!(!tasks.has_due(at(9)) && tasks.has_due(at(10)));
        assert!(!tasks.has_due_of(OTHER, || at(19)) && tasks.has_due_of(OTHER, || at(20)));
        assert_eq!(tasks.due_of(QUEUE, at(10)).map(|(task, _)| task.0).collect::<Vec<_>>(), [3, 4]);
        assert_eq!([9, 10, 29, 30].map(|time| tasks.counts_of(QUEUE, at(time)).0), [3, 1, 1, 0]);
        assert!(tasks.take_due_of(OTHER, at(19)).is_none());
        let mut taken = Vec::new();
        while let Some((queue, task, delayed)) = tasks.take_due(at(30)) {
            assert_eq!(delayed.rank, rank(task.0));
            taken.push((queue.0, task.0));
        }
        assert_eq!(taken, [(1, 3), (1, 4), (2, 2), (1, 1)]);
        assert!(!tasks.has_due(at(39)) && tasks.has_due(at(40)));
    }

    #[test]
    fn what_was_added_and_removed_costs_nothing_however_it_was_loaded() {
        let all = [(10, 1, &["a"][..]), (20, 2, &["a"]), (20, 3, &["a", "b"])];
        let (mut tasks, mut lists) = (WaitingTasks::default(), WaitingLists::default());
        for (time, task, names) in all {
            let (due, routes) = ((at(time), TaskKey(task)), routes(names));
            tasks.add_delayed(QUEUE, due, rank(task), &routes);
            lists.add_delayed(QUEUE, due, rank(task), routes.as_json());
        }
        for task in [4, 5] {
            tasks.add_blocked(QUEUE, TaskKey(task));
            lists.add_blocked(QUEUE, TaskKey(task));
        }
        let mut loaded = lists.into_tasks();
        assert_eq!((loaded.bytes(), loaded.bytes_of(QUEUE)), (tasks.bytes(), tasks.bytes_of(QUEUE)));
        for tasks in [&mut tasks, &mut loaded] {
            let mut keys = Vec::new();
            assert!(!tasks.add_keys(QUEUE, &mut keys, 4) && keys.is_empty());
            assert_eq!((tasks.counts_of(QUEUE, at(9)), tasks.counts_of(OTHER, at(9))), ((3, 2), (0, 0)));
            assert!(tasks.add_keys(QUEUE, &mut keys, 5) && tasks.add_keys(OTHER, &mut keys, 0));
            assert_eq!(keys, [1, 2, 3, 4, 5].map(TaskKey));
            assert!(tasks.remove_delayed(QUEUE, (at(10), TaskKey(1))));
            assert!(!tasks.remove_delayed(QUEUE, (at(10), TaskKey(1))), "it is not there any more");
            assert!(!tasks.remove_delayed(OTHER, (at(20), TaskKey(2))));
            tasks.remove_blocked(QUEUE, TaskKey(4));
            tasks.remove_blocked(QUEUE, TaskKey(5));
            assert!(tasks.take_due(at(20)).is_some() && tasks.take_due(at(20)).is_some());
            assert!(tasks.bytes() == 0 && tasks.queues.is_empty() && tasks.first_due.is_empty());
        }
    }

    #[test]
    fn a_queue_that_is_removed_leaves_nothing() {
        let mut tasks = WaitingTasks::default();
        tasks.add_delayed(QUEUE, (at(10), TaskKey(1)), rank(1), &routes(&["a"]));
        tasks.add_blocked(QUEUE, TaskKey(2));
        tasks.add_delayed(OTHER, (at(20), TaskKey(3)), rank(3), &routes(&["a"]));
        tasks.remove_queue(QUEUE);
        assert!(!tasks.has_due(at(19)));
        assert_eq!(tasks.bytes(), tasks.bytes_of(OTHER));
        tasks.remove_queue(OTHER);
        assert!(tasks.bytes() == 0 && tasks.first_due.is_empty());
    }

    #[test]
    fn tasks_of_the_same_routes_share_them() {
        let mut tasks = WaitingTasks::default();
        for task in 0..3 {
            tasks.add_delayed(QUEUE, (at(task), TaskKey(task)), rank(task), &routes(&["a"]));
        }
        assert_eq!(tasks.bytes(), 3 * DELAYED_BYTES + routes_bytes(&routes(&["a"])));
    }
}
