//! The tables whose rows follow from the tasks: which statements remove and add rows, in which order, and which ones purge and check
//! them. What the database should hold follows from the states of a task before and after (`Delta` in `core`).
//!
//! Every transaction writes these tables in the order of [`DERIVED_TABLES`], and removes rows of a table before it adds some, so that
//! transactions that wait for each other cannot wait in a circle. Output follows after the run ids: it has more than these two statements.

use taskqueue_core::delta::{Delta, Difference, PendingEntry, PendingPlace};
use taskqueue_core::soundness::Rule;
use taskqueue_core::{DependencyState, QueueSettings, Retention, Route, Status, Statuses, TaskHead, Timestamp};
use taskqueue_store::{QueueKey, TaskKey};

use crate::changes::{RowSet, Write, sets};
use crate::dependency_rows::DependencyRows;
use crate::ended::noted_end;
use crate::output::OutputWrite;
use crate::rows::{EndedRow, offset_column, parts_text};
use crate::session::Sql;
use crate::statements as sql;
use crate::transaction_rows::{Entry, TransactionRows};

/// A table whose rows follow from the tasks.
pub(crate) struct DerivedTable {
    pub(crate) remove: &'static Sql,
    pub(crate) add: &'static Sql,
    /// Removes some rows of a deleted queue; `None` if there are none, if they go with the tasks, or if upkeep drops them.
    pub(crate) purge: Option<&'static Sql>,
    /// Lists what differs from the tasks, and which rule that breaks; nothing if a row that is not true does no harm.
    pub(crate) check: Option<(Rule, &'static Sql)>,
}

/// Declares the tables: what removes and adds rows, then what purges and what checks them.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $remove:ident, $add:ident, $purge:expr, $check:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $name: DerivedTable =
                DerivedTable { remove: &sql::$remove, add: &sql::$add, purge: $purge, check: $check };
        )*
    };
}

tables! {
    /// The tasks that a claim may take now, a row for each route.
    READY: DELETE_READY, INSERT_READY, Some(&sql::PURGE_READY), Some((Rule::PendingOrder, &sql::CHECK_PENDING_ORDER));

    /// The pending tasks whose time has not come. Their check is that of the pending order.
    DELAYED: DELETE_DELAYED, INSERT_DELAYED, Some(&sql::PURGE_DELAYED), None;

    /// What tasks wait for.
    DEPENDENCIES: DELETE_DEPENDENCIES, SAVE_DEPENDENCIES, Some(&sql::PURGE_DEPENDENCIES),
        Some((Rule::Dependencies, &sql::CHECK_DEPENDENCIES));

    /// Tasks whose dependents are to be looked at again.
    UNSETTLED: DELETE_UNSETTLED, INSERT_UNSETTLED, None, None;

    RUNNING: DELETE_RUNNING, INSERT_RUNNING, None, Some((Rule::Running, &sql::CHECK_RUNNING));

    /// The tasks that ended without success. They may differ without harm (docs/decisions/0004).
    UNSUCCESSFUL: DELETE_UNSUCCESSFUL, INSERT_UNSUCCESSFUL, None, None;

    /// The tasks that have ended in queues which keep them for a limited time (`ended.rs`).
    ENDED: DELETE_ENDED, INSERT_ENDED, Some(&sql::PURGE_ENDED), Some((Rule::Settings, &sql::CHECK_ENDED));
}

/// The tables in the order in which every transaction locks their rows.
pub(crate) static DERIVED_TABLES: [&DerivedTable; 7] =
    [&READY, &DELAYED, &DEPENDENCIES, &UNSETTLED, &RUNNING, &UNSUCCESSFUL, &ENDED];

sets! {
    RemovedReady of RemovedReadyRow<'a> { queue: i64, route: &'a str, priority: i64, pending_seq: i64, }

    AddedReady of AddedReadyRow<'a> { queue: i64, route: &'a str, priority: i64, pending_seq: i64, key: i64, }

    Delayed of DelayedRow { queue: i64, not_before: i64, key: i64, }

    RemovedDependencies of RemovedDependency<'a> { queue: i64, dependency: &'a str, key: i64, }

    SavedDependencies of SavedDependency<'a> { queue: i64, dependency: &'a str, key: i64, state: i16, }

    Unsettled of UnsettledRow<'a> { queue: i64, dependency: &'a str, was_missing: bool, }

    Running of RunningRow<'a> { key: i64, queue: Option<i64>, route: Option<&'a str>, }

    Unsuccessful of UnsuccessfulRow<'a> { key: i64, queue: i64, status: &'a str, }

    Ends of End<'a> { queue: i64, status: &'a str, ended_at: i64, key: i64, }

    Outputs of OutputRow<'a> {
        key: i64,
        run_id: &'a str,
        attempt: i64,
        parts: String,
        last_start: i64,
        end: i64,
        bytes: i64,
    }

    Pieces of Piece<'a> { key: i64, start: i64, bytes: &'a [u8], }

    Offsets of Offset { key: i64, at: i64, }
}

