//! What one transaction has loaded: the rows as the commands so far have left them, and as the database still holds them.
//! No statement runs here and nothing is decided.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use taskqueue_core::delta::Difference;
use taskqueue_core::lifecycle::{ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::update::Effect;
use taskqueue_core::{
    Change, Definition, Documents, Identity, JsonObject, Lifecycle, Observation, Outcome, QueueName, QueueSettings,
    Route, RunId, Scheduling, Status, Task, TaskHead, TaskId, Timestamp, Update, WorkerId, lease,
};
use taskqueue_store::{QueueKey, RunUse, StoreError, StoreResult, TaskKey};
use tokio_postgres::Row;

use crate::dependency_rows::DependencyRows;
use crate::output::OutputEntry;
use crate::rows;
use crate::settings::Turn;

/// Whether a queue or a task that a command names exists, and whether this transaction may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<K> {
    Missing,
    /// Another transaction holds it.
    HeldElsewhere,
    /// This transaction holds it, or only reads it.
    Here(K),
}

impl<K> Found<K> {
    /// The key, if it exists. Busy when another transaction holds it: the writer tries the command again.
    pub(crate) fn key(self) -> StoreResult<Option<K>> {
        match self {
            Self::Missing => Ok(None),
            Self::HeldElsewhere => Err(StoreError::Busy),
            Self::Here(key) => Ok(Some(key)),
        }
    }
}

/// The heavy part of a task.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) definition: Definition,
    pub(crate) outcome: Outcome,
}

/// A loaded task.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) queue: QueueKey,
    pub(crate) head: TaskHead,
    /// Whether this transaction has locked the row. Others are only read.
    pub(crate) held: bool,
    /// As the database has it. Nothing for a task that is new.
    pub(crate) stored: Option<TaskHead>,
    /// Whether this transaction has created it.
    pub(crate) is_new: bool,
    /// Loaded on demand, and from then on changed with the head.
    pub(crate) body: Option<Body>,
    pub(crate) identity: Option<Identity>,
    /// Whether an update changed anything.
    pub(crate) updated: bool,
    /// Whether an update of this task alone changed its name.
    pub(crate) renamed: bool,
    /// Whether args or metadata differ from what is stored.
    pub(crate) redefined: bool,
    /// A result that is to be stored.
    pub(crate) result: Option<JsonObject>,
    /// An error that is to be stored or cleared.
    pub(crate) error: ErrorChange,
    /// A last run that is to be stored or cleared.
    pub(crate) last_run: LastRunChange,
    /// A progress that is to be stored or cleared.
    pub(crate) progress: ProgressChange,
    /// The size of the stored result, if it was asked for.
    pub(crate) result_bytes: Option<usize>,
    pub(crate) deleted: bool,
}

impl Entry {
    /// A task as it was loaded.
    pub(crate) fn loaded(queue: QueueKey, head: TaskHead) -> Self {
        Self { stored: Some(head.clone()), is_new: false, ..Self::new(queue, head) }
    }

    /// A task that is only read.
    fn read(row: &Row) -> StoreResult<Self> {
        Ok(Self { held: false, ..Self::loaded(rows::queue_key(row)?, rows::head(row)?) })
    }

    /// A task that is new.
    pub(crate) fn new(queue: QueueKey, head: TaskHead) -> Self {
        Self {
            queue,
            head,
            held: true,
            stored: None,
            is_new: true,
            body: None,
            identity: None,
            updated: false,
            renamed: false,
            redefined: false,
            result: None,
            error: ErrorChange::Keep,
            last_run: LastRunChange::Keep,
            progress: ProgressChange::Keep,
            result_bytes: None,
            deleted: false,
        }
    }

    /// The whole task, if its heavy part is loaded.
    pub(crate) fn task(&self, queue: &QueueName) -> Option<Task> {
        let Body { definition, outcome } = self.body.clone()?;
        let lifecycle = self.head.lifecycle.clone();
        Some(Task { queue: queue.clone(), id: self.head.id, definition, lifecycle, outcome })
    }

