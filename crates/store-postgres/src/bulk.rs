//! The two steps of a bulk update on PostgreSQL: a long read makes the plan in a snapshot (`long_reader.rs`); the writer
//! of long commands, which has the queue alone then, finds the rows that were written since by the numbers of their
//! transactions. No clock is trusted, and every server's writes count. The steps themselves are in `store::bulk`.
//!
//! A bulk action finds its tasks by a read besides the writers, together with the versions of their rows. When a writer has
//! locked them later, an equal version tells that nobody has changed them. The steps of the action are in `store::bulk_action`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join;
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::sparse::Need;
use taskqueue_core::update::Effect;
use taskqueue_core::{Documents, Refusal, Task, TaskHead, Update};
use taskqueue_store::bulk::{BulkSteps, Limit, Planned, PlannedWrite, Planner, REDECIDED};
use taskqueue_store::bulk_action::{ChangeRecord, Collector, FindTasks, FoundState, FoundTask, FoundTasks, KeyRange};
use taskqueue_store::transaction::{BatchTransaction, Loaded, Queue, QueueKey, TaskKey, VisitTask};
use taskqueue_store::{ActOnTasks, BulkUpdate, StoreError, StoreResult, Updated};
use tokio_postgres::types::{ToSql, Type};

use crate::dialect::{self, order};
use crate::long_reader::Snapshot;
use crate::readers::{Read, ReadError, in_snapshot};
use crate::reads::{condition_among, existing_queue, few_keys, stream};
use crate::rows::RowFields;
use crate::session::{Param, Session};
use crate::transaction::PostgresTransaction;
use crate::{PostgresStore, rows, statements as sql};

/// Tasks that are looked for at a time.
const LOOKED_FOR_AT_ONCE: usize = 10_000;
/// What lets the planner read a table from its beginning to its end, and forbids it again.
const SCANS: (&str, &str) = ("SET LOCAL enable_seqscan = on", "SET LOCAL enable_seqscan = off");

/// Which transactions a snapshot sees, as the database writes it.
pub(crate) type SnapshotId = String;

#[async_trait]
impl BulkSteps for PostgresStore {
    type Snapshot = SnapshotId;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> StoreResult<Planned<SnapshotId>> {
        let (bulk, limit) = (Arc::clone(bulk), limit.clone());
        let plan = async move |snapshot: &Snapshot<'_>| make_plan(snapshot, &bulk, &limit).await;
        self.readers.read_long("planning a bulk update", plan).await
    }

    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite<SnapshotId>) -> StoreResult<Updated> {
        self.writers.long.write_bulk(Arc::clone(bulk), Some(plan)).await
    }
}

/// Whether the database can tell what was written since a snapshot. Engines that only resemble PostgreSQL may not; there a
/// bulk update is one step.
pub(crate) async fn can_plan(session: &Session) -> bool {
    let snapshot = session.client().query_typed("SELECT pg_current_snapshot()::text", &[]).await;
    let Some(Ok(snapshot)) = snapshot.ok().and_then(|rows| Some(rows.first()?.try_get::<_, String>(0))) else {
        return false;
    };
    session.query(&sql::LIST_CHANGED, &[&0_i64, &snapshot, &1_i64]).await.is_ok()
}

/// The first step: reads every task of the queue in a snapshot.
async fn make_plan(snapshot: &Snapshot<'_>, bulk: &BulkUpdate, limit: &Limit) -> Read<Planned<SnapshotId>> {
    let session = snapshot.session;
    let row = in_snapshot(session, session.first(&sql::TAKE_SNAPSHOT, &[&bulk.queue.as_str()])).await?;
    let (seen, queue) = match row {
        Some(row) => (row.try_get::<_, SnapshotId>(0)?, row.try_get::<_, Option<i64>>(1)?.map(QueueKey)),
        None => (SnapshotId::new(), None),
    };
    let missing = || StoreError::Refused(Refusal::QueueNotFound { queue: bulk.queue.clone() });
    let queue = queue.ok_or_else(missing)?;
    let mut planner = Planner::new(queue, &bulk.update);
    visit_matching(snapshot, queue, bulk, limit, &mut |key, task| planner.decide(key, task)).await?;
    Ok(Planned::new(planner.finish()?, seen))
}

