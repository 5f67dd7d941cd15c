//! The two steps of a bulk update on the file: a reader makes the plan in a snapshot of its own; meanwhile the writer, which
//! alone changes anything, records which tasks of the queue it changes. The steps themselves are in
//! `store::bulk`.
//!
//! A bulk action finds its tasks by reads: the first one goes the cheapest way (`sparse_reads.rs`) and counts all; a later one goes
//! on in the order of the keys. The steps of the action are in `store::bulk_action`.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::params;
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::sparse::Need;
use taskqueue_core::update::Effect;
use taskqueue_core::{Documents, QueueName, Task, TaskHead, Update};
use taskqueue_store::bulk::{BulkSteps, Limit, Plan, Planned, PlannedWrite, Planner, REDECIDED, SharedPlan};
use taskqueue_store::bulk_action::{ChangeRecord, Collector, FindTasks, FoundState, FoundTask, FoundTasks, KeyRange};
use taskqueue_store::transaction::{BatchTransaction, Loaded, Queue, QueueKey, TaskKey, Transaction, VisitTask};
use taskqueue_store::{ActOnTasks, BulkUpdate, StoreError, StoreResult, Updated};

use crate::queries::{CONTINUE, NextRow, Read, Snapshot, first_row};
use crate::readers::Lane;
use crate::rows::RowFields;
use crate::sparse_reads::{self, each_selected, queue_share};
use crate::transaction::SqliteTransaction;
use crate::{SqliteStore, rows, statements as sql};

#[async_trait]
impl BulkSteps for SqliteStore {
    type Snapshot = Arc<ChangeTracker>;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> StoreResult<Planned<Arc<ChangeTracker>>> {
        let queue = self.threads.readers.find_queue(&bulk.queue).await?;
        // In this order: what the snapshot does not see is recorded.
        let tracker = self.shared.trackers.add(queue);
        let (bulk, limit) = (Arc::clone(bulk), limit.clone());
        let plan = move |file: &Snapshot<'_>| make_plan(file, queue, &bulk, &limit);
        let plan = self.threads.readers.read(Lane::Long, "planning", plan).await?;
        Ok(Planned::new(plan, tracker))
    }

    async fn catch_up(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Arc<ChangeTracker>>,
        limit: &Limit,
    ) -> StoreResult<()> {
        let changed = plan.lock().snapshot.take();
        let Some(keys) = changed else {
            return self.replan(bulk, plan, limit).await;
        };
        // The snapshot is taken after this: what changes from now on is recorded again.
        let (bulk, plan, limit) = (Arc::clone(bulk), Arc::clone(plan), limit.clone());
        let again = move |file: &Snapshot<'_>| plan_again(file, &keys, &bulk, &mut plan.lock().plan, &limit);
        self.threads.readers.read(Lane::Long, "planning again", again).await
    }

    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite<Arc<ChangeTracker>>) -> StoreResult<Updated> {
        self.threads.queue.write_bulk(Arc::clone(bulk), Some(plan)).await
    }
}

/// The first step: reads every task of the queue in the snapshot that `file` is in.
fn make_plan(file: &Snapshot<'_>, queue: QueueKey, bulk: &BulkUpdate, limit: &Limit) -> Read<Plan> {
    if file.existing_queue(&bulk.queue)? != queue {
        // It was deleted and created again a moment ago.
        return Err(StoreError::Busy.into());
    }
    let mut planner = Planner::new(queue, &bulk.update);
    visit_matching(file, queue, bulk, limit, &mut |key, task| planner.decide(key, task))?;
    Ok(planner.finish()?)
}

fn plan_again(file: &Snapshot<'_>, keys: &[TaskKey], bulk: &BulkUpdate, plan: &mut Plan, limit: &Limit) -> Read<()> {
    for key in keys {
        if limit.is_over() {
            return Err(StoreError::Busy.into());
        }
        file.yield_if_due()?;
        let task = load_existing(file, (plan.queue, &bulk.queue), *key)?;
        let found: Vec<_> = task.map(|task| (*key, task)).into_iter().collect();
        plan.decide_again(bulk, &[*key], &found).map_err(StoreError::from)?;
    }
    Ok(())
}

