//! What a transaction writes: the difference between the loaded rows as its commands left them and what the database holds,
//! as columns of set statements. Each statement writes all rows of its kind at once.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::delta::Delta;
use taskqueue_core::lifecycle::{ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::task::Progress;
use taskqueue_core::update::Documents;
use taskqueue_core::{JsonObject, Lifecycle, QueueSettings, Route, Routes, RunEnd, RunId, TaskHead, TaskId, Timestamp};
use taskqueue_store::{QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use self::sets::Parts;
pub(crate) use self::sets::{RowSet, Write, sets};
use crate::derived_tables::{DerivedChanges, OutputChanges};
use crate::session::Sql;
use crate::transaction_rows::{BulkValues, ChangedObservation, Entry, TransactionRows};
use crate::{rows, statements as sql};

mod sets;

sets! {
    Queues of Queue<'a> { key: i64, name: &'a str, }

    NewParts of NewPart<'a> { queue: i64, id: &'a str, name: Option<&'a str>, created_at: i64, }

    Lifecycles of LifecycleRow<'a> {
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

    Heads of HeadRow<'a> {
        key: i64,
        updated_at: i64,
        priority: i64,
        max_attempts: i64,
        routes: &'a str,
        definition_bytes: i64,
        scheduling: Option<&'a str>,
    }

    Names of Name<'a> { key: i64, name: Option<&'a str>, }

    NewDefinitions of NewDefinition<'a> { key: i64, identity: &'a [u8], args: &'a str, metadata: &'a str, }

    Definitions of DefinitionRow<'a> { key: i64, args: &'a str, metadata: &'a str, }

    Results of ResultRow<'a> { key: i64, result: &'a str, }

    Errors of ErrorRow<'a> { key: i64, error: String, occurred_at: i64, attempt: i64, run_id: Option<&'a str>, }

    LastRuns of LastRunRow<'a> { key: i64, attempt: i64, worker: &'a str, }

    Progresses of ProgressRow<'a> { key: i64, progress: &'a str, updated_at: i64, attempt: i64, }

    Runs of RunRow<'a> { run_id: &'a str, key: i64, kept_until: Option<i64>, }

    Tally of TallyRow<'a> { queue: i64, routes: &'a str, status: &'a str, tasks: i64, shard: i16, }
}

/// The narrow rows of new tasks: what actions change of them, what updates change, and the rest.
#[derive(Default)]
struct NewTasks<'a> {
    lifecycles: Lifecycles<'a>,
    heads: Heads<'a>,
    parts: NewParts<'a>,
}

impl RowSet for NewTasks<'_> {
    fn count(&self) -> usize {
        self.parts.count()
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        // The lifecycles have the key and the time of the last change, with which the heads begin.
        let heads = self.heads.columns().into_iter().skip(2);
        self.lifecycles.columns().into_iter().chain(heads).chain(self.parts.columns()).collect()
    }
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
    derived: DerivedChanges<'a>,
    new_runs: Runs<'a>,
    deleted_tasks: Vec<i64>,
    deleted_runs_kept_until: i64,
    observations: ObservationChanges<'a>,
    output: OutputChanges<'a>,
    tally: Tally<'a>,
    /// One value for the tasks with these keys.
    bulk: Vec<(&'static Sql, &'a Vec<i64>, &'a str)>,
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
        let is_new = |task: &TaskKey| rows.tasks.get(task).is_some_and(|entry| entry.stored.is_none());
        changes.derived.add_dependencies(&rows.dependencies, is_new);
        changes.observations = ObservationChanges::of(rows);
        changes.output = OutputChanges::of(rows);
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
        self.derived.add_task(key, entry, &delta, settings, now);
    }

    fn add_new_task(&mut self, key: TaskKey, entry: &'a Entry) {
        let body = entry.body.as_ref();
        self.new_tasks.lifecycles.push(lifecycle_row(key, &entry.head));
        self.new_tasks.heads.push(head_row(key, &entry.head));
        self.new_tasks.parts.push(NewPart {
            queue: entry.queue.0,
            id: entry.head.id.as_str(),
            name: body.and_then(|body| body.definition.name.as_deref()),
            created_at: entry.head.lifecycle.created_at.as_micros(),
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

    /// Adds the values that a bulk update gives to many tasks, each of which is sent once.
    fn add_bulk_values(&mut self, values: &'a BulkValues) {
        let update = &values.update;
        let text = |json: &'a Option<JsonObject>| json.as_ref().map(JsonObject::as_str);
        let name = update.name.as_ref().and_then(Option::as_deref);
        values.names.iter().for_each(|key| self.names.push(Name { key: *key, name }));
        for (key, Documents { args, metadata }) in &values.merged {
            self.definitions.push(DefinitionRow { key: *key, args: args.as_str(), metadata: metadata.as_str() });
        }
        let mut result = text(&update.result);
        if update.result.as_ref().is_some_and(JsonObject::is_empty_object) {
            self.cleared_results.extend(&values.results);
            result = None;
        }
        let one_value = [
            (&sql::SAVE_ONE_ARGS, &values.args, text(&update.args)),
            (&sql::SAVE_ONE_METADATA, &values.metadata, text(&update.metadata)),
            (&sql::SAVE_ONE_RESULT, &values.results, result),
        ];
        let written = one_value.into_iter().filter(|(_, keys, _)| !keys.is_empty());
        self.bulk.extend(written.filter_map(|(sql, keys, value)| Some((sql, keys, value?))));
    }

    /// The statements that have something to write, in the same order in every transaction, so that transactions that wait
    /// for each other cannot wait in a circle.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let mut deleted_tasks = self.deleted_tasks.write(&sql::DELETE_TASKS);
        deleted_tasks.iter_mut().for_each(|(_, params)| params.push(&self.deleted_runs_kept_until));
        let mut writes = vec![
            self.new_queues.write(&sql::INSERT_QUEUES),
            // Before the new ones: an id may be deleted and created again.
            deleted_tasks,
            self.new_tasks.write(&sql::INSERT_TASKS),
        ];
        writes.extend(self.new_definitions.writes(&sql::INSERT_DEFINITIONS));
        writes.extend([
            self.lifecycles.write(&sql::SAVE_LIFECYCLES),
            self.heads.write(&sql::SAVE_HEADS),
            self.names.write(&sql::SAVE_NAMES),
            self.definitions.write(&sql::SAVE_DEFINITIONS),
        ]);
        writes.extend(self.results.writes(&sql::SAVE_RESULTS));
        writes.push(self.cleared_results.write(&sql::CLEAR_RESULTS));
        writes.extend(self.errors.writes(&sql::SAVE_ERRORS));
        writes.extend([
            self.cleared_errors.write(&sql::CLEAR_ERRORS),
            self.last_runs.write(&sql::SAVE_LAST_RUNS),
            self.cleared_last_runs.write(&sql::CLEAR_LAST_RUNS),
            self.progresses.write(&sql::SAVE_PROGRESS),
            self.cleared_progress.write(&sql::CLEAR_PROGRESS),
        ]);
        writes.extend(self.derived.writes());
        writes.push(self.new_runs.write(&sql::INSERT_RUNS));
        writes.extend(self.output.writes());
        writes.extend(self.observations.writes());
        writes.push(self.tally.write(&sql::ADD_TALLY));
        let of_bulk = self.bulk.iter().map(|(sql, keys, value)| -> Write<'_> { (sql, vec![*keys, value]) });
        writes.into_iter().flatten().chain(of_bulk).collect()
    }

    /// How many entries of the pending order and of the delayed tasks these writes leave behind as dead.
    pub(crate) fn dead_entries(&self) -> usize {
        self.derived.dead_entries()
    }
}

// The writes of observations.

sets! {
    Reports of ReportRow<'a> {
        queue: i64,
        id: &'a str,
        route: &'a str,
        status: &'a str,
        task_id: Option<&'a str>,
        last_seen_at: i64,
        expires_at: i64,
        metadata: &'a str,
        telemetry: Option<&'a str>,
        telemetry_updated_at: Option<i64>,
    }

    Measurements of MeasurementRow<'a> { queue: i64, id: &'a str, telemetry: &'a str, updated_at: i64, }

    Workers of Worker<'a> { queue: i64, id: &'a str, }
}