/// The tasks of a queue that a bulk update selects, until `each` breaks. Busy when the limit is over.
async fn visit_matching(
    snapshot: &Snapshot<'_>,
    queue: QueueKey,
    bulk: &BulkUpdate,
    limit: &Limit,
    each: VisitTask<'_>,
) -> Read<()> {
    let condition = dialect::condition(&bulk.selection, 2);
    let text = order::with_condition(&sql::LIST_MATCHING.text, &condition.text);
    let mut rows = stream(snapshot.session, &text, vec![(&queue.0, Type::INT8)], &condition).await?;
    while let Some(row) = snapshot.next(&mut rows).await? {
        if limit.is_over() {
            return Err(StoreError::Busy.into());
        }
        if bulk.selection.matches(&rows::RowFields::new(&row)) {
            let (key, task) = (rows::key(&row)?, rows::task(&row, &bulk.queue)?);
            if each(key, &task).is_break() {
                break;
            }
        }
    }
    Ok(())
}

impl BatchTransaction for PostgresTransaction<'_> {
    type Snapshot = SnapshotId;

    /// The queue must be locked for this transaction alone.
    fn changed_since(&mut self, planned: &Planned<SnapshotId>) -> Loaded<Option<Vec<TaskKey>>> {
        let session = self.session;
        let (queue, most) = (planned.plan.queue.0, REDECIDED as i64 + 1);
        let asked = async {
            let wanted: [&(dyn ToSql + Sync); 3] = [&queue, &planned.snapshot, &most];
            let (on, (rows, off)) = join(
                session.execute_text(SCANS.0),
                join(session.query(&sql::LIST_CHANGED, &wanted), session.execute_text(SCANS.1)),
            )
            .await;
            let mut changed = on.and(rows)?;
            off?;
            let unchanged: Vec<i64> = planned.plan.unchanged().map(|key| key.0).collect();
            for keys in unchanged.chunks(LOOKED_FOR_AT_ONCE) {
                changed.extend(session.query(&sql::LIST_DELETED, &[&keys]).await?);
                if changed.len() > REDECIDED {
                    break;
                }
            }
            Ok(changed)
        };
        let changed = self.wait("looking for what has changed", asked)?;
        let keys = changed.iter().map(rows::key).collect::<Result<Vec<_>, _>>()?;
        Ok((keys.len() <= REDECIDED).then_some(keys))
    }

    /// This transaction holds the queue alone, so that visited tasks do not change.
    fn visit_matching(
        &mut self,
        queue: Queue<'_>,
        bulk: &BulkUpdate,
        limit: &Limit,
        each: VisitTask<'_>,
    ) -> Loaded<()> {
        let snapshot = Snapshot::bounded(self.session);
        match self.runtime.block_on(visit_matching(&snapshot, queue.key, bulk, limit, each)) {
            Ok(()) => Ok(()),
            Err(ReadError::Failed(error)) => Err(self.failed("filtering tasks", &error)),
            Err(error) => Err(error.into_store_error("filtering tasks")),
        }
    }

    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        self.load_current(queue, keys)
    }

    /// A bulk update holds its queue alone, so all of these are held.
    fn load_heads(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, TaskHead)>> {
        if !self.rows.tasks.is_empty() {
            self.send()?;
            self.rows.forget_tasks();
        }
        let wanted: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let rows = self.query("loading tasks", &sql::LOAD_HEADS, &[&wanted])?;
        let mut heads = Vec::with_capacity(rows.len());
        for row in &rows {
            let (key, queue, head) = (rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
            self.rows.add_held(key, queue, head.clone());
            heads.push((key, head));
        }
        Ok(heads)
    }

    /// Locks found tasks and tells what has become of them. Tasks that other transactions hold are left to a later portion; what the
    /// batch has loaded for other commands, or as dependents of earlier tasks, may have changed.
    fn load_found(
        &mut self,
        queue: QueueKey,
        found: &[FoundTask],
        _: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, FoundState)>> {
        let unknown = found.iter().map(|found| found.key).filter(|key| !self.rows.tasks.contains_key(key));
        let wanted: Vec<i64> = unknown.map(|key| key.0).collect();
        let locked = self.query("locking tasks", &sql::LOCK_FOUND, &[&wanted, &queue.0])?;
        let mut versions = HashMap::with_capacity(locked.len());
        for row in &locked {
            let key = rows::key(row)?;
            self.rows.add_held(key, queue, rows::head(row)?);
            versions.insert(key, rows::version(row)?);
        }
        let deleted =
            self.deleted_among(wanted.into_iter().filter(|key| !versions.contains_key(&TaskKey(*key))).collect())?;
        let now = |found: &FoundTask| {
            let now = match (versions.get(&found.key), self.rows.tasks.get(&found.key)) {
                (Some(version), Some(entry)) if *version == found.version => FoundState::Unchanged(entry.head.clone()),
                (Some(_), _) => FoundState::Changed,
                (None, Some(entry)) if entry.held => FoundState::Changed,
                (None, _) => FoundState::Held,
            };
            (*found, now)
        };
        Ok(found.iter().filter(|found| !deleted.contains(&found.key)).map(now).collect())
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        let wanted: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let rows = self.query("loading tasks", &sql::LOAD_DOCUMENTS, &[&wanted])?;
        rows.iter().map(|row| Ok((rows::key(row)?, rows::documents(row)?))).collect()
    }

    fn save_effect(
        &mut self,
        _queue: QueueKey,
        key: TaskKey,
        (_, after): (&TaskHead, &TaskHead),
        update: &Update,
        effect: Effect,
        merged: Option<&Documents>,
    ) -> Loaded<()> {
        let entry = self.held_entry(key)?;
        entry.head = after.clone();
        entry.updated = true;
        self.rows.apply_effect(key, update, effect, merged);
        Ok(())
    }

    fn goes_on_when_busy(&self) -> bool {
        self.failure.is_none()
    }
}