/// Passes the tasks of a queue that a bulk update selects to `each`, until it breaks. Fails as busy when the limit is over.
fn visit_matching(
    file: &Snapshot<'_>,
    queue: QueueKey,
    bulk: &BulkUpdate,
    limit: &Limit,
    each: VisitTask<'_>,
) -> Read<()> {
    let statement = queue_share(file, queue)?.visit_statement(true);
    let mut over = false;
    file.each_row(statement, [queue.0], |row| {
        over = limit.is_over();
        if over {
            return Ok(NextRow::Break(()));
        }
        if !bulk.selection.matches(&RowFields::new(row)) {
            return Ok(CONTINUE);
        }
        Ok(each(rows::key(row)?, &rows::task(row, &bulk.queue)?))
    })?;
    if over { Err(StoreError::Busy.into()) } else { Ok(()) }
}

/// Returns a task of a queue, if it exists. A key may have been given to a task of another queue since.
fn load_existing(file: &Snapshot<'_>, (queue, name): (QueueKey, &QueueName), key: TaskKey) -> Read<Option<Task>> {
    let values = params![key.0, queue.0];
    Ok(first_row(file.connection, &sql::LOAD_TASK_OF_QUEUE, values, |row| rows::task(row, name))?)
}

#[async_trait]
impl FindTasks for SqliteStore {
    async fn find_tasks(&self, act: &Arc<ActOnTasks>, range: Option<KeyRange>, most: usize) -> StoreResult<FoundTasks> {
        let queue = self.threads.readers.find_queue(&act.queue).await?;
        // In this order: what the snapshot does not see is recorded.
        let tracker = self.shared.trackers.add(queue);
        let (act, index) = (Arc::clone(act), Arc::clone(&self.shared.published_index));
        let find = move |file: &Snapshot<'_>| {
            let (selection, mut collector) = (&act.selection, Collector::up_to(most));
            let Some(KeyRange { after, until }) = range else {
                let begun = sparse_reads::begin(file, &index, &act.queue, selection, Need::All)?;
                if begun.key != queue {
                    // It was deleted and created again a moment ago.
                    return Err(StoreError::Busy.into());
                }
                each_selected(file, &begun, selection, |row, _| {
                    collector.add(FoundTask { key: rows::key(row)?, version: 0 });
                    Ok(())
                })?;
                return Ok(collector);
            };
            let reads = selection.filter.as_ref().map(TaskFilter::reads).unwrap_or_default();
            let statement = sql::SCAN_TASKS_BETWEEN.choose(reads.definition || reads.outcome);
            file.each_row(statement, params![queue.0, after.0, until.0], |row| {
                if selection.matches(&RowFields::new(row)) {
                    collector.add(FoundTask { key: rows::key(row)?, version: 0 });
                }
                Ok(if collector.is_full() { NextRow::Break(()) } else { CONTINUE })
            })?;
            Ok(collector)
        };
        let collector = self.threads.readers.read(Lane::Long, "finding tasks", find).await?;
        Ok(collector.finish(queue, Some(tracker)))
    }
}