    /// Whether a claim for this route may take it.
    fn is_claimable(&self, route: &Route, now: Timestamp) -> bool {
        let Lifecycle { status, unmet, not_before, .. } = self.head.lifecycle;
        let pending = status == Status::Pending && !self.deleted;
        let waits = unmet > 0 || not_before.is_some_and(|not_before| not_before > now);
        pending && !waits && self.head.routes.contains(route.as_str())
    }

    pub(crate) fn apply_change(&mut self, change: &Change) {
        self.head = change.head_after(&self.head);
        if let Some(result) = &change.result {
            self.result = Some(result.clone());
        }
        if change.last_error != ErrorChange::Keep {
            self.error = change.last_error.clone();
        }
        if change.last_run != LastRunChange::Keep {
            self.last_run = change.last_run.clone();
        }
        if change.progress != ProgressChange::Keep {
            self.progress = change.progress.clone();
        }
        self.apply_outcome_to_body();
    }

    fn apply_outcome_to_body(&mut self) {
        let Some(Body { outcome, .. }) = &mut self.body else { return };
        if let Some(result) = &self.result {
            outcome.result = result.clone();
        }
        self.error.apply(&mut outcome.last_error);
        self.last_run.apply(&mut outcome.last_run);
        self.progress.apply(&mut outcome.progress);
    }

    /// The size of its result, if that is known.
    pub(crate) fn known_result_bytes(&self) -> Option<usize> {
        let loaded = self.result.as_ref().or(self.body.as_ref().map(|body| &body.outcome.result));
        loaded.map(|result| result.as_str().len()).or(self.result_bytes)
    }

    pub(crate) fn apply_update(&mut self, before: &Task, after: &Task) {
        let (old, new) = (&before.definition, &after.definition);
        self.updated = true;
        self.renamed |= old.name != new.name;
        self.redefined |= (&old.args, &old.metadata) != (&new.args, &new.metadata);
        if before.outcome.result != after.outcome.result {
            self.result = Some(after.outcome.result.clone());
        }
        self.head = after.head();
        self.body = Some(Body { definition: after.definition.clone(), outcome: after.outcome.clone() });
    }
}

/// An observation that was reported or measured.
#[derive(Debug)]
pub(crate) struct ChangedObservation {
    pub(crate) observation: Observation,
    /// Whether more than its telemetry is new.
    pub(crate) reported: bool,
}

/// The values that a bulk update gives to many tasks, sent once, and the keys of the tasks that get each of them.
#[derive(Debug, Default)]
pub(crate) struct BulkValues {
    pub(crate) update: Update,
    pub(crate) names: Vec<i64>,
    pub(crate) args: Vec<i64>,
    pub(crate) metadata: Vec<i64>,
    pub(crate) results: Vec<i64>,
    /// What merge patches made of args and metadata: each task has its own.
    pub(crate) merged: Vec<(i64, Documents)>,
}

/// Everything that was loaded, and what is to be written besides tasks.
#[derive(Default)]
pub(crate) struct TransactionRows {
    pub(crate) queues: HashMap<QueueName, Found<QueueKey>>,
    pub(crate) ids: HashMap<(QueueKey, TaskId), Found<TaskKey>>,
    /// Tasks that this transaction has deleted, and not created again.
    pub(crate) deleted_ids: HashSet<(QueueKey, TaskId)>,
    /// Ordered by key, which is the order in which they are written.
    pub(crate) tasks: BTreeMap<TaskKey, Entry>,
    /// Held tasks for the claims of a route, first one first.
    pub(crate) picks: HashMap<(QueueKey, Route), VecDeque<TaskKey>>,
    /// The tasks of claims that are repeated.
    pub(crate) repeated: Vec<TaskKey>,
    pub(crate) runs: HashMap<RunId, RunUse>,
    pub(crate) observations: BTreeMap<(QueueKey, WorkerId), Option<Observation>>,
    /// Of tasks that are held.
    pub(crate) outputs: BTreeMap<TaskKey, OutputEntry>,
    pub(crate) dependencies: DependencyRows,
    pub(crate) new_queues: BTreeMap<QueueName, QueueKey>,
    pub(crate) new_runs: BTreeMap<RunId, TaskKey>,
    /// Until when the run ids of tasks that are deleted here stay used.
    pub(crate) deleted_runs_kept_until: Timestamp,
    pub(crate) changed_observations: BTreeMap<(QueueKey, WorkerId), ChangedObservation>,
    /// Observations that were withdrawn, and perhaps reported again.
    pub(crate) withdrawn_observations: BTreeSet<(QueueKey, WorkerId)>,
    pub(crate) bulk_values: Option<BulkValues>,
    /// The settings of queues, nothing for the default. Those of a queue that this transaction does not hold may change meanwhile.
    pub(crate) settings: HashMap<QueueKey, Option<Arc<QueueSettings>>>,
    /// How many tasks claims want of the routes of queues in which they take turns.
    pub(crate) wanted_in_turn: BTreeMap<(QueueName, Route), i64>,
    /// In queues that limit claims: what is running, while this transaction has the turn. Nothing where another one has it.
    pub(crate) turns: HashMap<QueueKey, Option<Turn>>,
}