/// The rows that leave a table and those that come to it.
#[derive(Default)]
struct TableChange<R, A> {
    removed: R,
    added: A,
}

impl<R: RowSet, A: RowSet> TableChange<R, A> {
    fn writes(&self, table: &DerivedTable) -> [Option<Write<'_>>; 2] {
        [self.removed.write(table.remove), self.added.write(table.add)]
    }
}

/// What a transaction writes to the derived tables.
#[derive(Default)]
pub(crate) struct DerivedChanges<'a> {
    ready: TableChange<RemovedReady<'a>, AddedReady<'a>>,
    delayed: TableChange<Delayed, Delayed>,
    dependencies: TableChange<RemovedDependencies<'a>, SavedDependencies<'a>>,
    /// Of new tasks, of which nothing can be noted yet.
    new_dependencies: SavedDependencies<'a>,
    unsettled: TableChange<Vec<i64>, Unsettled<'a>>,
    running: TableChange<Vec<i64>, Running<'a>>,
    unsuccessful: TableChange<Vec<i64>, Unsuccessful<'a>>,
    ended: TableChange<Ends<'a>, Ends<'a>>,
}

/// The number that stands for a state in the table.
pub(crate) fn state_number(state: DependencyState) -> i16 {
    DependencyState::ALL.iter().position(|other| *other == state).and_then(|place| place.try_into().ok()).unwrap_or(0)
}

/// The columns of notes of ended tasks.
pub(crate) fn ended_rows(noted: &[EndedRow]) -> impl RowSet {
    let mut ends = Ends::default();
    noted.iter().for_each(|row| ends.push(end(row)));
    ends
}

fn end(row: &EndedRow) -> End<'static> {
    let EndedRow { queue, status, ended_at, key } = row;
    End { queue: queue.0, status: status.as_str(), ended_at: ended_at.as_micros(), key: key.0 }
}

impl<'a> DerivedChanges<'a> {
    /// Adds what follows from the change of a task.
    pub(crate) fn add_task(
        &mut self,
        key: TaskKey,
        entry: &'a Entry,
        delta: &Delta<'a>,
        settings: Option<&QueueSettings>,
        now: Timestamp,
    ) {
        self.add_pending(entry.queue, key, &delta.pending, now);
        let (before, after) = (entry.stored.as_ref(), (!entry.deleted).then_some(&entry.head));
        self.add_unsuccessful(key, entry.queue, before, after);
        if let Some(settings) = settings.filter(|settings| settings.retention != Retention::default()) {
            let noted = |head: Option<&TaskHead>| {
                let (status, ended_at) = noted_end(&settings.retention, head?)?;
                Some(EndedRow { queue: entry.queue, status, ended_at, key })
            };
            let (before, after) = (noted(before), noted(after));
            if before != after {
                before.iter().for_each(|row| self.ended.removed.push(end(row)));
                after.iter().for_each(|row| self.ended.added.push(end(row)));
            }
        }
        // Another run than before may be one of another route.
        if delta.run.removed.is_some() {
            self.running.removed.push(key.0);
        }
        if delta.run.added.is_some() {
            // Only where they are counted.
            let counted = settings.filter(|settings| settings.limits_claims()).map(|_| entry.queue.0);
            let route = counted.and(entry.head.lifecycle.last_route.as_ref()).map(Route::as_str);
            self.running.added.push(RunningRow { key: key.0, queue: counted, route });
        }
    }

    /// A task whose dependencies are not met is neither in the pending order nor among the delayed ones.
    fn add_pending(&mut self, queue: QueueKey, key: TaskKey, pending: &Difference<PendingEntry<'a>>, now: Timestamp) {
        let delayed =
            |not_before: Timestamp| DelayedRow { queue: queue.0, not_before: not_before.as_micros(), key: key.0 };
        if let Some(removed) = pending.removed.filter(|removed| !removed.blocked) {
            // Whether it was moved since its time has come is not known here.
            if let Some(not_before) = removed.not_before {
                self.delayed.removed.push(delayed(not_before));
            }
            let PendingEntry { routes, priority, pending_seq, .. } = removed;
            for route in routes.iter() {
                self.ready.removed.push(RemovedReadyRow { queue: queue.0, route, priority, pending_seq });
            }
        }
        let Some(added) = pending.added else { return };
        match added.place(now) {
            PendingPlace::Blocked => {}
            PendingPlace::Delayed(not_before) => self.delayed.added.push(delayed(not_before)),
            PendingPlace::Order => {
                let PendingEntry { routes, priority, pending_seq, .. } = added;
                for route in routes.iter() {
                    let row = AddedReadyRow { queue: queue.0, route, priority, pending_seq, key: key.0 };
                    self.ready.added.push(row);
                }
            }
        }
    }

