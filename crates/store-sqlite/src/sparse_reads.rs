//! How a read finds the tasks that it may select. If only tasks of a few states come into question, and few tasks have
//! those states, then it looks at these alone (docs/decisions/0004): failed and cancelled tasks have an index, pending
//! and running ones are known to the writer (`published_index.rs`). Succeeded tasks have neither; most tasks succeed.

use rusqlite::{OptionalExtension, Row, params};
use taskqueue_core::filter::TaskFields;
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::sparse::{Need, StatusCounts, is_sparse};
use taskqueue_core::status::{Status, Statuses};
use taskqueue_store::transaction::{QueueKey, TaskKey};

use crate::each_row::{CONTINUE, NextRow};
use crate::published_index::PublishedIndex;
use crate::reads::{Read, each_tally, existing_queue, queue_share};
use crate::rows::{self, RowFields};
use crate::snapshot::Snapshot;
use crate::statements as sql;

/// How the selected tasks are found.
pub(crate) enum Access {
    /// Among all tasks of the queue.
    Visit {
        /// How many tasks have a state that is selected, and are not left out as archived: when as many were seen, there are no
        /// more.
        matching: u64,
        /// Whether they are few, but cannot be found without visiting others.
        is_sparse: bool,
    },
    /// Among these alone.
    Lookup { unsuccessful: Statuses, living: Vec<TaskKey> },
}

/// What a read of one queue begins with.
pub(crate) struct Begun {
    pub(crate) key: QueueKey,
    pub(crate) access: Access,
    /// The states that selected tasks have.
    pub(crate) statuses: Statuses,
}

/// Finds the queue, and decides how to find its tasks.
///
/// The tasks that the writer knows of may not be those of the snapshot: it goes on meanwhile. So it is asked before and after
/// the snapshot is taken, and each task is looked up in the snapshot. The counts in the snapshot tell whether these are
/// all; if not, the tasks are visited.
pub(crate) fn begin(
    file: &Snapshot<'_>,
    index: &PublishedIndex,
    queue: &QueueName,
    selection: &TaskSelection,
    need: Need,
) -> Read<Begun> {
    let wanted = selection.statuses();
    let restricted = wanted != Statuses::ALL;
    let asks_writer = restricted && !wanted.intersection(Statuses::LIVING).is_empty();
    let ask = |statuses: Statuses| {
        file.release_slot();
        index.living(queue, statuses)
    };
    let early = asks_writer.then(|| ask(wanted.intersection(Statuses::LIVING))).flatten();
    // The first statement takes the snapshot.
    let key = existing_queue(file, queue)?;
    if !restricted {
        return Ok(Begun { key, access: Access::Visit { matching: u64::MAX, is_sparse: false }, statuses: wanted });
    }
    let (mut counts, mut all) = (StatusCounts::default(), StatusCounts::default());
    each_tally(file, key, |line| {
        let unselected = if selection.include_archived { 0 } else { line.archived.min(line.tasks) };
        counts.add(line.status, line.tasks - unselected);
        all.add(line.status, line.tasks);
    })?;
    let statuses = counts.present(wanted);
    let matching = counts.of(statuses);
    // Who looks up tasks by their state looks at archived ones, too.
    let is_sparse = is_sparse(all.of(statuses), queue_share(file.connection, key)?.cost_of_visit(), need);
    let mut access = Access::Visit { matching, is_sparse };
    if is_sparse && !statuses.contains(Status::Succeeded) {
        let living = statuses.intersection(Statuses::LIVING);
        // Who got no answer the first time gets none now.
        let late = early.as_ref().filter(|_| !living.is_empty()).and_then(|_| ask(living));
        let keys = early.into_iter().chain(late).flatten().collect();
        if let Some(living) = all_living(file, key, living, keys, counts.of(living))? {
            access = Access::Lookup { unsuccessful: statuses.intersection(Statuses::UNSUCCESSFUL), living };
        }
    }
    Ok(Begun { key, access, statuses })
}

/// Those of the tasks that have one of the states in this snapshot, if they are as many as there should be.
fn all_living(
    file: &Snapshot<'_>,
    queue: QueueKey,
    statuses: Statuses,
    mut keys: Vec<TaskKey>,
    expected: u64,
) -> Read<Option<Vec<TaskKey>>> {
    keys.sort_unstable();
    keys.dedup();
    let mut statement = file.connection.prepare_cached(sql::FIND_STATUS)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        file.yield_if_due()?;
        let status = statement.query_row(params![key.0, queue.0], rows::status).optional()?;
        found.extend(status.filter(|status| statuses.contains(*status)).map(|_| key));
    }
    Ok((found.len() as u64 == expected).then_some(found))
}

/// Every selected task of a queue, in no particular order; heavy columns are there only if the filter reads them.
pub(crate) fn each_selected(
    file: &Snapshot<'_>,
    Begun { key, access, statuses }: &Begun,
    selection: &TaskSelection,
    mut read: impl FnMut(&Row<'_>, &RowFields<'_, '_>) -> rusqlite::Result<()>,
) -> Read<()> {
    let reads = selection.filter.as_ref().map(|filter| filter.reads());
    let heavy = reads.is_some_and(|reads| reads.definition || reads.outcome);
    let mut visit = |row: &Row<'_>| {
        let fields = RowFields::new(row);
        if selection.matches(&fields) {
            read(row, &fields)?;
        }
        // Whether it is among those that were counted.
        Ok(statuses.contains(fields.status()) && (selection.include_archived || !fields.archived()))
    };
    match access {
        Access::Visit { matching, .. } => {
            let statement = queue_share(file.connection, *key)?.visit_statement(heavy);
            let mut seen = 0;
            file.each_row(statement, [key.0], |row| {
                seen += u64::from(visit(row)?);
                Ok(if seen < *matching { CONTINUE } else { NextRow::Break(()) })
            })
        }
        Access::Lookup { unsuccessful, living } => {
            let (walk, lookup) = match heavy {
                false => (&sql::WALK_UNSUCCESSFUL, &sql::VISIT_TASK),
                true => (&sql::WALK_WHOLE_UNSUCCESSFUL, &sql::VISIT_WHOLE_TASK),
            };
            for status in unsuccessful.iter() {
                file.each_row(walk, params![key.0, status.as_str()], |row| visit(row).map(|_| CONTINUE))?;
            }
            for task in living {
                file.each_row(lookup, params![key.0, task.0], |row| visit(row).map(|_| CONTINUE))?;
            }
            Ok(())
        }
    }
}
