//! `taskqueue check` on a file, which a server may be writing to: SQLite's own check, the schema, and our rules. Everything is
//! read in one snapshot, a row at a time, and nothing is written. What is counted and listed beside the tasks, and what starts rely
//! on, is checked in `check/derived.rs`.

mod derived;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, ErrorCode, Result, Row, params};
use taskqueue_core::dependency::unmet;
use taskqueue_core::output::Part;
use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::{DependencyState, QueueName, QueueSettings, RunId, Task};
use taskqueue_store::check::{CheckError, Findings, PROBLEMS_KEPT, Progress, Report, Step, Watch};
use taskqueue_store::{QueueKey, TaskKey};

use crate::open::OpenError;
use crate::outside_reader::{self, OutsideReader};
use crate::queries::{CONTINUE, all_rows, each_row, first_row};
use crate::{migrate, rows, statements as sql};

/// Steps of SQLite's machine after which it is asked whether the check shall end: some milliseconds.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

impl From<OpenError> for CheckError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A file that is being checked, with what was read of it.
struct Checked<'a, 'w> {
    connection: &'a Connection,
    queues: HashMap<QueueKey, QueueName>,
    /// Of the queues that have other ones than the default.
    settings: HashMap<QueueKey, QueueSettings>,
    /// Queues whose tasks are being read, because they got a retention.
    reading: HashSet<QueueKey>,
    /// As the counts say.
    tasks: u64,
    /// Dependencies of tasks that are noted.
    noted: u64,
    findings: &'a mut Findings,
    watch: &'a mut Watch<'w>,
}

/// Checks the database at `path`.
pub fn check(path: &Path, watch: &mut Watch<'_>) -> Result<Report, CheckError> {
    outside_reader::read(path, |reader| check_snapshot(reader, watch))
}

fn check_snapshot(reader: &mut OutsideReader, watch: &mut Watch<'_>) -> Result<Report, CheckError> {
    let stop = watch.stop.clone();
    let handled = reader.connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop.load(Ordering::Relaxed)));
    let (connection, path) = (&reader.connection, &*reader.path);
    let failed = |error: rusqlite::Error| CheckError::from(OpenError::of_sqlite(path, &error));
    handled.map_err(failed)?;
    migrate::recognise(connection, path)?;
    let (schema, newest) = migrate::versions(connection, path)?;
    (watch.report)(Progress { step: Step::Engine, done: 0, of: 0 });
    let mut report = Report { schema, ..Report::default() };
    let done = check_engine(connection, &mut report.findings).and_then(|()| {
        if schema == newest && report.findings.is_sound() {
            check_schema(connection, &mut report.findings)?;
            if report.findings.is_sound() {
                return check_rules(connection, watch, &mut report);
            }
        }
        Ok(())
    });
    if watch.is_stopped() {
        return Err(CheckError::Interrupted);
    }
    match done {
        Ok(()) => Ok(report),
        // What SQLite cannot read is what was looked for.
        Err(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) =>
        {
            report.findings.add(Rule::Engine, error.to_string());
            Ok(report)
        }
        Err(error) => Err(failed(error)),
    }
}

/// SQLite's own check: pages, B-trees, indexes, types.
fn check_engine(connection: &Connection, findings: &mut Findings) -> Result<()> {
    each_row(connection, &format!("PRAGMA integrity_check({PROBLEMS_KEPT})"), [], |row| {
        let line: String = row.get(0)?;
        if line != "ok" {
            findings.add(Rule::Engine, line);
        }
        Ok(CONTINUE)
    })
}

/// Tables with their columns, and indexes: those of a database that was just created.
fn check_schema(connection: &Connection, findings: &mut Findings) -> Result<()> {
    let mut fresh = Connection::open_in_memory()?;
    if migrate::migrate(&mut fresh, Path::new("")).is_err() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    let (expected, found) = (objects(&fresh)?, objects(connection)?);
    for missing in expected.difference(&found) {
        findings.add(Rule::Schema, format!("{missing} is missing"));
    }
    for extra in found.difference(&expected) {
        findings.add(Rule::Schema, format!("{extra} is unknown"));
    }
    Ok(())
}

fn objects(connection: &Connection) -> Result<BTreeSet<String>> {
    connection.prepare(&sql::LIST_OBJECTS)?.query_map([], |row| row.get(0))?.collect()
}

