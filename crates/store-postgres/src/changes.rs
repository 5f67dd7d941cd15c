//! What a transaction writes: the difference between what its commands made of the loaded rows and what the database
//! holds, as columns of set statements. Each statement writes all rows of its kind at once.

use std::collections::BTreeMap;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{Route, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::ErrorChange;
use taskqueue_core::task::{Lifecycle, RunEnd, Status, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Update;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use crate::rows;
use crate::session::Sql;
use crate::statements as sql;
use crate::workspace::{Alike, Entry, Workspace};

type Text<'a> = Vec<&'a str>;
type TextOrNull<'a> = Vec<Option<&'a str>>;
type Int = Vec<i64>;
type IntOrNull = Vec<Option<i64>>;

/// One statement and the columns it takes.
pub(crate) type Write<'a> = (&'static Sql, Vec<&'a (dyn ToSql + Sync)>);

/// Everything that is to be written, by column.
#[derive(Default)]
pub(crate) struct Changes<'a> {
    new_queues: (Int, Text<'a>),
    new_tasks: (Lifecycles<'a>, Heads<'a>, Births<'a>),
    lifecycles: Lifecycles<'a>,
    heads: Heads<'a>,
    planned_heads: Heads<'a>,
    alike: Option<&'a Alike>,
    /// The values that `alike` gives.
    alike_values: [Option<&'a str>; 4],
    new_definitions: (Int, Vec<&'a [u8]>, Text<'a>, Text<'a>),
    definitions: (Int, Text<'a>, Text<'a>),
    results: (Int, Text<'a>),
    cleared_results: Int,
    errors: (Int, Vec<String>, Int, Int, Text<'a>),
    cleared_errors: Int,
    gone_from_ready: Ready<'a>,
    new_in_ready: Ready<'a>,
    gone_from_running: Int,
    new_in_running: Int,
    new_runs: (Text<'a>, Int, IntOrNull),
    deleted: Int,
    deleted_runs_kept_until: i64,
    observations: (Int, Text<'a>, Text<'a>, Text<'a>, TextOrNull<'a>, Int, Int, Text<'a>),
    withdrawn: (Int, Text<'a>),
    tally: (Int, Text<'a>, Text<'a>, Int),
    shard: i16,
}

/// The columns that actions change.
#[derive(Default)]
struct Lifecycles<'a> {
    key: Int,
    status: Text<'a>,
    attempt: Int,
    pending_seq: Int,
    last_route: TextOrNull<'a>,
    updated_at: Int,
    started_at: IntOrNull,
    finished_at: IntOrNull,
    run_id: TextOrNull<'a>,
    lease_expires_at: IntOrNull,
    finished_run_id: TextOrNull<'a>,
    finished_run_end: TextOrNull<'a>,
}

/// The columns that updates change.
#[derive(Default)]
struct Heads<'a> {
    key: Int,
    name: TextOrNull<'a>,
    priority: Int,
    max_attempts: Int,
    routes: Text<'a>,
    definition_bytes: Int,
    updated_at: Int,
}

/// The columns that never change.
#[derive(Default)]
struct Births<'a> {
    queue: Int,
    id: Text<'a>,
    created_at: Int,
}

/// Places in the claim's order.
#[derive(Default)]
struct Ready<'a> {
    queue: Int,
    route: Text<'a>,
    priority: Int,
    pending_seq: Int,
    key: Int,
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

impl<'a> Lifecycles<'a> {
    fn push(&mut self, key: TaskKey, lifecycle: &'a Lifecycle) {
        let (run, finished) = (lifecycle.run.as_ref(), lifecycle.finished_run.as_ref());
        self.key.push(key.0);
        self.status.push(lifecycle.status.as_str());
        self.attempt.push(lifecycle.attempt);
        self.pending_seq.push(lifecycle.pending_seq);
        self.last_route.push(lifecycle.last_route.as_ref().map(Route::as_str));
        self.updated_at.push(lifecycle.updated_at.as_micros());
        self.started_at.push(micros(lifecycle.started_at));
        self.finished_at.push(micros(lifecycle.finished_at));
        self.run_id.push(run.map(|run| run.run_id.as_str()));
        self.lease_expires_at.push(run.map(|run| run.lease_expires_at.as_micros()));
        self.finished_run_id.push(finished.map(|run| run.run_id.as_str()));
        self.finished_run_end.push(finished.map(|run| run.end).map(RunEnd::as_str));
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.key,
            &self.status,
            &self.attempt,
            &self.pending_seq,
            &self.last_route,
            &self.updated_at,
            &self.started_at,
            &self.finished_at,
            &self.run_id,
            &self.lease_expires_at,
            &self.finished_run_id,
            &self.finished_run_end,
        ]
    }
}

impl<'a> Heads<'a> {
    fn push(&mut self, key: TaskKey, head: &'a TaskHead, name: Option<&'a str>) {
        self.key.push(key.0);
        self.name.push(name);
        self.priority.push(head.priority);
        self.max_attempts.push(head.max_attempts);
        self.routes.push(head.routes.as_json());
        self.definition_bytes.push(i64::try_from(head.definition_bytes).unwrap_or(i64::MAX));
        self.updated_at.push(head.lifecycle.updated_at.as_micros());
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.key,
            &self.name,
            &self.priority,
            &self.max_attempts,
            &self.routes,
            &self.definition_bytes,
            &self.updated_at,
        ]
    }
}

impl Heads<'_> {
    fn columns_without_name(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut columns = self.columns();
        columns.remove(1);
        columns
    }
}

impl<'a> Ready<'a> {
    fn push(&mut self, queue: QueueKey, key: TaskKey, head: &'a TaskHead) {
        for route in head.routes.iter() {
            self.queue.push(queue.0);
            self.route.push(route);
            self.priority.push(head.priority);
            self.pending_seq.push(head.lifecycle.pending_seq);
            self.key.push(key.0);
        }
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.queue, &self.route, &self.priority, &self.pending_seq, &self.key]
    }
}

impl<'a> Changes<'a> {
    /// What is different from the database. The tally is written to this shard.
    pub(crate) fn of(workspace: &'a Workspace, shard: i16) -> Self {
        let kept_until = workspace.deleted_runs_kept_until.as_micros();
        let mut changes = Self { shard, deleted_runs_kept_until: kept_until, ..Self::default() };
        let mut tally = BTreeMap::new();
        for (name, key) in &workspace.new_queues {
            changes.new_queues.0.push(key.0);
            changes.new_queues.1.push(name.as_str());
        }
        for (key, entry) in &workspace.tasks {
            changes.add_task(*key, entry);
            count(&mut tally, entry);
        }
        // A task may have been claimed, cancelled and deleted at once.
        let deleted = |key: &TaskKey| workspace.tasks.get(key).is_none_or(|entry| entry.deleted);
        for (run_id, key) in &workspace.new_runs {
            changes.new_runs.0.push(run_id.as_str());
            changes.new_runs.1.push(key.0);
            changes.new_runs.2.push(deleted(key).then_some(kept_until));
        }
        changes.add_observations(workspace);
        changes.add_alike(workspace);
        for ((queue, routes, status), tasks) in tally.into_iter().filter(|(_, tasks)| *tasks != 0) {
            changes.tally.0.push(queue.0);
            changes.tally.1.push(routes.as_json());
            changes.tally.2.push(status);
            changes.tally.3.push(tasks);
        }
        changes
    }

    fn add_task(&mut self, key: TaskKey, entry: &'a Entry) {
        match (&entry.stored, entry.deleted) {
            (None, true) => {}
            (Some(stored), true) => {
                self.deleted.push(key.0);
                self.add_places(key, entry.queue, Some(stored), None);
            }
            (None, false) => {
                self.add_new_task(key, entry);
                self.add_places(key, entry.queue, None, Some(&entry.head));
            }
            (Some(stored), false) => {
                self.add_changed_task(key, entry, stored);
                self.add_places(key, entry.queue, Some(stored), Some(&entry.head));
            }
        }
    }

    fn add_new_task(&mut self, key: TaskKey, entry: &'a Entry) {
        let (lifecycles, heads, births) = &mut self.new_tasks;
        let body = entry.body.as_ref();
        lifecycles.push(key, &entry.head.lifecycle);
        heads.push(key, &entry.head, body.and_then(|body| body.definition.name.as_deref()));
        births.queue.push(entry.queue.0);
        births.id.push(entry.head.id.as_str());
        births.created_at.push(entry.head.lifecycle.created_at.as_micros());
        if let (Some(body), Some(identity)) = (body, &entry.identity) {
            self.new_definitions.0.push(key.0);
            self.new_definitions.1.push(identity);
            self.new_definitions.2.push(body.definition.args.as_str());
            self.new_definitions.3.push(body.definition.metadata.as_str());
        }
        self.add_outcome(key, entry);
    }

    fn add_changed_task(&mut self, key: TaskKey, entry: &'a Entry, stored: &TaskHead) {
        // An update changes the time of the last change, and nothing of the lifecycle besides; it saves both itself.
        let was = &stored.lifecycle;
        let only_updated = (entry.updated || entry.planned)
            && Lifecycle { updated_at: was.updated_at, ..entry.head.lifecycle.clone() } == *was;
        if entry.head.lifecycle != *was && !only_updated {
            self.lifecycles.push(key, &entry.head.lifecycle);
        }
        if entry.planned {
            self.planned_heads.push(key, &entry.head, None);
        }
        if let Some(body) = &entry.body {
            if entry.updated {
                self.heads.push(key, &entry.head, body.definition.name.as_deref());
            }
            if entry.redefined {
                self.definitions.0.push(key.0);
                self.definitions.1.push(body.definition.args.as_str());
                self.definitions.2.push(body.definition.metadata.as_str());
            }
        }
        self.add_outcome(key, entry);
    }

    fn add_outcome(&mut self, key: TaskKey, entry: &'a Entry) {
        match &entry.result {
            Some(result) if result.is_empty_object() => self.cleared_results.push(key.0),
            Some(result) => {
                self.results.0.push(key.0);
                self.results.1.push(result.as_str());
            }
            None => {}
        }
        match &entry.error {
            ErrorChange::Keep => {}
            ErrorChange::Clear => self.cleared_errors.push(key.0),
            ErrorChange::Set(error) => {
                self.errors.0.push(key.0);
                self.errors.1.push(rows::error_text(&error.failure));
                self.errors.2.push(error.occurred_at.as_micros());
                self.errors.3.push(error.attempt);
                self.errors.4.push(error.run_id.as_str());
            }
        }
    }

    /// Where a task stands: in the claim's order while it is pending, among the running ones while it runs.
    fn add_places(&mut self, key: TaskKey, queue: QueueKey, was: Option<&'a TaskHead>, is: Option<&'a TaskHead>) {
        let place = |head: &&TaskHead| head.lifecycle.status == Status::Pending;
        let (waited, waits) = (was.filter(place), is.filter(place));
        let same = |a: &TaskHead, b: &TaskHead| {
            (&a.routes, a.priority, a.lifecycle.pending_seq) == (&b.routes, b.priority, b.lifecycle.pending_seq)
        };
        match (waited, waits) {
            (Some(waited), Some(waits)) if same(waited, waits) => {}
            (waited, waits) => {
                waited.into_iter().for_each(|head| self.gone_from_ready.push(queue, key, head));
                waits.into_iter().for_each(|head| self.new_in_ready.push(queue, key, head));
            }
        }
        let runs = |head: Option<&TaskHead>| head.is_some_and(|head| head.lifecycle.status == Status::Running);
        match (runs(was), runs(is)) {
            (false, true) => self.new_in_running.push(key.0),
            (true, false) => self.gone_from_running.push(key.0),
            _ => {}
        }
    }

    fn add_alike(&mut self, workspace: &'a Workspace) {
        let Some(alike) = &workspace.alike else { return };
        let Update { name, args, metadata, result, .. } = &alike.update;
        let text = |json: &'a Option<JsonObject>| json.as_ref().map(JsonObject::as_str);
        self.alike = Some(alike);
        self.alike_values = [name.as_ref().and_then(Option::as_deref), text(args), text(metadata), text(result)];
        if result.as_ref().is_some_and(JsonObject::is_empty_object) {
            self.cleared_results.extend(&alike.results);
        }
    }

    /// The statements that give many tasks the same value.
    fn alike_writes(&self) -> Vec<(usize, Write<'_>)> {
        let (Some(alike), [name, args, metadata, result]) = (self.alike, &self.alike_values) else { return Vec::new() };
        let clears = alike.update.result.as_ref().is_some_and(JsonObject::is_empty_object);
        vec![
            (alike.names.len(), (&sql::SAVE_ONE_NAME, vec![&alike.names, name])),
            (alike.args.len(), (&sql::SAVE_ONE_ARGS, vec![&alike.args, args])),
            (alike.metadata.len(), (&sql::SAVE_ONE_METADATA, vec![&alike.metadata, metadata])),
            (if clears { 0 } else { alike.results.len() }, (&sql::SAVE_ONE_RESULT, vec![&alike.results, result])),
        ]
    }

    fn add_observations(&mut self, workspace: &'a Workspace) {
        for ((queue, id), observation) in &workspace.observed {
            let Some(observation) = observation else {
                self.withdrawn.0.push(queue.0);
                self.withdrawn.1.push(id.as_str());
                continue;
            };
            let (columns, report) = (&mut self.observations, &observation.report);
            columns.0.push(queue.0);
            columns.1.push(observation.id.as_str());
            columns.2.push(report.route.as_str());
            columns.3.push(report.status.as_str());
            columns.4.push(report.task_id.as_ref().map(TaskId::as_str));
            columns.5.push(observation.last_seen_at.as_micros());
            columns.6.push(observation.expires_at.as_micros());
            columns.7.push(report.metadata.as_str());
        }
    }

    /// The statements that have something to write, in the order in which every transaction says them: what can make
    /// one transaction wait for another comes in one order everywhere.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let (new, saved, errors) = (&self.new_definitions, &self.definitions, &self.errors);
        let (gone, waiting) = (&self.gone_from_ready, &self.new_in_ready);
        let (queue, id, route, status, task_id, seen, expires, metadata) = &self.observations;
        let (tally_queue, tally_routes, tally_status, tasks) = &self.tally;
        let all: [(usize, Write<'_>); 20] = [
            (self.new_queues.0.len(), (&sql::INSERT_QUEUES, vec![&self.new_queues.0, &self.new_queues.1])),
            // Before the new ones: an id may be deleted and created again.
            (self.deleted.len(), (&sql::DELETE_TASKS, vec![&self.deleted, &self.deleted_runs_kept_until])),
            (self.new_tasks.0.key.len(), (&sql::INSERT_TASKS, self.columns_of_new_tasks())),
            (new.0.len(), (&sql::INSERT_DEFINITIONS, vec![&new.0, &new.1, &new.2, &new.3])),
            (self.lifecycles.key.len(), (&sql::SAVE_LIFECYCLES, self.lifecycles.columns())),
            (self.heads.key.len(), (&sql::SAVE_HEADS, self.heads.columns())),
            (self.planned_heads.key.len(), (&sql::SAVE_PLANNED_HEADS, self.planned_heads.columns_without_name())),
            (saved.0.len(), (&sql::SAVE_DEFINITIONS, vec![&saved.0, &saved.1, &saved.2])),
            (self.results.0.len(), (&sql::SAVE_RESULTS, vec![&self.results.0, &self.results.1])),
            (self.cleared_results.len(), (&sql::CLEAR_RESULTS, vec![&self.cleared_results])),
            (errors.0.len(), (&sql::SAVE_ERRORS, vec![&errors.0, &errors.1, &errors.2, &errors.3, &errors.4])),
            (self.cleared_errors.len(), (&sql::CLEAR_ERRORS, vec![&self.cleared_errors])),
            (gone.key.len(), (&sql::DELETE_READY, vec![&gone.queue, &gone.route, &gone.priority, &gone.pending_seq])),
            (waiting.key.len(), (&sql::INSERT_READY, waiting.columns())),
            (self.gone_from_running.len(), (&sql::DELETE_RUNNING, vec![&self.gone_from_running])),
            (self.new_in_running.len(), (&sql::INSERT_RUNNING, vec![&self.new_in_running])),
            (self.new_runs.0.len(), (&sql::INSERT_RUNS, vec![&self.new_runs.0, &self.new_runs.1, &self.new_runs.2])),
            (queue.len(), (&sql::SAVE_OBSERVATIONS, vec![queue, id, route, status, task_id, seen, expires, metadata])),
            (self.withdrawn.0.len(), (&sql::DELETE_OBSERVATIONS, vec![&self.withdrawn.0, &self.withdrawn.1])),
            (tally_queue.len(), (&sql::ADD_TALLY, vec![tally_queue, tally_routes, tally_status, tasks, &self.shard])),
        ];
        let all = all.into_iter().chain(self.alike_writes());
        all.filter(|(rows, _)| *rows > 0).map(|(_, write)| write).collect()
    }

    /// How many entries of the claim's order these writes leave dead.
    pub(crate) fn dead_entries(&self) -> usize {
        self.gone_from_ready.key.len()
    }

    fn columns_of_new_tasks(&self) -> Vec<&(dyn ToSql + Sync)> {
        let (life, head, birth) = &self.new_tasks;
        vec![
            &life.key,
            &birth.queue,
            &birth.id,
            &life.status,
            &head.name,
            &head.priority,
            &life.attempt,
            &head.max_attempts,
            &head.routes,
            &life.last_route,
            &birth.created_at,
            &life.updated_at,
            &life.started_at,
            &life.finished_at,
            &life.pending_seq,
            &life.run_id,
            &life.lease_expires_at,
            &life.finished_run_id,
            &life.finished_run_end,
            &head.definition_bytes,
        ]
    }
}

/// How a task changes the counts of its queue.
fn count<'a>(tally: &mut BTreeMap<(QueueKey, &'a Routes, &'static str), i64>, entry: &'a Entry) {
    let line = |head: &'a TaskHead| (entry.queue, &head.routes, head.lifecycle.status.as_str());
    let is = (!entry.deleted).then(|| line(&entry.head));
    let was = entry.stored.as_ref().map(line);
    if was != is {
        was.into_iter().for_each(|was| *tally.entry(was).or_default() -= 1);
        is.into_iter().for_each(|is| *tally.entry(is).or_default() += 1);
    }
}
