//! `taskqueue check` on a schema that servers may be writing to: what PostgreSQL knows of its own files, the schema, and our
//! rules. Everything is read in one snapshot, in portions, and nothing is written, so a standby can be asked as well.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;

use futures_util::TryStreamExt;
use taskqueue_core::output::Part;
use taskqueue_core::soundness::{self, Broken, Rule};
use taskqueue_core::{QueueName, RunId, Task};
use taskqueue_store::check::{CheckError, Findings, Progress, Report, Step, Watch};
use taskqueue_store::transfer::CHUNK_BYTES;
use taskqueue_store::{QueueKey, TaskKey};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use crate::address::Address;
use crate::derived_tables::DERIVED_TABLES;
use crate::failure::describe;
use crate::open::{Connector, OpenError};
use crate::output::StoredOutput;
use crate::rows::{self, Damaged};
use crate::session::{Param, Schema, Session, Sql};
use crate::{migrate, settings, statements as sql};

/// One snapshot for everything, without a time limit.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '30s'; SET LOCAL jit = off";

impl From<OpenError> for CheckError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Why a check ends.
enum Stop {
    Driver(Error),
    Interrupted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

/// What a check has of its schema.
struct Checked<'a, 'w> {
    session: &'a Session,
    queues: HashMap<QueueKey, QueueName>,
    /// As the counts say.
    tasks: u64,
    findings: &'a mut Findings,
    watch: &'a mut Watch<'w>,
}

impl Checked<'_, '_> {
    /// Tells how far it is, and ends the check if that is wanted.
    fn row(&mut self, step: Step, done: u64) -> Result<(), Stop> {
        if self.watch.row(step, done, self.tasks).is_break() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    async fn query(&self, sql: &'static Sql) -> Result<Vec<Row>, Error> {
        self.session.query(sql, &[]).await
    }

    /// Adds what the rows of a statement say to be wrong, one by one: of a badly damaged database there are many.
    async fn each(&mut self, rule: Rule, sql: &Sql, wrong: impl Fn(&Row) -> Option<String>) -> Result<(), Stop> {
        let session = self.session;
        let mut found = pin!(session.stream(&sql.text, &[]).await?);
        while let Some(row) = found.try_next().await? {
            wrong(&row).into_iter().for_each(|what| self.findings.add(rule, what));
            if self.watch.is_stopped() {
                return Err(Stop::Interrupted);
            }
        }
        Ok(())
    }
}

/// Checks the schema with this name.
pub async fn check(address: Address, schema: &str, watch: &mut Watch<'_>) -> Result<Report, CheckError> {
    let connector = Connector::new(address.for_command(), Schema::new(schema))?;
    let (client, _) = connector.open_for_reading().await?;
    let (schema, hosts) = (connector.schema(), connector.hosts());
    let (version, newest) = migrate::versions(&client, schema, &hosts).await?;
    let failed = |error: Error| CheckError::from(OpenError::Failed(hosts.clone(), describe(&error)));
    (watch.report)(Progress { step: Step::Engine, done: 0, of: 0 });
    let mut report = Report { schema: version, ..Report::default() };
    check_engine(&client, schema, &mut report.findings).await.map_err(failed)?;
    if version != newest {
        return Ok(report);
    }
    check_schema(&client, schema, &mut report.findings).await.map_err(failed)?;
    if !report.findings.is_sound() {
        return Ok(report);
    }
    let session = Session::new(client, schema.clone());
    match check_rules(&session, watch, &mut report).await {
        Ok(()) => Ok(report),
        Err(Stop::Interrupted) => Err(CheckError::Interrupted),
        // What PostgreSQL cannot read is what was looked for.
        Err(Stop::Driver(error)) if is_damage(&error) => {
            report.findings.add(Rule::Engine, describe(&error));
            Ok(report)
        }
        Err(Stop::Driver(error)) => Err(failed(error)),
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error.code(), Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED))
}

/// What PostgreSQL knows, and what its extension `amcheck` finds where it is installed.
async fn check_engine(client: &Client, schema: &Schema, findings: &mut Findings) -> Result<(), Error> {
    let name = schema.name();
    for row in client.query_typed(&sql::LIST_DAMAGE.text, &[(&name, Type::TEXT)]).await? {
        findings.add(Rule::Engine, row.try_get::<_, String>("what")?);
    }
    for row in client.query_typed(&sql::LIST_CHECKABLE_INDEXES.text, &[(&name, Type::TEXT)]).await? {
        let [id, index, place]: [String; 3] =
            [row.try_get("index_id")?, row.try_get("index_name")?, row.try_get("extension_schema")?];
        // Numbers and a quoted name of the catalogue.
        let question = format!("SELECT {place}.bt_index_check('{id}'::oid::regclass, true)");
        match client.query_typed(&question, &[]).await {
            Err(error) if is_damage(&error) => findings.add(Rule::Engine, format!("{index}: {}", describe(&error))),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// The tables and indexes that the migrations create. Columns are found missing by the statements.
async fn check_schema(client: &Client, schema: &Schema, findings: &mut Findings) -> Result<(), Error> {
    let rows = client.query_typed(&sql::LIST_RELATIONS.text, &[(&schema.name(), Type::TEXT)]).await?;
    let found: BTreeSet<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for name in migrate::created_names().filter(|name| !found.contains(*name)) {
        findings.add(Rule::Schema, format!("{name} is missing"));
    }
    Ok(())
}

async fn check_rules(session: &Session, watch: &mut Watch<'_>, report: &mut Report) -> Result<(), Stop> {
    session.begin(BEGIN).await?;
    let mut checked = Checked { session, queues: HashMap::new(), tasks: 0, findings: &mut report.findings, watch };
    let done = check_all(&mut checked).await;
    report.rules_checked = true;
    (report.queues, report.tasks) = (checked.queues.len() as u64, checked.tasks);
    done
}

async fn check_all(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    for row in checked.query(&sql::LOAD_QUEUES).await? {
        match rows::named_queue(&row) {
            Ok((key, name)) => drop(checked.queues.insert(key, name)),
            Err(Damaged { .. }) => checked.findings.add(Rule::Readable, "a queue has a name that is none"),
        }
    }
    for row in checked.query(&sql::LIST_WHOLE_TALLY).await? {
        match rows::whole_tally(&row) {
            Ok((_, _, tasks)) => checked.tasks += tasks,
            Err(Damaged { .. }) => checked.findings.add(Rule::Readable, "a count cannot be read"),
        }
    }
    check_tasks(checked).await?;
    check_all_together(checked).await
}

/// Checks each task of an existing queue with everything that belongs to it: whether its rows can be read, the rules of `core`,
/// and its output.
async fn check_tasks(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    let queues: Vec<i64> = checked.queues.keys().map(|queue| queue.0).collect();
    let (mut last, mut done, bytes) = (i64::MIN, 0, CHUNK_BYTES as i64);
    loop {
        let found = checked.session.query(&sql::TRANSFER_TASKS, &[&last, &queues, &bytes]).await?;
        let Some(end) = found.last().and_then(|row| rows::key(row).ok()) else { return Ok(()) };
        let outputs = checked.session.query(&sql::CHECK_OUTPUTS, &[&last, &end.0]).await?;
        let read = |row: &Row| Some((rows::output_key(row).ok()?, output(row).unwrap_or(Output::Unreadable)));
        let outputs = outputs.iter().filter_map(read).collect();
        for row in &found {
            check_task(checked, row, &outputs);
            done += 1;
            checked.row(Step::Tasks, done)?;
        }
        last = end.0;
    }
}

/// What is known of the output of a task.
enum Output {
    Read { stored: StoredOutput, end: i64, bytes: i64, pieces: Vec<Part> },
    Unreadable,
}

fn output(row: &Row) -> Result<Output, Damaged> {
    let Some(stored) = rows::stored_output(row)? else { return Ok(Output::Unreadable) };
    let (end, bytes) = (rows::get(row, "end_offset")?, rows::get(row, "bytes")?);
    Ok(Output::Read { stored, end, bytes, pieces: rows::places_of_pieces(row)? })
}

fn check_task(checked: &mut Checked<'_, '_>, row: &Row, outputs: &HashMap<TaskKey, Output>) {
    let (Ok(key), Ok(queue_key)) = (rows::key(row), rows::queue_key(row)) else { return };
    let Some(queue) = checked.queues.get(&queue_key).cloned() else { return };
    let read = (rows::task(row, &queue), rows::head(row), rows::identity(row), rows::runs(row));
    let (Ok(task), Ok(head), Ok(_), Ok(runs)) = read else {
        let id = rows::id(row).map_or_else(|_| format!("in row {}", key.0), |id| id.to_string());
        checked.findings.add(Rule::Readable, format!("task {id} of queue {queue} cannot be read"));
        return;
    };
    checked.findings.add_of_task(&queue, task.id, &soundness::task(&task, &head));
    let broken = outputs.get(&key).map_or_else(Vec::new, |output| check_output(output, &task, &runs));
    checked.findings.add_of_task(&queue, task.id, &broken);
}

fn check_output(output: &Output, task: &Task, runs: &[RunId]) -> Vec<Broken> {
    let Output::Read { stored: StoredOutput { kept, last_start }, end, bytes, pieces } = output else {
        return vec![(Rule::Readable, "has output of which nobody can read what is kept")];
    };
    let mut broken = soundness::output(kept, task, runs, pieces);
    let kept_bytes: u64 = kept.parts.iter().map(|part| part.bytes()).sum();
    let noted = (u64::try_from(*end), u64::try_from(*bytes), pieces.last().map(|piece| piece.start));
    if noted != (Ok(kept.end()), Ok(kept_bytes), Some(*last_start)) {
        broken.push((Rule::Output, "has output of other sizes than noted"));
    }
    broken
}

/// Checks what holds over all tasks, by statements that list what differs: counts, settings, rows that belong to nothing, the
/// derived tables, run ids; and observations.
async fn check_all_together(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    checked.row(Step::Derived, 0)?;
    let wrong_count = |row: &_| Some(rows::wrong_count(row).unwrap_or_else(|_| "a count cannot be read".to_owned()));
    checked.each(Rule::Tally, &sql::CHECK_TALLY, wrong_count).await?;
    checked.each(Rule::Settings, &sql::CHECK_SETTINGS, settings::wrong_settings).await?;
    let difference = |row: &_| Some(rows::difference(row).unwrap_or_else(|_| "a row cannot be read".to_owned()));
    for (rule, statement) in differences() {
        checked.row(Step::Derived, 0)?;
        checked.each(rule, statement, difference).await?;
    }
    check_observations(checked).await
}

/// The statements that list what is wrong and the key of a row, by their rules.
fn differences() -> Vec<(Rule, &'static Sql)> {
    let mut differences = vec![
        (Rule::References, &sql::CHECK_REFERENCES),
        (Rule::RunIds, &sql::CHECK_RUN_IDS),
        (Rule::Settings, &sql::CHECK_LIMITED),
    ];
    differences.extend(DERIVED_TABLES.iter().filter_map(|table| table.check));
    differences.sort_by_key(|(rule, _)| *rule);
    differences
}

async fn check_observations(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    let queues: Vec<_> = checked.queues.iter().map(|(key, name)| (key.0, name.clone())).collect();
    for (key, queue) in queues {
        let params: [Param<'_>; 1] = [(&key, Type::INT8)];
        let mut found = pin!(checked.session.stream(&sql::CHECK_OBSERVATIONS.text, &params).await?);
        while let Some(row) = found.try_next().await? {
            checked.findings.add_of_observation(&queue, rows::observation(&row, &queue).ok());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
