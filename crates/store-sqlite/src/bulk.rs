//! The two steps of a bulk update on the file: a reader makes the plan in a snapshot of its own; the writer, the only one who
//! changes anything, notes meanwhile which tasks of the queue it changes. The steps themselves are in `store::bulk`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::filter::{TaskFields, TaskFilter};
use taskqueue_core::ids::QueueName;
use taskqueue_core::task::{Status, Task};
use taskqueue_store::StoreError;
use taskqueue_store::bulk::{Limit, Plan, Planned, Planner, REDECIDED, SharedPlan, TwoSteps, planned};
use taskqueue_store::command::{Answer, BulkUpdate};
use taskqueue_store::transaction::{QueueKey, TaskKey};

use crate::each_row::GO_ON;
use crate::readers::{Lane, ReadError};
use crate::reads::{all_tasks_statement, existing_queue};
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::statements as sql;
use crate::write_queue::Threads;

/// Tasks that a watch notes at most; with more of them the plan is made anew. About 3 MiB.
const NOTED: usize = 65_536;

/// What a transaction has changed.
#[derive(Default)]
pub(crate) struct Touched {
    keys: Vec<(QueueKey, TaskKey)>,
    too_many: bool,
}

impl Touched {
    /// A task was created, changed or deleted.
    pub(crate) fn add(&mut self, queue: QueueKey, key: TaskKey) {
        if self.too_many || self.keys.len() >= NOTED {
            *self = Self { keys: Vec::new(), too_many: true };
        } else {
            self.keys.push((queue, key));
        }
    }
}

/// Notes what changes in one queue, from before a snapshot on.
pub(crate) struct Watch {
    queue: QueueKey,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    keys: BTreeSet<TaskKey>,
    too_many: bool,
}

impl Watch {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, touched: &Touched) {
        let mut noted = self.noted();
        noted.too_many |= touched.too_many;
        for (_, key) in touched.keys.iter().filter(|(queue, _)| *queue == self.queue) {
            noted.keys.insert(*key);
        }
        noted.too_many |= noted.keys.len() > NOTED;
        if noted.too_many {
            noted.keys.clear();
        }
    }

    /// What was noted since this was last called; nothing if that is too much.
    pub(crate) fn take(&self) -> Option<Vec<TaskKey>> {
        let mut noted = self.noted();
        (!noted.too_many).then(|| std::mem::take(&mut noted.keys).into_iter().collect())
    }

    /// What is noted is of no use any more.
    pub(crate) fn lose(&self) {
        self.note(&Touched { keys: Vec::new(), too_many: true });
    }

    /// Whether so little was noted that the write can decide it again.
    pub(crate) fn is_few(&self) -> bool {
        let noted = self.noted();
        !noted.too_many && noted.keys.len() <= REDECIDED
    }
}

/// The watches of the plans under way.
#[derive(Default)]
pub(crate) struct Watches(Mutex<Vec<Weak<Watch>>>);

impl Watches {
    /// Watches a queue from now on, until the watch is dropped. A snapshot that is taken later sees everything that is not
    /// noted: the writer notes what it changed right after the commit.
    fn add(&self, queue: QueueKey) -> Arc<Watch> {
        let watch = Arc::new(Watch { queue, noted: Mutex::default() });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watch));
        watch
    }

    /// A transaction was committed that changed this.
    pub(crate) fn note(&self, touched: &Touched) {
        let mut watches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|watch| watch.upgrade().inspect(|watch| watch.note(touched)).is_some());
    }

    /// Nobody knows what was changed.
    pub(crate) fn lose(&self) {
        self.note(&Touched { keys: Vec::new(), too_many: true });
    }
}

/// A plan on its way to the writer.
pub(crate) struct PlannedWrite {
    pub(crate) plan: SharedPlan<Arc<Watch>>,
    pub(crate) limit: Limit,
}

/// What bulk updates need of a store.
pub(crate) struct Steps<'a> {
    pub(crate) threads: &'a Threads,
    pub(crate) watches: &'a Watches,
}

