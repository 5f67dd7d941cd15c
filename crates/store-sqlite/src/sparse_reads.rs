//! How a read finds the tasks that it may select. If only tasks of a few states come into question, and few tasks have
//! those states, then it looks at these alone (docs/decisions/0004): failed and cancelled tasks have an index, pending
//! and running ones are known to the writer (`published_index.rs`). Succeeded tasks have neither; most tasks succeed.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use taskqueue_core::filter::TaskFields;
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::sparse::{KEYS_MAX, Need, StatusCounts, is_sparse};
use taskqueue_core::status::{Status, Statuses};
use taskqueue_store::transaction::{QueueKey, TaskKey};

use crate::published_index::PublishedIndex;
use crate::queries::{CONTINUE, NextRow, Read, Snapshot};
use crate::rows::{self, RowFields};
use crate::statements as sql;

/// The counts of a queue.
pub(crate) fn each_tally(file: &Snapshot<'_>, queue: QueueKey, mut read: impl FnMut(rows::TallyRow<'_>)) -> Read<()> {
    file.each_row(&sql::LIST_TALLY, [queue.0], |row| {
        read(rows::tally(row)?);
        Ok(CONTINUE)
    })
}

/// The counts of the tasks of a queue that are selected by nothing but their state and the archive; none of them is 0.
pub(crate) fn each_selected_tally(
    file: &Snapshot<'_>,
    queue: QueueKey,
    selection: &TaskSelection,
    mut read: impl FnMut(rows::TallyRow<'_>),
) -> Read<()> {
    let statuses = selection.statuses();
    each_tally(file, queue, |mut line| {
        line.tasks -= if selection.include_archived { 0 } else { line.archived.min(line.tasks) };
        if line.tasks > 0 && statuses.contains(line.status) {
            read(line);
        }
    })
}

/// The share of one queue in all tasks.
#[derive(Clone, Copy)]
pub(crate) struct QueueShare {
    own: u64,
    every: u64,
}

pub(crate) fn queue_share(file: &Snapshot<'_>, queue: QueueKey) -> Read<QueueShare> {
    let read = |row: &Row<'_>| Ok(QueueShare { own: rows::count(row, "own")?, every: rows::count(row, "every")? });
    Ok(file.connection.prepare_cached(&sql::COUNT_QUEUE_SHARE)?.query_row([queue.0], read)?)
}

impl QueueShare {
    /// Returns what it costs to visit every task of the queue, in tasks of a scan.
    pub(crate) fn cost_of_visit(self) -> u64 {
        self.every.min(self.own.saturating_mul(2))
    }

    /// The cheapest way to visit every task of the queue.
    pub(crate) fn visit_statement(self, heavy: bool) -> &'static str {
        // A task on the walk along the index of the queue costs twice as much as one in a scan of the table.
        let is_scanned = self.own.saturating_mul(2) >= self.every;
        let statement = if is_scanned { &sql::SCAN_TASKS } else { &sql::WALK_TASKS };
        statement.choose(heavy)
    }
}

/// The way in which the selected tasks are found.
pub(crate) enum TaskAccess {
    /// Among all tasks of the queue.
    Visit {
        /// The number of tasks that have a state that is selected, and are not left out as archived: when as many were seen, there
        /// are no more.
        matching: u64,
        /// True if they are few, but cannot be found without visiting others.
        is_sparse: bool,
    },
    /// Among these alone.
    Lookup { unsuccessful: Statuses, living: Vec<TaskKey> },
}

/// A read of one queue that has begun.
pub(crate) struct BegunRead {
    pub(crate) key: QueueKey,
    pub(crate) access: TaskAccess,
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
) -> Read<BegunRead> {
    let wanted = selection.statuses();
    let restricted = wanted != Statuses::ALL;
    let asks_writer = restricted && !wanted.intersection(Statuses::LIVING).is_empty();
    let ask = |statuses: Statuses| {
        file.release_slot();
        let queue = queue.clone();
        // More keys would hold up the writer for longer than about a millisecond.
        index.look(move |index| index.living(&queue, statuses, KEYS_MAX)).flatten()
    };
    let early = asks_writer.then(|| ask(wanted.intersection(Statuses::LIVING))).flatten();
    // The first statement takes the snapshot.
    let key = file.existing_queue(queue)?;
    if !restricted {
        let access = TaskAccess::Visit { matching: u64::MAX, is_sparse: false };
        return Ok(BegunRead { key, access, statuses: wanted });
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
    let is_sparse = is_sparse(all.of(statuses), queue_share(file, key)?.cost_of_visit(), need);
    let mut access = TaskAccess::Visit { matching, is_sparse };
    if is_sparse && !statuses.contains(Status::Succeeded) {
        let living = statuses.intersection(Statuses::LIVING);
        // Who got no answer the first time gets none now.
        let late = early.as_ref().filter(|_| !living.is_empty()).and_then(|_| ask(living));
        let keys: BTreeSet<TaskKey> = early.into_iter().chain(late).flatten().collect();
        let (mut found, mut statement) =
            (Vec::with_capacity(keys.len()), file.connection.prepare_cached(&sql::FIND_STATUS)?);
        for task in keys {
            file.yield_if_due()?;
            let status = statement.query_row(params![task.0, key.0], rows::status).optional()?;
            found.extend(status.filter(|status| living.contains(*status)).map(|_| task));
        }
        // As many as there should be in this snapshot.
        if found.len() as u64 == counts.of(living) {
            let unsuccessful = statuses.intersection(Statuses::UNSUCCESSFUL);
            access = TaskAccess::Lookup { unsuccessful, living: found };
        }
    }
    Ok(BegunRead { key, access, statuses })
}

/// Every selected task of a queue, in no particular order; heavy columns are there only if the filter reads them.
pub(crate) fn each_selected(
    file: &Snapshot<'_>,
    BegunRead { key, access, statuses }: &BegunRead,
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
        TaskAccess::Visit { matching, .. } => {
            let statement = queue_share(file, *key)?.visit_statement(heavy);
            let mut seen = 0;
            file.each_row(statement, [key.0], |row| {
                seen += u64::from(visit(row)?);
                Ok(if seen < *matching { CONTINUE } else { NextRow::Break(()) })
            })
        }
        TaskAccess::Lookup { unsuccessful, living } => {
            let (walk, lookup) = (sql::WALK_UNSUCCESSFUL.choose(heavy), sql::VISIT_TASK.choose(heavy));
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