fn check_rules(connection: &Connection, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let (queues, settings, reading) = (HashMap::new(), HashMap::new(), HashSet::new());
    let findings = &mut report.findings;
    let mut checked = Checked { connection, queues, settings, reading, tasks: 0, noted: 0, findings, watch };
    let done = check_all(&mut checked);
    report.rules_checked = true;
    (report.queues, report.tasks) = (checked.queues.len() as u64, checked.tasks);
    done
}

fn check_all(checked: &mut Checked<'_, '_>) -> Result<()> {
    let connection = checked.connection;
    each_row(connection, &sql::LOAD_QUEUES, [], |row| {
        match rows::queue(row)? {
            Some((key, name)) => drop(checked.queues.insert(key, name)),
            None => {
                let key: i64 = row.get(0)?;
                checked.findings.add(Rule::Readable, format!("queue number {key} has a name that is none"));
            }
        }
        Ok(CONTINUE)
    })?;
    let counts = all_rows(connection, &sql::LIST_WHOLE_TALLY, [], |row| rows::count(row, "tasks"))?;
    checked.tasks = counts.into_iter().sum();
    each_row(connection, &sql::CHECK_REFERENCES, [], |row| {
        let (what, key): (String, i64) = (row.get("what")?, row.get("row_key")?);
        checked.findings.add(Rule::References, format!("{what} (row {key})"));
        Ok(CONTINUE)
    })?;
    load_settings(checked)?;
    check_tasks(checked)?;
    derived::check(checked)?;
    derived::check_history(checked)?;
    check_observations(checked)
}

fn load_settings(checked: &mut Checked<'_, '_>) -> Result<()> {
    each_row(checked.connection, &sql::LOAD_ALL_SETTINGS, [], |row| {
        let key = QueueKey(row.get("queue_key")?);
        match rows::settings(row) {
            Ok(settings) => drop(checked.settings.insert(key, settings)),
            Err(_) => {
                checked.findings.add(Rule::Settings, format!("the settings of queue number {} cannot be read", key.0))
            }
        }
        Ok(CONTINUE)
    })?;
    let reading = all_rows(checked.connection, &sql::LOAD_ENDED_READS, [], |row| row.get(0).map(QueueKey))?;
    checked.reading.extend(reading);
    Ok(())
}

fn check_observations(checked: &mut Checked<'_, '_>) -> Result<()> {
    each_row(checked.connection, &sql::CHECK_OBSERVATIONS, [], |row| {
        if let Some(queue) = checked.queues.get(&QueueKey(row.get("queue_key")?)) {
            checked.findings.add_of_observation(queue, rows::observation(row, queue).ok());
        }
        Ok(CONTINUE)
    })
}

/// Checks each task of an existing queue with everything that belongs to it: whether its rows can be read, the rules of `core`, its
/// output, and what is noted of its dependencies.
fn check_tasks(checked: &mut Checked<'_, '_>) -> Result<()> {
    let mut done = 0;
    each_row(checked.connection, &sql::TRANSFER_TASKS, [i64::MIN], |row| {
        check_task(checked, row)?;
        done += 1;
        Ok(checked.watch.row(Step::Tasks, done, checked.tasks))
    })?;
    if checked.watch.is_stopped() { Ok(()) } else { check_noted(checked) }
}

fn check_task(checked: &mut Checked<'_, '_>, row: &Row<'_>) -> Result<()> {
    let key = rows::key(row)?;
    let queue_key = rows::queue_key(row)?;
    let Some(queue) = checked.queues.get(&queue_key).cloned() else { return Ok(()) };
    let (Ok(task), Ok(head), Ok(_)) = (rows::task(row, &queue), rows::head(row), rows::identity(row)) else {
        let id = rows::id(row).map_or_else(|_| format!("in row {}", key.0), |id| id.to_string());
        checked.findings.add(Rule::Readable, format!("task {id} of queue {queue} cannot be read"));
        return Ok(());
    };
    checked.findings.add_of_task(&queue, task.id, &soundness::task(&task, &head));
    let mut broken = check_output(checked, key, &task)?;
    broken.extend(checked.check_dependencies(queue_key, key, &task)?);
    if !checked.is_noted_if_needed(queue_key, key, &task)? {
        broken.push((Rule::Settings, "has ended, and would never be deleted as the settings say"));
    }
    checked.findings.add_of_task(&queue, task.id, &broken);
    Ok(())
}