    /// Notes a task that begins or ceases to be one that ended without success.
    fn add_unsuccessful(&mut self, key: TaskKey, queue: QueueKey, before: Option<&TaskHead>, after: Option<&TaskHead>) {
        let status = |head: &TaskHead| Some(head.lifecycle.status).filter(|own| Statuses::UNSUCCESSFUL.contains(*own));
        let (before, after): (Option<Status>, Option<Status>) = (before.and_then(status), after.and_then(status));
        if before == after {
            return;
        }
        if before.is_some() {
            self.unsuccessful.removed.push(key.0);
        }
        if let Some(status) = after {
            self.unsuccessful.added.push(UnsuccessfulRow { key: key.0, queue: queue.0, status: status.as_str() });
        }
    }

    /// Adds what is noted of tasks that wait for others, and which of these are new.
    pub(crate) fn add_dependencies(&mut self, rows: &'a DependencyRows, is_new: impl Fn(&TaskKey) -> bool) {
        for ((queue, dependency, task), noted) in rows.pairs.iter().filter(|(_, noted)| noted.changed) {
            let (queue, dependency, key) = (queue.0, dependency.as_str(), task.0);
            match noted.state.map(|state| SavedDependency { queue, dependency, key, state: state_number(state) }) {
                Some(saved) if is_new(task) => self.new_dependencies.push(saved),
                Some(saved) => self.dependencies.added.push(saved),
                None => self.dependencies.removed.push(RemovedDependency { queue, dependency, key }),
            }
        }
        self.unsettled.removed.extend(&rows.worked_off);
        for (queue, dependency, was_missing) in &rows.unsettled {
            let row = UnsettledRow { queue: queue.0, dependency: dependency.as_str(), was_missing: *was_missing };
            self.unsettled.added.push(row);
        }
    }

    /// The writes in the order of [`DERIVED_TABLES`].
    pub(crate) fn writes(&self) -> impl Iterator<Item = Option<Write<'_>>> {
        let writes = [
            self.ready.writes(&READY),
            self.delayed.writes(&DELAYED),
            self.dependencies.writes(&DEPENDENCIES),
            [self.new_dependencies.write(&sql::INSERT_DEPENDENCIES), None],
            self.unsettled.writes(&UNSETTLED),
            self.running.writes(&RUNNING),
            self.unsuccessful.writes(&UNSUCCESSFUL),
            self.ended.writes(&ENDED),
        ];
        writes.into_iter().flatten()
    }

    /// How many entries of the pending order and of the delayed tasks these writes leave behind as dead.
    pub(crate) fn dead_entries(&self) -> usize {
        self.ready.removed.count() + self.delayed.removed.count()
    }
}

/// What a transaction writes of output.
#[derive(Default)]
pub(crate) struct OutputChanges<'a> {
    appended: Pieces<'a>,
    deleted: Offsets,
    cut: Offsets,
    inserted: Pieces<'a>,
    outputs: Outputs<'a>,
}

impl<'a> OutputChanges<'a> {
    pub(crate) fn of(rows: &'a TransactionRows) -> Self {
        let mut changes = Self::default();
        for (key, output) in &rows.outputs {
            // What a task has printed goes with it.
            let is_there = rows.tasks.get(key).is_some_and(|entry| !entry.deleted);
            if let Some(output) = output.write().filter(|_| is_there) {
                changes.add(*key, &output);
            }
        }
        changes
    }

    fn add(&mut self, key: TaskKey, write: &OutputWrite<'a>) {
        let offset = |at: u64| Offset { key: key.0, at: offset_column(at) };
        write.cut_at.into_iter().for_each(|at| self.cut.push(offset(at)));
        write.delete_before.into_iter().for_each(|at| self.deleted.push(offset(at)));
        if let Some((start, bytes)) = write.appended {
            self.appended.push(Piece { key: key.0, start: offset_column(start), bytes });
        }
        for (start, bytes) in write.inserted {
            self.inserted.push(Piece { key: key.0, start: offset_column(*start), bytes });
        }
        let kept = write.kept;
        self.outputs.push(OutputRow {
            key: key.0,
            run_id: kept.run_id.as_str(),
            attempt: kept.attempt,
            parts: parts_text(&kept.parts),
            last_start: offset_column(write.last_start),
            end: offset_column(kept.end()),
            bytes: offset_column(kept.parts.iter().map(|part| part.bytes()).sum()),
        });
    }

    /// The writes in their order: a piece grows before it is judged whether all of it is pushed out, and what is pushed out is there
    /// no more when it comes back, or when another run prints at the same offset.
    pub(crate) fn writes(&self) -> [Option<Write<'_>>; 5] {
        [
            self.appended.write(&sql::APPEND_OUTPUT),
            self.deleted.write(&sql::DELETE_OUTPUT_PIECES),
            self.cut.write(&sql::CUT_OUTPUT_PIECES),
            self.inserted.write(&sql::INSERT_OUTPUT_PIECES),
            self.outputs.write(&sql::SAVE_OUTPUTS),
        ]
    }
}
