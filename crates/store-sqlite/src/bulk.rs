//! The two steps of a bulk update on the file: a reader makes the plan in a snapshot of its own; meanwhile the writer, which
//! alone changes anything, records which tasks of the queue it changes. The order of the steps is in `store::bulk`.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::ids::QueueName;
use taskqueue_core::task::Task;
use taskqueue_store::StoreError;
use taskqueue_store::bulk::{BulkSteps, Limit, Plan, Planned, PlannedWrite, Planner, REDECIDED, SharedPlan, planned};
use taskqueue_store::bulk_action::{ChangeRecord, FoundTask};
use taskqueue_store::command::{BulkUpdate, Updated};
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::write_queue::WriteQueue;

use crate::each_row::CONTINUE;
use crate::readers::{Lane, ReadError, Readers};
use crate::reads::{existing_queue, queue_share};
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::statements as sql;

/// Tasks that a tracker records at most; with more of them a new plan is made. About 3 MiB.
const RECORDED: usize = 65_536;

/// The tasks that a transaction has created, changed or deleted.
#[derive(Default)]
pub(crate) struct ChangedTasks {
    keys: Vec<(QueueKey, TaskKey)>,
    too_many: bool,
}

impl ChangedTasks {
    const UNKNOWN: Self = Self { keys: Vec::new(), too_many: true };

    pub(crate) fn add(&mut self, queue: QueueKey, key: TaskKey) {
        if self.too_many || self.keys.len() >= RECORDED {
            *self = Self::UNKNOWN;
        } else {
            self.keys.push((queue, key));
        }
    }

    /// Those of the keys that may be among them.
    pub(crate) fn among(&self, keys: &HashSet<TaskKey>) -> HashSet<TaskKey> {
        match self.too_many {
            true => keys.clone(),
            false => self.keys.iter().map(|(_, key)| *key).filter(|key| keys.contains(key)).collect(),
        }
    }
}

/// Records what changes in one queue, from before a snapshot on.
#[derive(Debug)]
pub(crate) struct ChangeTracker {
    queue: QueueKey,
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    keys: BTreeSet<TaskKey>,
    too_many: bool,
}

impl ChangeTracker {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, changed: &ChangedTasks) {
        let mut recorded = self.recorded();
        recorded.too_many |= changed.too_many;
        recorded.keys.extend(changed.keys.iter().filter(|(queue, _)| *queue == self.queue).map(|(_, key)| key));
        recorded.too_many |= recorded.keys.len() > RECORDED;
        if recorded.too_many {
            recorded.keys.clear();
        }
    }

    /// What was recorded since this was last called; nothing if that is too much.
    pub(crate) fn take(&self) -> Option<Vec<TaskKey>> {
        let mut recorded = self.recorded();
        (!recorded.too_many).then(|| std::mem::take(&mut recorded.keys).into_iter().collect())
    }

    /// Whether so little was recorded that the write can decide it again.
    pub(crate) fn is_few(&self) -> bool {
        let recorded = self.recorded();
        !recorded.too_many && recorded.keys.len() <= REDECIDED
    }
}

/// For bulk actions, whose tasks are done one portion after the other.
impl ChangeRecord for ChangeTracker {
    fn may_have_changed(&self, key: TaskKey) -> bool {
        let recorded = self.recorded();
        recorded.too_many || recorded.keys.contains(&key)
    }

    fn forget(&self, tasks: &[FoundTask]) {
        let mut recorded = self.recorded();
        for task in tasks {
            recorded.keys.remove(&task.key);
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
        let tracker = Arc::new(ChangeTracker { queue, recorded: Mutex::default() });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&tracker));
        tracker
    }

    /// A transaction was committed that changed these.
    pub(crate) fn record(&self, changed: &ChangedTasks) {
        let mut trackers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trackers.retain(|tracker| tracker.upgrade().inspect(|tracker| tracker.record(changed)).is_some());
    }

    /// It is not known what was changed.
    pub(crate) fn invalidate(&self) {
        self.record(&ChangedTasks::UNKNOWN);
    }
}

/// Where the two steps run.
pub(crate) struct Steps<'a> {
    pub(crate) readers: &'a Readers,
    pub(crate) queue: &'a WriteQueue<Arc<ChangeTracker>>,
    pub(crate) trackers: &'a ChangeTrackers,
}