impl TransactionRows {
    /// The key of a queue that this transaction holds.
    pub(crate) fn held_queue(&self, name: &QueueName) -> Option<QueueKey> {
        self.queues.get(name).and_then(|found| found.key().ok()?)
    }

    /// Adds a task that is held from now on. What was only read of it before may have changed since.
    pub(crate) fn add_held(&mut self, key: TaskKey, queue: QueueKey, head: TaskHead) {
        if !self.tasks.get(&key).is_some_and(|entry| entry.held) {
            self.dependencies.task_was_locked(queue, head.id);
            self.ids.insert((queue, head.id), Found::Here(key));
            self.tasks.insert(key, Entry::loaded(queue, head));
        }
    }

    /// Adds tasks that are held from now on.
    pub(crate) fn add_held_rows(&mut self, rows: &[Row]) -> StoreResult<()> {
        let mut last = Scheduling::default();
        for row in rows {
            self.add_held(rows::key(row)?, rows::queue_key(row)?, rows::head_beside(row, &mut last)?);
        }
        Ok(())
    }

    /// The next held task that is still pending for a route.
    pub(crate) fn next_pick(&mut self, queue: QueueKey, route: &Route, now: Timestamp) -> Option<TaskKey> {
        let picks = self.picks.get_mut(&(queue, route.clone()))?;
        while let Some(key) = picks.front().copied() {
            if self.tasks.get(&key).is_some_and(|entry| entry.is_claimable(route, now)) {
                return Some(key);
            }
            picks.pop_front();
        }
        None
    }

    /// How many held tasks are still pending for a route.
    pub(crate) fn claimable_picks(&self, queue: QueueKey, route: &Route, now: Timestamp) -> usize {
        let is_claimable = |key: &&TaskKey| self.tasks.get(key).is_some_and(|entry| entry.is_claimable(route, now));
        self.picks.get(&(queue, route.clone())).map_or(0, |picks| picks.iter().filter(is_claimable).count())
    }

    /// The tasks that are claimable for a route in the database, and either no longer after this transaction or held by it for
    /// claims. Tasks that it has only read are not among them, whatever they were then: others may have requeued them since.
    pub(crate) fn unready_or_picked(&self, queue: QueueKey, route: &Route, now: Timestamp) -> Vec<i64> {
        let is_changed = |entry: &Entry| entry.held && entry.stored.is_some();
        let gone = self.tasks.iter().filter(|(_, entry)| is_changed(entry) && !entry.is_claimable(route, now));
        let picked = self.picks.get(&(queue, route.clone())).into_iter().flatten();
        gone.map(|(key, _)| key.0).chain(picked.map(|key| key.0)).collect()
    }

    /// Applies what a change of a task means for the run ids.
    pub(crate) fn apply_run(&mut self, queue: QueueKey, key: TaskKey, run: &Difference<RunId>) {
        if let Some(run_id) = run.removed {
            self.runs.insert(run_id, RunUse::Past);
        }
        if let Some(run_id) = run.added {
            self.runs.insert(run_id, RunUse::Active(queue, key));
            self.new_runs.insert(run_id, key);
        }
    }

