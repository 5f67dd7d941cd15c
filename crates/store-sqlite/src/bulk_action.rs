//! How a bulk action finds its tasks in the file: the first read goes the cheapest way (`sparse_reads.rs`) and counts all; a
//! later one goes on in the order of the keys. The steps of the action are in `store::bulk_action`.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::params;
use taskqueue_core::sparse::Need;
use taskqueue_store::StoreError;
use taskqueue_store::bulk_action::{ChangeRecord, Collector, FindTasks, FoundTask, FoundTasks, KeyRange, Now};
use taskqueue_store::command::ActOnTasks;
use taskqueue_store::transaction::{Loaded, QueueKey, TaskKey, Transaction};

use crate::SqliteStore;
use crate::each_row::{CONTINUE, NextRow};
use crate::published_index::PublishedIndex;
use crate::readers::Lane;
use crate::reads::{Read, existing_queue};
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::sparse_reads::{self, each_selected};
use crate::statements as sql;
use crate::transaction::SqliteTransaction;

#[async_trait]
impl FindTasks for SqliteStore {
    async fn find_tasks(
        &self,
        act: &Arc<ActOnTasks>,
        range: Option<KeyRange>,
        most: usize,
    ) -> Result<FoundTasks, StoreError> {
        let readers = &self.threads.readers;
        let name = act.queue.clone();
        let find_queue = move |file: &Snapshot<'_>| existing_queue(file, &name);
        let queue = readers.read(Lane::Short, "finding a queue", find_queue).await?;
        // In this order: what the snapshot does not see is recorded.
        let tracker = self.trackers.add(queue);
        let (act, index) = (Arc::clone(act), Arc::clone(&self.published_index));
        let find = move |file: &Snapshot<'_>| match range {
            None => find_first(file, &index, queue, &act, Collector::up_to(most)),
            Some(range) => find_in(file, queue, &act, range, Collector::up_to(most)),
        };
        let collector = readers.read(Lane::Long, "finding tasks", find).await?;
        Ok(collector.finish(queue, Some(tracker)))
    }
}

fn find_first(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: QueueKey,
    act: &ActOnTasks,
    mut collector: Collector,
) -> Read<Collector> {
    let selection = act.selection();
    let begun = sparse_reads::begin(file, index, &act.queue, &selection, Need::All)?;
    if begun.key != queue {
        // It was deleted and created again a moment ago.
        return Err(StoreError::Busy.into());
    }
    each_selected(file, &begun, &selection, |row, _| {
        collector.add(FoundTask { key: rows::key(row)?, version: 0 });
        Ok(())
    })?;
    Ok(collector)
}

fn find_in(
    file: &Snapshot<'_>,
    queue: QueueKey,
    act: &ActOnTasks,
    KeyRange { after, until }: KeyRange,
    mut collector: Collector,
) -> Read<Collector> {
    let reads = act.filter.reads();
    let statement = match reads.definition || reads.outcome {
        false => &sql::SCAN_TASKS_BETWEEN,
        true => &sql::SCAN_WHOLE_TASKS_BETWEEN,
    };
    file.each_row(statement, params![queue.0, after.0, until.0], |row| {
        if act.selects(&RowFields::new(row)) {
            collector.add(FoundTask { key: rows::key(row)?, version: 0 });
        }
        Ok(if collector.is_full() { NextRow::Break(()) } else { CONTINUE })
    })?;
    Ok(collector)
}

impl SqliteTransaction<'_> {
    pub(crate) fn what_became_of(
        &mut self,
        found: &[FoundTask],
        changes: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, Now)>> {
        let keys: HashSet<TaskKey> = found.iter().map(|found| found.key).collect();
        // What this transaction has changed is recorded after its end.
        let changed_here = self.changed_tasks.among(&keys);
        let now = |found: &FoundTask| {
            let is_recorded = found.version != FoundTask::UNRECORDED;
            let may_have_changed = changes.is_none_or(|changes| changes.may_have_changed(found.key));
            let now = match may_have_changed || !is_recorded || changed_here.contains(&found.key) {
                true => Now::Changed,
                false => Now::Unchanged(self.load_head(found.key)?),
            };
            Ok((*found, now))
        };
        found.iter().map(now).collect()
    }
}
