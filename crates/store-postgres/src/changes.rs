//! What a transaction writes: the difference between the loaded rows as its commands left them and what the database holds,
//! as columns of set statements. Each statement writes all rows of its kind at once.

use std::collections::BTreeMap;

use taskqueue_core::definition::Routes;
use taskqueue_core::delta::Delta;
use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::lifecycle::{ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::status::Statuses;
use taskqueue_core::task::{Lifecycle, Progress, RunEnd, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use crate::rows;
use crate::session::Sql;
use crate::statements as sql;
use crate::transaction_rows::{Entry, TransactionRows};

/// One statement and the values of its parameters.
pub(crate) type Write<'a> = (&'static Sql, Vec<&'a (dyn ToSql + Sync)>);

/// Declares the parameters of set statements: a struct for one row, and one with a vector for each column. The columns have
/// the order of the statement's parameters.
macro_rules! sets {
    ($($set:ident of $row:ident { $first:ident: $first_type:ty, $($column:ident: $type:ty,)* })*) => {$(
        struct $row<'a> {
            $first: $first_type,
            $($column: $type,)*
        }

        #[derive(Default)]
        struct $set<'a> {
            $first: Vec<$first_type>,
            $($column: Vec<$type>,)*
        }

        impl<'a> $set<'a> {
            fn push(&mut self, row: $row<'a>) {
                self.$first.push(row.$first);
                $(self.$column.push(row.$column);)*
            }

            /// The statement with these columns, if there is a row to write.
            fn write(&self, sql: &'static Sql) -> Option<Write<'_>> {
                let params: Vec<&(dyn ToSql + Sync)> = vec![&self.$first, $(&self.$column),*];
                (!self.$first.is_empty()).then_some((sql, params))
            }
        }
    )*};
}

mod bulk;
mod dependencies;
mod ended;
mod observations;
mod output;
mod parts;
mod pending;

use self::bulk::BulkWrite;
use self::dependencies::DependencyWrites;
pub(crate) use self::dependencies::state_number;
use self::ended::EndedWrites;
use self::observations::ObservationWrites;
use self::output::OutputWrites;
use self::parts::{Parts, write_keys};
use self::pending::PendingWrites;

sets! {
    Queues of Queue { key: i64, name: &'a str, }

    NewTasks of NewTask {
        key: i64,
        queue: i64,
        id: &'a str,
        status: &'a str,
        name: Option<&'a str>,
        priority: i64,
        attempt: i64,
        max_attempts: i64,
        routes: &'a str,
        last_route: Option<&'a str>,
        created_at: i64,
        updated_at: i64,
        started_at: Option<i64>,
        finished_at: Option<i64>,
        pending_seq: i64,
        run_id: Option<&'a str>,
        lease_expires_at: Option<i64>,
        finished_run_id: Option<&'a str>,
        finished_run_end: Option<&'a str>,
        definition_bytes: i64,
        progress_bytes: Option<i64>,
        not_before: Option<i64>,
        unmet: Option<i32>,
        archived: Option<bool>,
        times_out_at: Option<i64>,
        scheduling: Option<&'a str>,
    }

    Lifecycles of LifecycleRow {
        key: i64,
        status: &'a str,
        attempt: i64,
        pending_seq: i64,
        last_route: Option<&'a str>,
        updated_at: i64,
        started_at: Option<i64>,
        finished_at: Option<i64>,
        run_id: Option<&'a str>,
        lease_expires_at: Option<i64>,
        finished_run_id: Option<&'a str>,
        finished_run_end: Option<&'a str>,
        progress_bytes: Option<i64>,
        not_before: Option<i64>,
        unmet: Option<i32>,
        archived: Option<bool>,
        times_out_at: Option<i64>,
    }

    Heads of HeadRow {
        key: i64,
        priority: i64,
        max_attempts: i64,
        routes: &'a str,
        definition_bytes: i64,
        updated_at: i64,
        scheduling: Option<&'a str>,
    }

    Names of Name { key: i64, name: Option<&'a str>, }

    NewDefinitions of NewDefinition { key: i64, identity: &'a [u8], args: &'a str, metadata: &'a str, }

    Definitions of DefinitionRow { key: i64, args: &'a str, metadata: &'a str, }

    Results of ResultRow { key: i64, result: &'a str, }

    Errors of ErrorRow { key: i64, error: String, occurred_at: i64, attempt: i64, run_id: Option<&'a str>, }

    LastRuns of LastRunRow { key: i64, attempt: i64, worker: &'a str, }

    Progresses of ProgressRow { key: i64, progress: &'a str, updated_at: i64, attempt: i64, }

    AddedUnsuccessful of UnsuccessfulRow { key: i64, queue: i64, status: &'a str, }

    StartedTasks of StartedTask { key: i64, queue: Option<i64>, route: Option<&'a str>, }

    Runs of RunRow { run_id: &'a str, key: i64, kept_until: Option<i64>, }

    Tally of TallyRow { queue: i64, routes: &'a str, status: &'a str, tasks: i64, shard: i16, }
}

/// Differences of the counts, in the order in which every transaction writes them.
type TallyDifferences<'a> = BTreeMap<(QueueKey, &'a Routes, &'static str, bool), i64>;

/// Everything that is to be written, by column.
#[derive(Default)]
pub(crate) struct Changes<'a> {
    new_queues: Queues<'a>,
    new_tasks: NewTasks<'a>,
    lifecycles: Lifecycles<'a>,
    heads: Heads<'a>,
    names: Names<'a>,
    new_definitions: Parts<NewDefinitions<'a>>,
    definitions: Definitions<'a>,
    results: Parts<Results<'a>>,
    cleared_results: Vec<i64>,
    errors: Parts<Errors<'a>>,
    cleared_errors: Vec<i64>,
    last_runs: LastRuns<'a>,
    cleared_last_runs: Vec<i64>,
    progresses: Progresses<'a>,
    cleared_progress: Vec<i64>,
    pending: PendingWrites<'a>,
    dependencies: DependencyWrites<'a>,
    ended_tasks: Vec<i64>,
    started_tasks: StartedTasks<'a>,
    removed_unsuccessful: Vec<i64>,
    added_unsuccessful: AddedUnsuccessful<'a>,
    new_runs: Runs<'a>,
    deleted_tasks: Vec<i64>,
    deleted_runs_kept_until: i64,
    ended: EndedWrites<'a>,
    observations: ObservationWrites<'a>,
    output: OutputWrites<'a>,
    tally: Tally<'a>,
    bulk: Option<BulkWrite<'a>>,
}

/// The shard in which archived tasks are counted.
pub(crate) fn archived_shard(shard: i16) -> i16 {
    -1 - shard
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

fn lifecycle_row(key: TaskKey, head: &TaskHead) -> LifecycleRow<'_> {
    let lifecycle = &head.lifecycle;
    let (run, finished) = (lifecycle.run.as_ref(), lifecycle.finished_run.as_ref());
    LifecycleRow {
        key: key.0,
        status: lifecycle.status.as_str(),
        attempt: lifecycle.attempt,
        pending_seq: lifecycle.pending_seq,
        last_route: lifecycle.last_route.as_ref().map(Route::as_str),
        updated_at: lifecycle.updated_at.as_micros(),
        started_at: micros(lifecycle.started_at),
        finished_at: micros(lifecycle.finished_at),
        run_id: run.map(|run| run.run_id.as_str()),
        lease_expires_at: run.map(|run| run.lease_expires_at.as_micros()),
        finished_run_id: finished.map(|run| run.run_id.as_str()),
        finished_run_end: finished.map(|run| run.end).map(RunEnd::as_str),
        progress_bytes: i64::try_from(head.progress_bytes).ok().filter(|bytes| *bytes > 0),
        not_before: micros(lifecycle.not_before),
        unmet: i32::try_from(lifecycle.unmet).ok().filter(|unmet| *unmet > 0),
        archived: lifecycle.archived.then_some(true),
        times_out_at: micros(run.and_then(|run| run.times_out_at)),
    }
}

fn head_row(key: TaskKey, head: &TaskHead) -> HeadRow<'_> {
    HeadRow {
        key: key.0,
        priority: head.priority,
        max_attempts: head.max_attempts,
        routes: head.routes.as_json(),
        definition_bytes: i64::try_from(head.definition_bytes).unwrap_or(i64::MAX),
        updated_at: head.lifecycle.updated_at.as_micros(),
        scheduling: head.scheduling.as_json(),
    }
}

impl<'a> Changes<'a> {
    /// What is different from the database. The tally is written to this shard; by the time it is decided what is claimable.
    pub(crate) fn of(rows: &'a TransactionRows, shard: i16, now: Timestamp) -> Self {
        let kept_until = rows.deleted_runs_kept_until.as_micros();
        let mut changes = Self { deleted_runs_kept_until: kept_until, ..Self::default() };
        let mut tally = TallyDifferences::new();
        for (name, key) in &rows.new_queues {
            changes.new_queues.push(Queue { key: key.0, name: name.as_str() });
        }
        for (key, entry) in &rows.tasks {
            let settings = rows.settings.get(&entry.queue).and_then(Option::as_deref);
            changes.add_task(*key, entry, settings, now, &mut tally);
        }
        // A task may have been claimed, cancelled and deleted at once.
        let deleted = |key: &TaskKey| rows.tasks.get(key).is_none_or(|entry| entry.deleted);
        for (run_id, key) in &rows.new_runs {
            let kept_until = deleted(key).then_some(kept_until);
            changes.new_runs.push(RunRow { run_id: run_id.as_str(), key: key.0, kept_until });
        }
        changes.dependencies = DependencyWrites::of(&rows.dependencies);
        changes.observations = ObservationWrites::of(rows);
        changes.output = OutputWrites::of(rows);
        if let Some(values) = &rows.bulk_values {
            changes.add_bulk_values(values);
        }
        for ((queue, routes, status, archived), tasks) in tally.into_iter().filter(|(_, tasks)| *tasks != 0) {
            let shard = if archived { archived_shard(shard) } else { shard };
            changes.tally.push(TallyRow { queue: queue.0, routes: routes.as_json(), status, tasks, shard });
        }
        changes
    }

    fn add_task(
        &mut self,
        key: TaskKey,
        entry: &'a Entry,
        settings: Option<&QueueSettings>,
        now: Timestamp,
        tally: &mut TallyDifferences<'a>,
    ) {
        let after = (!entry.deleted).then_some(&entry.head);
        match (&entry.stored, after) {
            (Some(_), None) => self.deleted_tasks.push(key.0),
            (None, Some(_)) => self.add_new_task(key, entry),
            (Some(stored), Some(_)) => self.add_changed_task(key, entry, &stored.lifecycle),
            (None, None) => {}
        }
        let delta = Delta::between(entry.stored.as_ref(), after);
        for (line, difference) in [(delta.tally.removed, -1), (delta.tally.added, 1)] {
            if let Some(line) = line {
                *tally.entry((entry.queue, line.routes, line.status.as_str(), line.archived)).or_default() +=
                    difference;
            }
        }
        self.pending.add(entry.queue, key, delta.pending, now);
        self.add_unsuccessful(key, entry.queue, entry.stored.as_ref(), after);
        if let Some(settings) = settings.filter(|settings| !settings.retention.is_unused()) {
            self.ended.add(key, entry.queue, &settings.retention, entry.stored.as_ref(), after);
        }
        // Another run than before may be one of another route.
        match (delta.run.removed, delta.run.added) {
            (None, None) => {}
            (removed, added) => {
                if removed.is_some() {
                    self.ended_tasks.push(key.0);
                }
                if added.is_some() {
                    // Only where they are counted.
                    let counted = settings.filter(|settings| settings.limits_claims()).map(|_| entry.queue.0);
                    let route = counted.and(entry.head.lifecycle.last_route.as_ref()).map(Route::as_str);
                    self.started_tasks.push(StartedTask { key: key.0, queue: counted, route });
                }
            }
        }
    }

    /// Notes a task that begins or ceases to be one that ended without success.
    fn add_unsuccessful(&mut self, key: TaskKey, queue: QueueKey, before: Option<&TaskHead>, after: Option<&TaskHead>) {
        let status = |head: &TaskHead| Some(head.lifecycle.status).filter(|own| Statuses::UNSUCCESSFUL.contains(*own));
        let (before, after) = (before.and_then(status), after.and_then(status));
        if before == after {
            return;
        }
        if before.is_some() {
            self.removed_unsuccessful.push(key.0);
        }
        if let Some(status) = after {
            self.added_unsuccessful.push(UnsuccessfulRow { key: key.0, queue: queue.0, status: status.as_str() });
        }
    }

    fn add_new_task(&mut self, key: TaskKey, entry: &'a Entry) {
        let (body, lifecycle) = (entry.body.as_ref(), lifecycle_row(key, &entry.head));
        let head = head_row(key, &entry.head);
        self.new_tasks.push(NewTask {
            key: key.0,
            queue: entry.queue.0,
            id: entry.head.id.as_str(),
            status: lifecycle.status,
            name: body.and_then(|body| body.definition.name.as_deref()),
            priority: head.priority,
            attempt: lifecycle.attempt,
            max_attempts: head.max_attempts,
            routes: head.routes,
            last_route: lifecycle.last_route,
            created_at: entry.head.lifecycle.created_at.as_micros(),
            updated_at: lifecycle.updated_at,
            started_at: lifecycle.started_at,
            finished_at: lifecycle.finished_at,
            pending_seq: lifecycle.pending_seq,
            run_id: lifecycle.run_id,
            lease_expires_at: lifecycle.lease_expires_at,
            finished_run_id: lifecycle.finished_run_id,
            finished_run_end: lifecycle.finished_run_end,
            definition_bytes: head.definition_bytes,
            progress_bytes: lifecycle.progress_bytes,
            not_before: lifecycle.not_before,
            unmet: lifecycle.unmet,
            archived: lifecycle.archived,
            times_out_at: lifecycle.times_out_at,
            scheduling: head.scheduling,
        });
        if let (Some(body), Some(identity)) = (body, &entry.identity) {
            let (args, metadata) = (body.definition.args.as_str(), body.definition.metadata.as_str());
            let bytes = args.len() + metadata.len();
            self.new_definitions.for_row(bytes).push(NewDefinition { key: key.0, identity, args, metadata });
        }
        self.add_outcome(key, entry);
    }

    fn add_changed_task(&mut self, key: TaskKey, entry: &'a Entry, stored: &Lifecycle) {
        let lifecycle = &entry.head.lifecycle;
        // An update changes nothing of the lifecycle but the time of the last change, which is saved with the head.
        let only_updated = entry.updated && Lifecycle { updated_at: stored.updated_at, ..lifecycle.clone() } == *stored;
        // Also if the progress is of the same size as before: bulk actions see by the version of this row that it has changed.
        let progresses = entry.progress != ProgressChange::Keep;
        if progresses || (lifecycle != stored && !only_updated) {
            self.lifecycles.push(lifecycle_row(key, &entry.head));
        }
        if entry.updated {
            self.heads.push(head_row(key, &entry.head));
        }
        if let Some(body) = &entry.body {
            if entry.renamed {
                self.names.push(Name { key: key.0, name: body.definition.name.as_deref() });
            }
            if entry.redefined {
                let (args, metadata) = (body.definition.args.as_str(), body.definition.metadata.as_str());
                self.definitions.push(DefinitionRow { key: key.0, args, metadata });
            }
        }
        self.add_outcome(key, entry);
    }

    fn add_outcome(&mut self, key: TaskKey, entry: &'a Entry) {
        match entry.result.as_ref().map(|result| (result.is_empty_object(), result.as_str())) {
            Some((true, _)) => self.cleared_results.push(key.0),
            Some((false, result)) => self.results.for_row(result.len()).push(ResultRow { key: key.0, result }),
            None => {}
        }
        match &entry.error {
            ErrorChange::Keep => {}
            ErrorChange::Clear => self.cleared_errors.push(key.0),
            ErrorChange::Set(set) => {
                let (error, occurred_at) = (rows::error_text(&set.failure), set.occurred_at.as_micros());
                let (attempt, run_id) = (set.attempt, set.run_id.as_ref().map(RunId::as_str));
                self.errors.for_row(error.len()).push(ErrorRow { key: key.0, error, occurred_at, attempt, run_id });
            }
        }
        match &entry.last_run {
            LastRunChange::Keep => {}
            LastRunChange::Clear => self.cleared_last_runs.push(key.0),
            LastRunChange::Set(run) => {
                self.last_runs.push(LastRunRow { key: key.0, attempt: run.attempt, worker: run.worker.as_str() });
            }
        }
        match &entry.progress {
            ProgressChange::Keep => {}
            ProgressChange::Clear => self.cleared_progress.push(key.0),
            ProgressChange::Set(Progress { value, updated_at, attempt }) => self.progresses.push(ProgressRow {
                key: key.0,
                progress: value.as_str(),
                updated_at: updated_at.as_micros(),
                attempt: *attempt,
            }),
        }
    }

    /// The statements that have something to write, in the same order in every transaction, so that transactions that wait
    /// for each other cannot wait in a circle.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let mut deleted_tasks = write_keys(&sql::DELETE_TASKS, &self.deleted_tasks);
        deleted_tasks.iter_mut().for_each(|(_, params)| params.push(&self.deleted_runs_kept_until));
        let [forgotten_ends, noted_ends] = self.ended.writes();
        let [removed_ready, added_ready, removed_delayed, added_delayed] = self.pending.writes();
        let [removed_dependencies, saved_dependencies, worked_off, unsettled] = self.dependencies.writes();
        let [locked_observations, withdrawn_observations, observations, telemetry] = self.observations.writes();
        let [appended_output, deleted_pieces, cut_pieces, output_pieces, outputs] = self.output.writes();
        let [args, metadata, results] = self.bulk.as_ref().map(BulkWrite::writes).unwrap_or_default();
        let mut writes = vec![
            self.new_queues.write(&sql::INSERT_QUEUES),
            // Before the new ones: an id may be deleted and created again.
            deleted_tasks,
            self.new_tasks.write(&sql::INSERT_TASKS),
        ];
        writes.extend(self.new_definitions.writes(|part| part.write(&sql::INSERT_DEFINITIONS)));
        writes.extend([
            self.lifecycles.write(&sql::SAVE_LIFECYCLES),
            self.heads.write(&sql::SAVE_HEADS),
            self.names.write(&sql::SAVE_NAMES),
            self.definitions.write(&sql::SAVE_DEFINITIONS),
        ]);
        writes.extend(self.results.writes(|part| part.write(&sql::SAVE_RESULTS)));
        writes.push(write_keys(&sql::CLEAR_RESULTS, &self.cleared_results));
        writes.extend(self.errors.writes(|part| part.write(&sql::SAVE_ERRORS)));
        writes.extend([
            write_keys(&sql::CLEAR_ERRORS, &self.cleared_errors),
            self.last_runs.write(&sql::SAVE_LAST_RUNS),
            write_keys(&sql::CLEAR_LAST_RUNS, &self.cleared_last_runs),
            self.progresses.write(&sql::SAVE_PROGRESS),
            write_keys(&sql::CLEAR_PROGRESS, &self.cleared_progress),
            removed_ready,
            added_ready,
            removed_delayed,
            added_delayed,
            removed_dependencies,
            saved_dependencies,
            worked_off,
            unsettled,
            write_keys(&sql::DELETE_RUNNING, &self.ended_tasks),
            self.started_tasks.write(&sql::INSERT_RUNNING),
            write_keys(&sql::DELETE_UNSUCCESSFUL, &self.removed_unsuccessful),
            self.added_unsuccessful.write(&sql::INSERT_UNSUCCESSFUL),
            forgotten_ends,
            noted_ends,
            self.new_runs.write(&sql::INSERT_RUNS),
            appended_output,
            deleted_pieces,
            cut_pieces,
            output_pieces,
            outputs,
            locked_observations,
            withdrawn_observations,
            observations,
            telemetry,
            self.tally.write(&sql::ADD_TALLY),
            args,
            metadata,
            results,
        ]);
        writes.into_iter().flatten().collect()
    }

    /// How many rows of the pending order these writes leave behind as dead.
    pub(crate) fn dead_entries(&self) -> usize {
        self.pending.dead_entries()
    }
}