    /// Keeps an observation, or deletes one. If only its telemetry is new, only that is written: other servers may report the worker
    /// meanwhile.
    pub(crate) fn save_observation(&mut self, queue: QueueKey, id: WorkerId, observation: Option<&Observation>) {
        let worker = (queue, id);
        let known = self.observations.insert(worker, observation.cloned()).flatten();
        let Some(observation) = observation else {
            self.changed_observations.remove(&worker);
            self.withdrawn_observations.insert(worker);
            return;
        };
        let measured = known.is_some_and(|known| {
            let telemetry = observation.telemetry.clone();
            telemetry != known.telemetry && Observation { telemetry, ..known } == *observation
        });
        let reported = !measured || self.changed_observations.get(&worker).is_some_and(|changed| changed.reported);
        let changed = ChangedObservation { observation: observation.clone(), reported };
        self.changed_observations.insert(worker, changed);
    }

    /// Applies a planned update to what is not in the head of a task.
    pub(crate) fn apply_effect(&mut self, key: TaskKey, update: &Update, effect: Effect, merged: Option<&Documents>) {
        let new = || BulkValues { update: update.clone(), ..BulkValues::default() };
        let values = self.bulk_values.get_or_insert_with(new);
        if let Some(merged) = merged.filter(|_| effect.args || effect.metadata) {
            values.merged.push((key.0, merged.clone()));
        }
        let parts = [
            (update.name.is_some(), &mut values.names),
            (effect.args && merged.is_none(), &mut values.args),
            (effect.metadata && merged.is_none(), &mut values.metadata),
            (effect.result, &mut values.results),
        ];
        parts.into_iter().filter(|(changes, _)| *changes).for_each(|(_, keys)| keys.push(key.0));
    }

    /// Adds a whole row of a task. If the task is held, its heavy part is the one that was locked, and what the commands have
    /// made of its head stays. If it is not held, it is only for reading, and is not found by its id.
    pub(crate) fn add_whole(&mut self, row: &Row) -> StoreResult<TaskKey> {
        let (key, (definition, outcome), identity) = (rows::key(row)?, rows::body(row)?, rows::identity(row)?);
        let entry = match self.tasks.entry(key) {
            Slot::Occupied(known) if known.get().held || known.get().body.is_some() => known.into_mut(),
            // Head and heavy part of one moment.
            Slot::Occupied(mut known) => {
                known.insert(Entry::read(row)?);
                known.into_mut()
            }
            Slot::Vacant(free) => free.insert(Entry::read(row)?),
        };
        entry.identity = Some(identity);
        if entry.body.is_none() {
            entry.body = Some(Body { definition, outcome });
            entry.apply_outcome_to_body();
        }
        Ok(key)
    }

    /// Adds a task that is only read, without its heavy part.
    pub(crate) fn add_read(&mut self, row: &Row) -> StoreResult<()> {
        self.tasks.entry(rows::key(row)?).or_insert(Entry::read(row)?);
        Ok(())
    }

    /// Adds a task that is only read, with its identity.
    pub(crate) fn add_identified(&mut self, row: &Row) -> StoreResult<TaskKey> {
        let (key, identity) = (rows::key(row)?, rows::get(row, rows::LONE_IDENTITY)?);
        self.tasks.entry(key).or_insert(Entry::read(row)?).identity = Some(identity);
        Ok(key)
    }

    /// Adds what the database knows of a run id, unless this transaction has used it.
    pub(crate) fn add_run(&mut self, row: &Row) -> StoreResult<()> {
        let (run_id, usage) = rows::run(row)?;
        let known = self.runs.entry(run_id).or_insert(RunUse::New);
        if *known == RunUse::New {
            *known = usage;
        }
        Ok(())
    }

    /// The run ids of claims that are new.
    pub(crate) fn unused_runs(&self) -> Vec<String> {
        let unused = self.runs.iter().filter(|(_, usage)| **usage == RunUse::New);
        unused.map(|(run_id, _)| run_id.to_string()).collect()
    }