impl BatchTransaction for SqliteTransaction<'_> {
    type Snapshot = Arc<ChangeTracker>;

    /// Nothing changes until the write is done, because nobody else writes.
    fn changed_since(&mut self, planned: &Planned<Arc<ChangeTracker>>) -> Loaded<Option<Vec<TaskKey>>> {
        let tracker = &planned.snapshot;
        Ok(if tracker.is_few() { tracker.take() } else { None })
    }

    fn visit_matching(
        &mut self,
        queue: Queue<'_>,
        bulk: &BulkUpdate,
        limit: &Limit,
        each: VisitTask<'_>,
    ) -> Loaded<()> {
        visit_matching(&self.snapshot(), queue.key, bulk, limit, each)
            .map_err(|error| error.into_store_error("filtering tasks"))
    }

    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        let load = |key: &TaskKey| load_existing(&self.snapshot(), (queue.key, queue.name), *key);
        let found = keys.iter().map(|key| Ok(load(key)?.map(|task| (*key, task)))).collect::<Read<Vec<_>>>();
        let found = found.map_err(|error| error.into_store_error("loading a task"))?;
        Ok(found.into_iter().flatten().collect())
    }

    fn load_found(
        &mut self,
        _: QueueKey,
        found: &[FoundTask],
        changes: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, FoundState)>> {
        let keys: HashSet<TaskKey> = found.iter().map(|found| found.key).collect();
        // What this transaction has changed is recorded after its end.
        let changed_here = self.changed_tasks.among(&keys);
        let now = |found: &FoundTask| {
            let is_recorded = found.version != FoundTask::UNRECORDED;
            let may_have_changed = changes.is_none_or(|changes| changes.may_have_changed(found.key));
            let now = match may_have_changed || !is_recorded || changed_here.contains(&found.key) {
                true => FoundState::Changed,
                false => FoundState::Unchanged(self.load_head(found.key)?),
            };
            Ok((*found, now))
        };
        found.iter().map(now).collect()
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        keys.iter().map(|key| Ok((*key, self.load_own_documents(*key)?))).collect()
    }

    fn save_effect(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        heads: (&TaskHead, &TaskHead),
        update: &Update,
        effect: Effect,
        merged: Option<&Documents>,
    ) -> Loaded<()> {
        // At each task of a bulk update; for other commands the writer has looked.
        if update.routes.is_some() && !self.claim_index.has_room(queue, 0, 0) {
            return Err(StoreError::Busy);
        }
        let args = merged.map(|merged| &merged.args).or(update.args.as_ref());
        let metadata = merged.map(|merged| &merged.metadata).or(update.metadata.as_ref());
        let changed = Update {
            name: update.name.clone(),
            args: args.filter(|_| effect.args).cloned(),
            metadata: metadata.filter(|_| effect.metadata).cloned(),
            result: update.result.clone().filter(|_| effect.result),
            ..Update::default()
        };
        self.save_updated(queue, key, heads, &changed)
    }
}

// Which tasks the writer changes while a read looks at a snapshot: what a plan or a list of found tasks does not know of.

/// Tasks that a tracker records at most; with more of them a new plan is made. About 3 MiB.
const RECORDED: usize = 65_536;

/// The tasks that a transaction has created, changed or deleted; `None` if there are too many.
pub(crate) struct ChangedTasks(Option<Vec<(QueueKey, TaskKey)>>);

impl Default for ChangedTasks {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl ChangedTasks {
    pub(crate) fn add(&mut self, queue: QueueKey, key: TaskKey) {
        match &mut self.0 {
            Some(keys) if keys.len() < RECORDED => keys.push((queue, key)),
            _ => self.0 = None,
        }
    }

    /// Returns those of the keys that may be among them.
    pub(crate) fn among(&self, keys: &HashSet<TaskKey>) -> HashSet<TaskKey> {
        match &self.0 {
            None => keys.clone(),
            Some(changed) => changed.iter().map(|(_, key)| *key).filter(|key| keys.contains(key)).collect(),
        }
    }
}

/// Records what changes in one queue, from before a snapshot on.
#[derive(Debug)]
pub struct ChangeTracker {
    queue: QueueKey,
    /// `None` if there were too many.
    recorded: Mutex<Option<BTreeSet<TaskKey>>>,
}

impl ChangeTracker {
    fn record(&self, changed: &ChangedTasks) {
        let mut recorded = self.recorded.lock();
        let all = recorded.take().zip(changed.0.as_ref()).map(|(mut keys, changed)| {
            keys.extend(changed.iter().filter(|(queue, _)| *queue == self.queue).map(|(_, key)| key));
            keys
        });
        *recorded = all.filter(|keys| keys.len() <= RECORDED);
    }

