//! The two steps of a bulk update on PostgreSQL: a long read makes the plan in a snapshot (`long_reader.rs`); the writer
//! of long commands, which has the queue alone then, finds the rows that were written since by the numbers of their
//! transactions. No clock is trusted, and every server's writes count. The steps themselves are in `store::bulk`.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::task::Task;
use taskqueue_store::StoreError;
use taskqueue_store::batch::BatchTransaction;
use taskqueue_store::bulk::{BulkSteps, Limit, Planned, PlannedWrite, Planner, REDECIDED};
use taskqueue_store::command::{BulkUpdate, Updated};
use taskqueue_store::transaction::{Loaded, QueueKey, TaskKey};
use taskqueue_store::write_queue::WriteQueue;
use tokio_postgres::types::{ToSql, Type};

use crate::dialect::operand::Bound;
use crate::dialect::order;
use crate::readers::{ReadError, Readers, in_snapshot};
use crate::session::{Param, Session};
use crate::snapshot::Snapshot;
use crate::statements as sql;
use crate::transaction::PostgresTransaction;
use crate::{dialect, rows};

/// Tasks that are looked for at a time.
const LOOKED_FOR_AT_ONCE: usize = 10_000;
/// What lets the planner read a table from its beginning to its end, and forbids it again.
const SCANS: (&str, &str) = ("SET LOCAL enable_seqscan = on", "SET LOCAL enable_seqscan = off");

/// Which transactions a snapshot sees, as the database writes it.
pub(crate) type SnapshotId = String;

/// Where the two steps run.
pub(crate) struct Steps<'a> {
    pub(crate) queue: &'a WriteQueue<SnapshotId>,
    pub(crate) readers: &'a Readers,
}

#[async_trait]
impl BulkSteps for Steps<'_> {
    type Snapshot = SnapshotId;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> Result<Planned<SnapshotId>, StoreError> {
        let input = (Arc::clone(bulk), limit.clone());
        let plan = self.readers.read_long("planning a bulk update", input, |snapshot, (bulk, limit)| {
            make_plan(snapshot, bulk, limit).boxed()
        });
        plan.await
    }

    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite<SnapshotId>) -> Result<Updated, StoreError> {
        self.queue.write_bulk(Arc::clone(bulk), Some(plan)).await
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
async fn make_plan(
    snapshot: &Snapshot<'_>,
    bulk: &BulkUpdate,
    limit: &Limit,
) -> Result<Planned<SnapshotId>, ReadError> {
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
pub(crate) async fn visit_matching(
    snapshot: &Snapshot<'_>,
    queue: QueueKey,
    bulk: &BulkUpdate,
    limit: &Limit,
    each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
) -> Result<(), ReadError> {
    let include_archived = bulk.include_archived;
    let selection = TaskSelection { filter: Some(bulk.filter.clone()), include_archived, ..TaskSelection::default() };
    let condition = dialect::condition(&selection, 2);
    let text = order::with_condition(&sql::LIST_MATCHING.text, &condition.text);
    let mut params: Vec<Param<'_>> = vec![(&queue.0, Type::INT8)];
    params.extend(condition.bound.iter().map(Bound::param));
    let mut rows = Box::pin(snapshot.session.stream(&text, &params).await?);
    while let Some(row) = snapshot.next(&mut rows).await? {
        if limit.is_over() {
            return Err(StoreError::Busy.into());
        }
        if bulk.selects(&rows::RowFields::new(&row)) {
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
        let (queue, most) = (planned.plan.queue().0, REDECIDED as i64 + 1);
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

    fn goes_on_when_busy(&self) -> bool {
        self.failure.is_none()
    }
}