    /// The tasks of repeated claims of which nothing is loaded yet.
    pub(crate) fn unknown_repeated(&self) -> impl Iterator<Item = TaskKey> {
        self.repeated.iter().copied().filter(|key| !self.tasks.contains_key(key))
    }

    /// The tasks that claims want after this one whose heavy part is not loaded yet: the next ones that were picked, or those of
    /// repeated claims for the same route that get their task again. What is refused is never loaded.
    pub(crate) fn next_without_body(&self, key: TaskKey, now: Timestamp) -> Vec<TaskKey> {
        let bare = |other: &TaskKey| *other != key && self.tasks.get(other).is_some_and(|entry| entry.body.is_none());
        if let Some(picks) = self.picks.values().find(|picks| picks.front() == Some(&key)) {
            return picks.iter().copied().filter(bare).collect();
        }
        let Some(wanted) = self.tasks.get(&key) else { return Vec::new() };
        let alike = |entry: &&Entry| {
            let (run, place) = (entry.head.lifecycle.run, (entry.queue, &entry.head.lifecycle.last_route));
            place == (wanted.queue, &wanted.head.lifecycle.last_route)
                && run.is_some_and(|run| !lease::is_over(run.lease_expires_at, now))
        };
        let behind = self.repeated.iter().copied().skip_while(|other| *other != key);
        behind.filter(|other| bare(other) && self.tasks.get(other).filter(alike).is_some()).collect()
    }

    /// After everything was sent: the database holds what is here.
    pub(crate) fn mark_stored(&mut self) {
        self.tasks.retain(|_, entry| !entry.deleted);
        for entry in self.tasks.values_mut() {
            entry.result_bytes = entry.known_result_bytes();
            entry.stored = Some(entry.head.clone());
            (entry.updated, entry.renamed, entry.redefined) = (false, false, false);
            (entry.result, entry.error, entry.last_run) = (None, ErrorChange::Keep, LastRunChange::Keep);
            entry.progress = ProgressChange::Keep;
        }
        self.outputs.clear();
        self.dependencies.mark_stored();
        self.new_queues.clear();
        self.new_runs.clear();
        self.changed_observations.clear();
        self.withdrawn_observations.clear();
        self.bulk_values = None;
    }

    /// Forgets the tasks. All of them are stored.
    pub(crate) fn forget_tasks(&mut self) {
        self.dependencies.forget(|task| self.ids.contains_key(task));
        self.tasks.clear();
        self.ids.clear();
        self.picks.clear();
        self.outputs.clear();
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::definition::Definition;
    use taskqueue_core::task::Lifecycle;
    use taskqueue_store::conformance::commands::{queue, route, task_id};

    use super::*;

    const QUEUE: QueueKey = QueueKey(7);

    fn entry(key: TaskKey, status: Status, held: bool) -> Entry {
        let task = Task {
            queue: queue("q"),
            id: task_id(key.0),
            definition: Definition::default(),
            lifecycle: Lifecycle { status, ..Lifecycle::created(Timestamp::default(), key.0) },
            outcome: Outcome::empty(),
        };
        Entry { held, ..Entry::loaded(QUEUE, task.head()) }
    }

    /// I13: another server may have requeued a task since it was read, and then a claim must not be told that there is nothing.
    #[test]
    fn a_task_that_was_only_read_may_be_claimable_again() {
        let mut rows = TransactionRows::default();
        for (key, status, held) in [
            (1, Status::Running, true),
            (2, Status::Running, false),
            (3, Status::Pending, true),
            (4, Status::Pending, false),
            (5, Status::Pending, true),
        ] {
            rows.tasks.insert(TaskKey(key), entry(TaskKey(key), status, held));
        }
        rows.picks.insert((QUEUE, route("default")), [TaskKey(5)].into());
        let mut ours = rows.unready_or_picked(QUEUE, &route("default"), Timestamp::default());
        ours.sort_unstable();
        assert_eq!(ours, [1, 5], "claimed here, and held for a claim");
    }
}
