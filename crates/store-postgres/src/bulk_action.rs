//! How a bulk action finds its tasks: a read besides the writers selects them together with the versions of their rows. When a
//! writer has locked them later, an equal version tells that nobody has changed them. The steps of the action are in
//! `store::bulk_action`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use taskqueue_core::sparse::Need;
use taskqueue_store::StoreError;
use taskqueue_store::bulk_action::{Collector, FindTasks, FoundTask, FoundTasks, KeyRange, Now};
use taskqueue_store::command::ActOnTasks;
use taskqueue_store::transaction::{Loaded, QueueKey, TaskKey};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::dialect::operand::Bound;
use crate::dialect::order;
use crate::reads::{Read, existing_queue};
use crate::rows::{self, RowFields};
use crate::session::Param;
use crate::snapshot::Snapshot;
use crate::sparse_reads::{condition_among, few_keys};
use crate::statements as sql;
use crate::transaction::PostgresTransaction;

/// Rows that are read at a time where the read may end before the last one.
const ROWS_AT_ONCE: usize = 20_000;
const ALL_KEYS: KeyRange = KeyRange { after: TaskKey(i64::MIN), until: TaskKey(i64::MAX) };

#[async_trait]
impl FindTasks for PostgresStore {
    async fn find_tasks(
        &self,
        act: &Arc<ActOnTasks>,
        range: Option<KeyRange>,
        most: usize,
    ) -> Result<FoundTasks, StoreError> {
        let input = (Arc::clone(act), range, most);
        let find = self.readers.read_long("finding tasks", input, |snapshot, (act, range, most)| {
            async move {
                let queue = existing_queue(snapshot.session, &act.queue).await?;
                let mut collector = Collector::up_to(*most);
                match range {
                    None => find_first(snapshot, queue, act, &mut collector).await?,
                    Some(range) => find_in(snapshot, queue, act, *range, &mut collector).await?,
                }
                Ok(collector.finish(queue, None))
            }
            .boxed()
        });
        find.await
    }
}

/// Counts all, in whatever order they come.
async fn find_first(snapshot: &Snapshot<'_>, queue: QueueKey, act: &ActOnTasks, collector: &mut Collector) -> Read<()> {
    let few = few_keys(snapshot, queue, &act.selection(), Need::All).await?;
    collect(snapshot, queue, act, (few.as_deref(), ALL_KEYS, ""), collector).await.map(drop)
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
    let condition = condition_among(&act.selection(), few, &sql::FIND_SELECTED);
    let text = order::with_condition(&sql::FIND_SELECTED.text, &condition.text) + order;
    let reads = act.filter.reads();
    let mut params: Vec<Param<'_>> = vec![
        (&queue.0, Type::INT8),
        (&reads.definition, Type::BOOL),
        (&reads.outcome, Type::BOOL),
        (&range.after.0, Type::INT8),
        (&range.until.0, Type::INT8),
    ];
    params.extend(condition.bound.iter().map(Bound::param));
    let mut found = Box::pin(snapshot.session.stream(&text, &params).await?);
    let (mut rows, mut last) = (0, None);
    while let Some(row) = snapshot.next(&mut found).await? {
        let key = rows::key(&row)?;
        (rows, last) = (rows + 1, Some(key));
        if act.selects(&RowFields::new(&row)) {
            collector.add(FoundTask { key, version: rows::version(&row)? });
        }
    }
    Ok((rows, last))
}

impl PostgresTransaction<'_> {
    /// Locks found tasks and tells what has become of them. Tasks that other transactions hold are left to a later portion; what the
    /// batch has loaded for other commands, or as dependents of earlier tasks, may have changed.
    pub(crate) fn lock_found(&mut self, queue: QueueKey, found: &[FoundTask]) -> Loaded<Vec<(FoundTask, Now)>> {
        let session = self.session;
        let wanted: Vec<i64> = found
            .iter()
            .map(|found| found.key)
            .filter(|key| !self.rows.tasks.contains_key(key))
            .map(|key| key.0)
            .collect();
        let locked =
            self.wait("locking tasks", async { session.query(&sql::LOCK_FOUND, &[&wanted, &queue.0]).await })?;
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
                (Some(version), Some(entry)) if *version == found.version => Now::Unchanged(entry.head.clone()),
                (Some(_), _) => Now::Changed,
                (None, Some(entry)) if entry.held => Now::Changed,
                (None, _) => Now::Held,
            };
            (*found, now)
        };
        Ok(found.iter().filter(|found| !deleted.contains(&found.key)).map(now).collect())
    }

    pub(crate) fn deleted_among(&mut self, keys: Vec<i64>) -> Loaded<HashSet<TaskKey>> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let session = self.session;
        let deleted = self.wait("finding tasks", async { session.query(&sql::LIST_DELETED, &[&keys]).await })?;
        Ok(deleted.iter().map(rows::key).collect::<Result<_, _>>()?)
    }
}
