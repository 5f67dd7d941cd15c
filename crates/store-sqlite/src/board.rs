//! What the writer keeps in memory so that a claim costs the same at a thousand and at a million pending tasks: the
//! pending order of every route, the active runs with their leases, and the run ids that are used up.
//! Nothing here is the truth: it is rebuilt from the file at start and after every failure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;
use taskqueue_core::definition::{Routes, routes_of};
use taskqueue_core::ids::{QueueName, RunId};
use taskqueue_core::task::{ActiveRun, Lifecycle, Status, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{Queue, QueueKey, RunUse, TaskKey};

use crate::rows;
use crate::statements;

/// A task's place among the pending tasks of a route: highest priority first, then pending order.
type PendingPlace = (Reverse<i64>, i64);
type PendingOrder = BTreeMap<PendingPlace, TaskKey>;

/// The writer's memory.
#[derive(Default)]
pub(crate) struct Board {
    queues: HashMap<QueueName, QueueKey>,
    pending: HashMap<QueueKey, HashMap<Box<str>, PendingOrder>>,
    active: HashMap<RunId, Active>,
    past: HashSet<RunId>,
    last_pending_seq: i64,
    /// When the leases were last scanned.
    pub(crate) last_scan_at: Option<Timestamp>,
    /// The latest time found in the file; the clock must not lie before it.
    pub(crate) latest_at: Timestamp,
}

/// Where an active run works and until when.
struct Active {
    queue: QueueKey,
    task: TaskKey,
    lease_expires_at: Timestamp,
}

impl Board {
    /// Reads everything from the file.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut board = Self::default();
        let mut queues = connection.prepare(statements::LOAD_QUEUES)?;
        let mut rows = queues.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(name) = QueueName::parse(row.get_ref(1)?.as_str()?) {
                board.queues.insert(name, QueueKey(row.get(0)?));
            }
        }
        board.load_tasks(connection)?;
        let mut runs = connection.prepare(statements::LOAD_PAST_RUNS)?;
        let mut rows = runs.query([])?;
        while let Some(row) = rows.next()? {
            board.past.insert(rows::run_id(row)?);
        }
        // The last write is a sign of life too: a run that was claimed after the last scan on file counts from there.
        board.latest_at = board.latest_at.max(last_scan_at(connection)?.unwrap_or_default());
        board.last_scan_at = Some(board.latest_at).filter(|_| board.has_active_runs());
        Ok(board)
    }

    fn load_tasks(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let living: HashSet<i64> = self.queues.values().map(|queue| queue.0).collect();
        // Sorted lists make compact trees: inserting a million places one by one would leave them half empty.
        let mut pending: HashMap<i64, HashMap<Box<str>, Vec<(PendingPlace, TaskKey)>>> = HashMap::new();
        let mut tasks = connection.prepare(statements::LOAD_BOARD)?;
        let mut rows = tasks.query([])?;
        while let Some(row) = rows.next()? {
            let task = rows::board(row)?;
            self.last_pending_seq = self.last_pending_seq.max(task.pending_seq);
            self.latest_at = self.latest_at.max(task.updated_at);
            // Also of a deleted queue: the purge forgets the run with its task, and must not find it used anew by then.
            self.past.extend(task.finished_run_id);
            if !living.contains(&task.queue_key) {
                continue;
            }
            let queue = QueueKey(task.queue_key);
            if let Some(run) = task.run {
                self.activate(queue, task.key, run);
            }
            if task.status == Status::Pending {
                let routes = pending.entry(task.queue_key).or_default();
                for route in routes_of(rows::board_routes(row)?) {
                    let place = ((Reverse(task.priority), task.pending_seq), task.key);
                    match routes.get_mut(route) {
                        Some(places) => places.push(place),
                        None => drop(routes.insert(route.into(), vec![place])),
                    }
                }
            }
        }
        for (queue, routes) in pending {
            let trees = routes.into_iter().map(|(route, places)| (route, places.into_iter().collect()));
            self.pending.insert(QueueKey(queue), trees.collect());
        }
        Ok(())
    }

    /// The key of a queue, if it exists.
    pub(crate) fn queue(&self, name: &QueueName) -> Option<QueueKey> {
        self.queues.get(name).copied()
    }

    /// Adds a queue.
    pub(crate) fn add_queue(&mut self, name: QueueName, queue: QueueKey) {
        self.queues.insert(name, queue);
    }

    /// Forgets a queue that has no running task; its past runs are forgotten when its rows are purged.
    pub(crate) fn remove_queue(&mut self, queue: Queue<'_>) {
        self.queues.remove(queue.name);
        self.pending.remove(&queue.key);
    }

    /// The next place in the pending order.
    pub(crate) fn next_pending_seq(&mut self) -> i64 {
        self.last_pending_seq += 1;
        self.last_pending_seq
    }

    /// The first pending task of a route.
    pub(crate) fn first_pending(&self, queue: QueueKey, route: &str) -> Option<TaskKey> {
        self.pending.get(&queue)?.get(route)?.first_key_value().map(|(_, task)| *task)
    }

    /// What is known of a run id.
    pub(crate) fn run_use(&self, run_id: RunId) -> RunUse {
        match self.active.get(&run_id) {
            Some(active) => RunUse::Active(active.queue, active.task),
            None if self.past.contains(&run_id) => RunUse::Past,
            None => RunUse::New,
        }
    }

    /// Runs whose lease ends at or before `until`. Looks at every active run: there are as many as busy workers.
    pub(crate) fn running_until(&self, until: Timestamp) -> Vec<(QueueKey, TaskKey)> {
        let ending = self.active.values().filter(|active| active.lease_expires_at <= until);
        let mut tasks: Vec<_> = ending.map(|active| (active.queue, active.task)).collect();
        tasks.sort_unstable();
        tasks
    }

    /// Whether any run is active.
    pub(crate) fn has_active_runs(&self) -> bool {
        !self.active.is_empty()
    }

    /// Makes a task claimable by each of its routes.
    pub(crate) fn add_pending(&mut self, queue: QueueKey, task: TaskKey, routes: &Routes, priority: i64, seq: i64) {
        let orders = self.pending.entry(queue).or_default();
        for route in routes.iter() {
            match orders.get_mut(route) {
                Some(order) => drop(order.insert((Reverse(priority), seq), task)),
                None => drop(orders.insert(route.into(), BTreeMap::from([((Reverse(priority), seq), task)]))),
            }
        }
    }

    /// Makes a task unclaimable.
    pub(crate) fn remove_pending(&mut self, queue: QueueKey, routes: &Routes, priority: i64, seq: i64) {
        let Some(orders) = self.pending.get_mut(&queue) else { return };
        for route in routes.iter() {
            if let Some(order) = orders.get_mut(route) {
                order.remove(&(Reverse(priority), seq));
                // An empty tree is dropped, so that routes that were used once do not stay for ever.
                if order.is_empty() {
                    orders.remove(route);
                }
            }
        }
    }

    /// Follows an action from one lifecycle to the next.
    pub(crate) fn follow(&mut self, queue: QueueKey, task: TaskKey, before: &TaskHead, after: &Lifecycle) {
        let was = &before.lifecycle;
        let moved = (was.status, was.pending_seq) != (after.status, after.pending_seq);
        if moved && was.status == Status::Pending {
            self.remove_pending(queue, &before.routes, before.priority, was.pending_seq);
        }
        if moved && after.status == Status::Pending {
            self.add_pending(queue, task, &before.routes, before.priority, after.pending_seq);
        }
        match (was.run, after.run) {
            (_, Some(run)) => self.activate(queue, task, run),
            (Some(ended), None) => {
                self.active.remove(&ended.run_id);
                self.past.insert(ended.run_id);
            }
            (None, None) => {}
        }
    }

    fn activate(&mut self, queue: QueueKey, task: TaskKey, run: ActiveRun) {
        let lease_expires_at = run.lease_expires_at;
        self.active.insert(run.run_id, Active { queue, task, lease_expires_at });
    }

    /// Forgets a run of a task that is being deleted.
    pub(crate) fn forget_run(&mut self, run_id: RunId) {
        self.past.remove(&run_id);
    }
}

/// When the leases were last scanned according to the file.
fn last_scan_at(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = connection.prepare(statements::LOAD_SCAN)?;
    let mut rows = statement.query([])?;
    Ok(match rows.next()? {
        Some(row) => Some(Timestamp::from_micros(row.get(0)?)),
        None => None,
    })
}