    /// Returns what was recorded since this was last called; nothing if that is too much.
    pub(crate) fn take(&self) -> Option<Vec<TaskKey>> {
        self.recorded.lock().as_mut().map(|keys| std::mem::take(keys).into_iter().collect())
    }

    /// Returns whether so little was recorded that the write can decide it again.
    pub(crate) fn is_few(&self) -> bool {
        self.recorded.lock().as_ref().is_some_and(|keys| keys.len() <= REDECIDED)
    }
}

/// For bulk actions, whose tasks are done one portion after the other.
impl ChangeRecord for ChangeTracker {
    fn may_have_changed(&self, key: TaskKey) -> bool {
        self.recorded.lock().as_ref().is_none_or(|keys| keys.contains(&key))
    }

    fn forget(&self, tasks: &[FoundTask]) {
        if let Some(keys) = &mut *self.recorded.lock() {
            for task in tasks {
                keys.remove(&task.key);
            }
        }
    }
}

/// The trackers of the plans that are being made or written, and of the bulk actions under way.
#[derive(Default)]
pub(crate) struct ChangeTrackers(Mutex<Vec<Weak<ChangeTracker>>>);

impl ChangeTrackers {
    /// Tracks a queue from now on, until the tracker is dropped. A snapshot that is taken later sees everything that is not
    /// recorded: the writer records what it changed right after the commit.
    pub(crate) fn add(&self, queue: QueueKey) -> Arc<ChangeTracker> {
        let tracker = Arc::new(ChangeTracker { queue, recorded: Mutex::new(Some(BTreeSet::new())) });
        self.0.lock().push(Arc::downgrade(&tracker));
        tracker
    }

    /// A transaction was committed that changed these.
    pub(crate) fn record(&self, changed: &ChangedTasks) {
        let mut trackers = self.0.lock();
        trackers.retain(|tracker| tracker.upgrade().inspect(|tracker| tracker.record(changed)).is_some());
    }

    /// It is not known what was changed.
    pub(crate) fn invalidate(&self) {
        self.record(&ChangedTasks(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(keys: impl IntoIterator<Item = (i64, i64)>) -> ChangedTasks {
        let mut changed = ChangedTasks::default();
        keys.into_iter().for_each(|(queue, key)| changed.add(QueueKey(queue), TaskKey(key)));
        changed
    }

    #[test]
    fn a_tracker_records_what_changes_in_its_queue_once() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed([(1, 5), (2, 6), (1, 4), (1, 5)]));
        assert!(tracker.is_few());
        assert_eq!(tracker.take(), Some(vec![TaskKey(4), TaskKey(5)]));
        assert_eq!(tracker.take(), Some(vec![]));
        trackers.record(&changed([(1, 5)]));
        assert_eq!(tracker.take(), Some(vec![TaskKey(5)]));
    }

    #[test]
    fn a_write_decides_few_tasks_again_and_not_more() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..REDECIDED as i64).map(|key| (1, key))));
        assert!(tracker.is_few());
        trackers.record(&changed([(1, -1)]));
        assert!(!tracker.is_few());
        assert_eq!(tracker.take().unwrap().len(), REDECIDED + 1);
    }

    #[test]
    fn more_than_is_recorded_makes_a_new_plan_necessary() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..=RECORDED as i64).map(|key| (2, key))));
        assert_eq!((tracker.take(), tracker.is_few()), (None, false), "of any queue: it is not known which");
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..RECORDED as i64).map(|key| (1, key))));
        trackers.record(&changed([(1, -1)]));
        assert_eq!(tracker.take(), None);
        let tracker = trackers.add(QueueKey(1));
        trackers.invalidate();
        assert_eq!(tracker.take(), None);
    }

    #[test]
    fn a_tracker_that_is_dropped_costs_nothing_any_more() {
        let trackers = ChangeTrackers::default();
        drop(trackers.add(QueueKey(1)));
        trackers.record(&ChangedTasks::default());
        assert_eq!(trackers.0.lock().len(), 0);
    }
}