#[derive(Default)]
struct ObservationChanges<'a> {
    /// Only where several statements follow: a single one locks in the order of the keys by itself.
    locks: Workers<'a>,
    withdrawals: Workers<'a>,
    reports: Reports<'a>,
    measurements: Measurements<'a>,
}

impl<'a> ObservationChanges<'a> {
    fn of(rows: &'a TransactionRows) -> Self {
        let mut changes = Self::default();
        for (queue, id) in &rows.withdrawn_observations {
            changes.withdrawals.push(Worker { queue: queue.0, id: id.as_str() });
        }
        for ((queue, id), ChangedObservation { observation, reported }) in &rows.changed_observations {
            let (report, telemetry) = (&observation.report, observation.telemetry.as_ref());
            if !reported {
                let Some(telemetry) = telemetry else { continue };
                changes.measurements.push(MeasurementRow {
                    queue: queue.0,
                    id: id.as_str(),
                    telemetry: telemetry.value.as_str(),
                    updated_at: telemetry.updated_at.as_micros(),
                });
                continue;
            }
            changes.reports.push(ReportRow {
                queue: queue.0,
                id: id.as_str(),
                route: report.route.as_str(),
                status: report.status.as_str(),
                task_id: report.task_id.as_ref().map(TaskId::as_str),
                last_seen_at: observation.last_seen_at.as_micros(),
                expires_at: observation.expires_at.as_micros(),
                metadata: report.metadata.as_str(),
                telemetry: telemetry.map(|telemetry| telemetry.value.as_str()),
                telemetry_updated_at: telemetry.map(|telemetry| telemetry.updated_at.as_micros()),
            });
        }
        let kinds = [changes.withdrawals.count(), changes.reports.count(), changes.measurements.count()];
        if kinds.into_iter().filter(|rows| *rows > 0).count() > 1 {
            let changed = rows.changed_observations.keys().chain(&rows.withdrawn_observations);
            for (queue, id) in changed.collect::<BTreeSet<_>>() {
                changes.locks.push(Worker { queue: queue.0, id: id.as_str() });
            }
        }
        changes
    }

    /// Withdrawals first: a worker may be withdrawn and reported again, and then nothing of what was before is kept.
    fn writes(&self) -> [Option<Write<'_>>; 4] {
        [
            self.locks.write(&sql::LOCK_OBSERVATIONS),
            self.withdrawals.write(&sql::DELETE_OBSERVATIONS),
            self.reports.write(&sql::SAVE_OBSERVATIONS),
            self.measurements.write(&sql::SAVE_TELEMETRY),
        ]
    }
}
