//! `taskqueue check` on a file, which a server may be writing to: SQLite's own check, the schema, and our rules. Everything is
//! read in one snapshot, a row at a time, and nothing is written. The tasks themselves are checked in `check/tasks.rs`, what is
//! counted and listed beside them in `check/derived.rs`, what starts rely on in `check/history.rs`.

mod derived;
mod history;
mod tasks;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, ErrorCode};
use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::soundness::{self, Rule};
use taskqueue_store::check::{CheckError, Findings, PROBLEMS_KEPT, Progress, Report, Step, Watch};
use taskqueue_store::transaction::QueueKey;

use crate::each_row::{CONTINUE, NextRow, each_row};
use crate::open::OpenError;
use crate::outside_reader::{self, OutsideReader};
use crate::{migrate, rows, statements as sql};

/// Steps of SQLite's machine after which it is asked whether the check shall end: some milliseconds.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

impl From<OpenError> for CheckError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// What a check has of its file.
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
    findings: Findings,
    watch: &'a mut Watch<'w>,
}

impl Checked<'_, '_> {
    /// Tells how far it is, and ends the loop over rows if the check shall end.
    fn row(&mut self, step: Step, done: u64, of: u64) -> NextRow {
        self.watch.row(step, done, of)
    }
}

/// Checks the database at `path`.
pub fn check(path: &Path, watch: &mut Watch<'_>) -> Result<Report, CheckError> {
    outside_reader::read(path, |reader| check_snapshot(reader, watch))
}

fn check_snapshot(reader: &mut OutsideReader, watch: &mut Watch<'_>) -> Result<Report, CheckError> {
    let stop = watch.stop.clone();
    let handled = reader.connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop.load(Ordering::Relaxed)));
    let (connection, path) = (&reader.connection, reader.path());
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
        Err(error) if is_damage(&error) => {
            report.findings.add(Rule::Engine, error.to_string());
            Ok(report)
        }
        Err(error) => Err(failed(error)),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// SQLite's own check: pages, B-trees, indexes, types.
fn check_engine(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS_KEPT})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            findings.add(Rule::Engine, line);
        }
    }
    Ok(())
}

/// Tables with their columns, and indexes: those of a database that was just created.
fn check_schema(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
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

fn objects(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    const OBJECTS: &str = "SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'
        UNION SELECT 'column ' || objects.name || '.' || columns.name || ' ' || columns.type
        FROM sqlite_schema AS objects, pragma_table_info(objects.name) AS columns
        WHERE objects.type = 'table' AND objects.name NOT LIKE 'sqlite_%'
        UNION SELECT 'column ' || columns.seqno || ' of index ' || objects.name || ': ' || coalesce(columns.name, '')
        FROM sqlite_schema AS objects, pragma_index_info(objects.name) AS columns
        WHERE objects.type = 'index' AND objects.name NOT LIKE 'sqlite_%'";
    connection.prepare(OBJECTS)?.query_map([], |row| row.get(0))?.collect()
}

fn check_rules(connection: &Connection, watch: &mut Watch<'_>, report: &mut Report) -> rusqlite::Result<()> {
    let findings = std::mem::take(&mut report.findings);
    let (queues, settings, reading) = (HashMap::new(), HashMap::new(), HashSet::new());
    let mut checked = Checked { connection, queues, settings, reading, tasks: 0, noted: 0, findings, watch };
    let done = check_all(&mut checked);
    report.rules_checked = true;
    (report.queues, report.tasks) = (checked.queues.len() as u64, checked.tasks);
    report.findings = checked.findings;
    done
}

fn check_all(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    let connection = checked.connection;
    each_row(connection, sql::LOAD_QUEUES, [], |row| {
        let key: i64 = row.get(0)?;
        match QueueName::parse(row.get_ref(1)?.as_str()?) {
            Some(name) => drop(checked.queues.insert(QueueKey(key), name)),
            None => checked.findings.add(Rule::Readable, format!("queue number {key} has a name that is none")),
        }
        Ok(CONTINUE)
    })?;
    each_row(connection, sql::LIST_WHOLE_TALLY, [], |row| {
        checked.tasks += rows::count(row, "tasks")?;
        Ok(CONTINUE)
    })?;
    check_references(checked)?;
    load_settings(checked)?;
    tasks::check(checked)?;
    derived::check(checked)?;
    history::check(checked)?;
    check_observations(checked)
}

fn check_references(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    each_row(checked.connection, sql::CHECK_REFERENCES, [], |row| {
        let (what, key): (String, i64) = (row.get("what")?, row.get("row_key")?);
        checked.findings.add(Rule::References, format!("{what} (row {key})"));
        Ok(CONTINUE)
    })
}

fn load_settings(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    each_row(checked.connection, sql::LOAD_ALL_SETTINGS, [], |row| {
        let key = QueueKey(row.get("queue_key")?);
        match rows::settings(row) {
            Ok(settings) => drop(checked.settings.insert(key, settings)),
            Err(_) => {
                checked.findings.add(Rule::Settings, format!("the settings of queue number {} cannot be read", key.0))
            }
        }
        Ok(CONTINUE)
    })?;
    each_row(checked.connection, sql::LOAD_ENDED_READS, [], |row| {
        checked.reading.insert(QueueKey(row.get("queue_key")?));
        Ok(CONTINUE)
    })
}

fn check_observations(checked: &mut Checked<'_, '_>) -> rusqlite::Result<()> {
    each_row(checked.connection, &sql::CHECK_OBSERVATIONS, [], |row| {
        let Some(queue) = checked.queues.get(&rows::queue_of_observation(row)?) else { return Ok(CONTINUE) };
        let Ok(observation) = rows::observation(row, queue) else {
            checked.findings.add(Rule::Readable, format!("an observation of queue {queue} cannot be read"));
            return Ok(CONTINUE);
        };
        for (rule, what) in soundness::observation(&observation) {
            checked.findings.add(rule, format!("the observation of {} in queue {queue} {what}", observation.id));
        }
        Ok(CONTINUE)
    })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