impl Checked<'_, '_> {
    /// A task that is kept for a limited time is noted with its end, unless the tasks of the queue are still being read.
    fn is_noted_if_needed(&self, queue: QueueKey, key: TaskKey, Task { lifecycle, .. }: &Task) -> Result<bool> {
        let is_limited = |settings: &QueueSettings| settings.retention.seconds(lifecycle.status).is_some();
        let needs_note = self.settings.get(&queue).is_some_and(is_limited) && !self.reading.contains(&queue);
        let Some(ended_at) = lifecycle.ended_at().filter(|_| needs_note) else { return Ok(true) };
        let values = params![queue.0, lifecycle.status.as_str(), ended_at.as_micros(), key.0];
        self.connection.prepare_cached(&sql::HAS_ENDED)?.exists(values)
    }

    /// Each dependency of a task is noted, and those that are not met are counted.
    fn check_dependencies(&mut self, queue: QueueKey, key: TaskKey, task: &Task) -> Result<Vec<Broken>> {
        let dependencies = task.definition.scheduling.dependencies.as_slice();
        let (mut broken, mut states) = (Vec::new(), Vec::new());
        for id in dependencies {
            // Of a row, or of none: what it says may be unreadable.
            let values = params![queue.0, id.as_str(), key.0];
            match first_row(self.connection, &sql::FIND_DEPENDENCY, values, |row| Ok(rows::dependency_state(row)))? {
                Some(Ok(state)) => states.push((*id, state)),
                Some(Err(_)) => {
                    broken.push((Rule::Readable, "has a dependency of which nobody can read what is noted"))
                }
                None => broken.push((Rule::Dependencies, "has a dependency of which nothing is noted")),
            }
        }
        self.noted += (dependencies.len() - broken.len()) as u64;
        if broken.is_empty() && unmet(&states) != task.lifecycle.unmet {
            broken.push((Rule::Dependencies, "has another number of unmet dependencies than what is noted of them"));
        }
        Ok(broken)
    }
}

/// Nothing is noted besides that, and what is noted of a dependency is what it is, or its dependents are to be looked at again.
fn check_noted(checked: &mut Checked<'_, '_>) -> Result<()> {
    let (mut noted, mut done) = (0, 0);
    each_row(checked.connection, &sql::LIST_NOTED_STATUSES, [], |row| {
        done += 1;
        // What cannot be read was found with the tasks.
        if let Ok((queue, id, state, status)) = rows::noted_status(row)
            && let Some(queue) = checked.queues.get(&queue)
        {
            // One of a task that does not exist is found with the references.
            noted += u64::from(row.get::<_, bool>("has_task")?);
            let is_unsettled: bool = row.get("is_unsettled")?;
            if !is_unsettled && DependencyState::looked_up(status, Some(state)) != state {
                let what = format!("task {id} of queue {queue} is not what is noted of it where it is waited for");
                checked.findings.add(Rule::Dependencies, what);
            }
        }
        Ok(checked.watch.row(Step::Tasks, checked.tasks.max(done), checked.tasks.max(done)))
    })?;
    if noted != checked.noted && !checked.watch.is_stopped() {
        let (kept, of_tasks) = (noted, checked.noted);
        let what = format!("{kept} dependencies are noted, and tasks have {of_tasks} of them");
        checked.findings.add(Rule::Dependencies, what);
    }
    Ok(())
}

fn check_output(checked: &Checked<'_, '_>, key: TaskKey, task: &Task) -> Result<Vec<Broken>> {
    let connection = checked.connection;
    // Of a row, or of none: what it says may be unreadable.
    let kept = match first_row(connection, &sql::LOAD_OUTPUT, [key.0], |row| Ok(rows::kept_output(row, 0)))? {
        None | Some(Ok(None)) => return Ok(Vec::new()),
        Some(Ok(Some(kept))) => kept,
        Some(Err(_)) => return Ok(vec![(Rule::Readable, "has output of which nobody can read what is kept")]),
    };
    let past_runs = all_rows(connection, &sql::LIST_PAST_RUNS, [key.0], |row| Ok(rows::run_id(row).ok()))?;
    let past_runs: Vec<RunId> = past_runs.into_iter().flatten().collect();
    let pieces = all_rows(connection, &sql::CHECK_OUTPUT_PIECES, [key.0], |row| {
        let (start, length) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned());
        Ok(Part { start, end: start.saturating_add(length) })
    })?;
    Ok(soundness::output(&kept, task, &past_runs, &pieces))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