#[async_trait]
impl BulkSteps for Steps<'_> {
    type Snapshot = Arc<ChangeTracker>;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> Result<Planned<Arc<ChangeTracker>>, StoreError> {
        let name = bulk.queue.clone();
        let find = move |file: &Snapshot<'_>| existing_queue(file, &name);
        let queue = self.readers.read(Lane::Short, "finding a queue", find).await?;
        // In this order: what the snapshot does not see is recorded.
        let tracker = self.trackers.add(queue);
        let (bulk, limit) = (Arc::clone(bulk), limit.clone());
        let plan = move |file: &Snapshot<'_>| make_plan(file, queue, &bulk, &limit);
        let plan = self.readers.read(Lane::Long, "planning", plan).await?;
        Ok(Planned::new(plan, tracker))
    }

    async fn catch_up(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Arc<ChangeTracker>>,
        limit: &Limit,
    ) -> Result<(), StoreError> {
        let changed = planned(plan).snapshot.take();
        let Some(keys) = changed else {
            return self.replan(bulk, plan, limit).await;
        };
        // The snapshot is taken after this: what changes from now on is recorded again.
        let (bulk, plan, limit) = (Arc::clone(bulk), Arc::clone(plan), limit.clone());
        let again = move |file: &Snapshot<'_>| plan_again(file, &keys, &bulk, &mut planned(&plan).plan, &limit);
        self.readers.read(Lane::Long, "planning again", again).await
    }

    async fn write_plan(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: PlannedWrite<Arc<ChangeTracker>>,
    ) -> Result<Updated, StoreError> {
        self.queue.write_bulk(Arc::clone(bulk), Some(plan)).await
    }
}

/// The first step: reads every task of the queue in the snapshot that `file` is in.
fn make_plan(file: &Snapshot<'_>, queue: QueueKey, bulk: &BulkUpdate, limit: &Limit) -> Result<Plan, ReadError> {
    if existing_queue(file, &bulk.queue)? != queue {
        // It was deleted and created again a moment ago.
        return Err(StoreError::Busy.into());
    }
    let mut planner = Planner::new(queue, &bulk.update);
    let visited = visit_matching(file, queue, bulk, limit, &mut |key, task| planner.decide(key, task))?;
    if visited.is_break() {
        return Err(StoreError::Busy.into());
    }
    Ok(planner.finish()?)
}

fn plan_again(
    file: &Snapshot<'_>,
    keys: &[TaskKey],
    bulk: &BulkUpdate,
    plan: &mut Plan,
    limit: &Limit,
) -> Result<(), ReadError> {
    for key in keys {
        if limit.is_over() {
            return Err(StoreError::Busy.into());
        }
        file.yield_if_due()?;
        let task = load_existing(file.connection, (plan.queue(), &bulk.queue), *key)?;
        let found: Vec<_> = task.map(|task| (*key, task)).into_iter().collect();
        plan.decide_again(bulk, &[*key], &found).map_err(StoreError::from)?;
    }
    Ok(())
}

/// The tasks of a queue that a bulk update selects, until `each` breaks. Breaks when the limit is over.
pub(crate) fn visit_matching(
    file: &Snapshot<'_>,
    queue: QueueKey,
    bulk: &BulkUpdate,
    limit: &Limit,
    each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
) -> Result<ControlFlow<()>, ReadError> {
    let statement = queue_share(file.connection, queue)?.visit_statement(true);
    let mut over = false;
    file.each_row(statement, [queue.0], |row| {
        over = limit.is_over();
        if over {
            return Ok(ControlFlow::Break(()));
        }
        if !bulk.selects(&RowFields::new(row)) {
            return Ok(CONTINUE);
        }
        Ok(each(rows::key(row)?, &rows::task(row, &bulk.queue)?))
    })?;
    Ok(if over { ControlFlow::Break(()) } else { CONTINUE })
}

/// A task of a queue, if it exists. A key may have been given to a task of another queue since.
pub(crate) fn load_existing(
    file: &Connection,
    (queue, name): (QueueKey, &QueueName),
    key: TaskKey,
) -> rusqlite::Result<Option<Task>> {
    let mut statement = file.prepare_cached(&sql::LOAD_TASK_OF_QUEUE)?;
    statement.query_row(params![key.0, queue.0], |row| rows::task(row, name)).optional()
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
        assert_eq!(trackers.0.lock().unwrap().len(), 0);
    }
}