/// Rows that are read at a time where the read may end before the last one.
const ROWS_AT_ONCE: usize = 20_000;
const ALL_KEYS: KeyRange = KeyRange { after: TaskKey(i64::MIN), until: TaskKey(i64::MAX) };

#[async_trait]
impl FindTasks for PostgresStore {
    async fn find_tasks(&self, act: &Arc<ActOnTasks>, range: Option<KeyRange>, most: usize) -> StoreResult<FoundTasks> {
        let act = Arc::clone(act);
        let find = async move |snapshot: &Snapshot<'_>| {
            let queue = existing_queue(snapshot.session, &act.queue).await?;
            let mut collector = Collector::up_to(most);
            match range {
                // All of them, in whatever order they come.
                None => {
                    let few = few_keys(snapshot, queue, &act.selection, Need::All).await?;
                    collect(snapshot, queue, &act, (few.as_deref(), ALL_KEYS, ""), &mut collector).await?;
                }
                Some(range) => find_in(snapshot, queue, &act, range, &mut collector).await?,
            }
            Ok(collector.finish(queue, None))
        };
        self.readers.read_long("finding tasks", find).await
    }
}

/// In the order of the keys, some rows at a time, until enough were found.
async fn find_in(
    snapshot: &Snapshot<'_>,
    queue: QueueKey,
    act: &ActOnTasks,
    mut range: KeyRange,
    collector: &mut Collector,
) -> Read<()> {
    let order = format!("ORDER BY tasks.task_key LIMIT {ROWS_AT_ONCE}");
    while !collector.is_full() {
        match collect(snapshot, queue, act, (None, range, &order), collector).await? {
            (ROWS_AT_ONCE.., Some(last)) => range.after = last,
            _ => break,
        }
    }
    Ok(())
}

/// Reads rows of a queue, in a range and an order, or a few of them alone. Gives how many, and the key of the last one.
async fn collect(
    snapshot: &Snapshot<'_>,
    queue: QueueKey,
    act: &ActOnTasks,
    (few, range, order): (Option<&[i64]>, KeyRange, &str),
    collector: &mut Collector,
) -> Read<(usize, Option<TaskKey>)> {
    let condition = condition_among(&act.selection, few, &sql::FIND_SELECTED);
    let text = order::with_condition(&sql::FIND_SELECTED.text, &condition.text) + order;
    let reads = act.selection.filter.as_ref().map(TaskFilter::reads).unwrap_or_default();
    let fixed: Vec<Param<'_>> = vec![
        (&queue.0, Type::INT8),
        (&reads.definition, Type::BOOL),
        (&reads.outcome, Type::BOOL),
        (&range.after.0, Type::INT8),
        (&range.until.0, Type::INT8),
    ];
    let mut found = stream(snapshot.session, &text, fixed, &condition).await?;
    let (mut rows, mut last) = (0, None);
    while let Some(row) = snapshot.next(&mut found).await? {
        let key = rows::key(&row)?;
        (rows, last) = (rows + 1, Some(key));
        if act.selection.matches(&RowFields::new(&row)) {
            collector.add(FoundTask { key, version: rows::version(&row)? });
        }
    }
    Ok((rows, last))
}

impl PostgresTransaction<'_> {
    pub(crate) fn deleted_among(&mut self, keys: Vec<i64>) -> Loaded<HashSet<TaskKey>> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let deleted = self.query("finding tasks", &sql::LIST_DELETED, &[&keys])?;
        Ok(deleted.iter().map(rows::key).collect::<Result<_, _>>()?)
    }
}