#[async_trait]
impl TwoSteps for Steps<'_> {
    type Snapshot = Arc<Watch>;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> Result<Planned<Arc<Watch>>, StoreError> {
        let (readers, name) = (&self.threads.readers, bulk.queue.clone());
        let find = move |file: &Snapshot<'_>| existing_queue(file, &name);
        let queue = readers.read(Lane::Short, "finding a queue", find).await?;
        // In this order: what the snapshot does not see is noted.
        let watch = self.watches.add(queue);
        let (bulk, limit) = (Arc::clone(bulk), limit.clone());
        let plan = move |file: &Snapshot<'_>| make_plan(file, queue, &bulk, &limit);
        let plan = readers.read(Lane::Long, "planning", plan).await?;
        Ok(Planned::new(plan, watch))
    }

    async fn catch_up(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Arc<Watch>>,
        limit: &Limit,
    ) -> Result<(), StoreError> {
        let changed = planned(plan).snapshot.take();
        let Some(keys) = changed else {
            return self.plan_anew(bulk, plan, limit).await;
        };
        // The snapshot comes after the taking: whatever changes from now on is noted again.
        let (bulk, plan, limit) = (Arc::clone(bulk), Arc::clone(plan), limit.clone());
        let again = move |file: &Snapshot<'_>| plan_again(file, &keys, &bulk, &mut planned(&plan).plan, &limit);
        self.threads.readers.read(Lane::Long, "planning again", again).await
    }

    async fn write_plan(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Arc<Watch>>,
        limit: &Limit,
    ) -> Result<Answer, StoreError> {
        self.threads.write_plan(bulk, PlannedWrite { plan: Arc::clone(plan), limit: limit.of_write() }).await
    }
}

/// The one entry of the first step: looks at every task of the queue in the snapshot that `file` is in.
fn make_plan(file: &Snapshot<'_>, queue: QueueKey, bulk: &BulkUpdate, limit: &Limit) -> Result<Plan, ReadError> {
    if existing_queue(file, &bulk.queue)? != queue {
        // It was deleted and made again a moment ago.
        return Err(StoreError::Busy.into());
    }
    let mut planner = Planner::new(queue, &bulk.update);
    let visited =
        visit_matching(file, (queue, &bulk.queue), &bulk.filter, limit, &mut |key, task| planner.decide(key, task))?;
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

/// The tasks of a queue that match and are not running, until `each` says stop. Breaks when the limit is over.
pub(crate) fn visit_matching(
    file: &Snapshot<'_>,
    (queue, name): (QueueKey, &QueueName),
    filter: &TaskFilter,
    limit: &Limit,
    each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
) -> Result<ControlFlow<()>, ReadError> {
    let statement = all_tasks_statement(file.connection, queue, true)?;
    let mut over = false;
    file.each_row(statement, [queue.0], |row| {
        over = limit.is_over();
        let fields = RowFields(row);
        if over {
            return Ok(ControlFlow::Break(()));
        }
        if fields.status() == Status::Running || !filter.matches(&fields) {
            return Ok(GO_ON);
        }
        Ok(each(rows::key(row)?, &rows::task(row, name)?))
    })?;
    Ok(if over { ControlFlow::Break(()) } else { GO_ON })
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

    fn touched(keys: impl IntoIterator<Item = (i64, i64)>) -> Touched {
        let mut touched = Touched::default();
        keys.into_iter().for_each(|(queue, key)| touched.add(QueueKey(queue), TaskKey(key)));
        touched
    }

    #[test]
    fn a_watch_notes_what_changes_in_its_queue_once() {
        let watches = Watches::default();
        let watch = watches.add(QueueKey(1));
        watches.note(&touched([(1, 5), (2, 6), (1, 4), (1, 5)]));
        assert!(watch.is_few());
        assert_eq!(watch.take(), Some(vec![TaskKey(4), TaskKey(5)]));
        assert_eq!(watch.take(), Some(vec![]));
        watches.note(&touched([(1, 5)]));
        assert_eq!(watch.take(), Some(vec![TaskKey(5)]));
    }

    #[test]
    fn a_write_decides_few_tasks_again_and_not_more() {
        let watches = Watches::default();
        let watch = watches.add(QueueKey(1));
        watches.note(&touched((0..REDECIDED as i64).map(|key| (1, key))));
        assert!(watch.is_few());
        watches.note(&touched([(1, -1)]));
        assert!(!watch.is_few());
        assert_eq!(watch.take().unwrap().len(), REDECIDED + 1);
    }

    #[test]
    fn more_than_is_noted_makes_a_new_plan_necessary() {
        let watches = Watches::default();
        let watch = watches.add(QueueKey(1));
        watches.note(&touched((0..=NOTED as i64).map(|key| (2, key))));
        assert_eq!((watch.take(), watch.is_few()), (None, false), "of any queue: nobody kept which");
        let watch = watches.add(QueueKey(1));
        watches.note(&touched((0..NOTED as i64).map(|key| (1, key))));
        watches.note(&touched([(1, -1)]));
        assert_eq!(watch.take(), None);
        let watch = watches.add(QueueKey(1));
        watches.lose();
        assert_eq!(watch.take(), None);
    }

    #[test]
    fn a_watch_that_is_dropped_costs_nothing_any_more() {
        let watches = Watches::default();
        drop(watches.add(QueueKey(1)));
        watches.note(&Touched::default());
        assert_eq!(watches.0.lock().unwrap().len(), 0);
    }
}
