//! `taskqueue check` on a schema that servers may be writing to: what PostgreSQL knows of its own files, the schema, and our
//! rules. Everything is read in one snapshot, in portions, and nothing is written, so a standby can be asked as well. The tasks
//! themselves are checked in `check/tasks.rs`, what is counted and listed beside them in `check/derived.rs`.

mod derived;
mod tasks;

use std::collections::{BTreeSet, HashMap};

use taskqueue_core::ids::QueueName;
use taskqueue_core::soundness::Rule;
use taskqueue_store::check::{CheckError, Findings, Progress, Report, Step, Watch};
use taskqueue_store::transaction::QueueKey;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use crate::address::Address;
use crate::failure::describe;
use crate::open::{Connector, OpenError};
use crate::rows::{self, Damaged};
use crate::session::{Schema, Session, Sql};
use crate::{migrate, statements as sql};

/// One snapshot for everything, without a time limit.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '30s'; SET LOCAL jit = off";

/// The indexes of a schema, if the extension that checks them is installed and this role may use it.
const CHECKABLE_INDEXES: &str = "SELECT pg_class.oid::text AS index_id, pg_class.relname::text AS index_name,
        quote_ident(extension_schema.nspname) AS extension_schema
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    JOIN pg_am ON pg_am.oid = pg_class.relam AND pg_am.amname = 'btree'
    JOIN pg_extension ON pg_extension.extname = 'amcheck'
    JOIN pg_namespace AS extension_schema ON extension_schema.oid = pg_extension.extnamespace
    JOIN pg_proc ON pg_proc.proname = 'bt_index_check' AND pg_proc.pronamespace = extension_schema.oid
    WHERE pg_namespace.nspname = $1 AND pg_proc.pronargs = 2 AND has_function_privilege(pg_proc.oid, 'EXECUTE')
    ORDER BY pg_class.relname";

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
    findings: Findings,
    watch: &'a mut Watch<'w>,
}

impl Checked<'_, '_> {
    /// Tells how far it is, and ends the check if that is wanted.
    fn row(&mut self, step: Step, done: u64) -> Result<(), Stop> {
        if self.watch.row(step, done, self.tasks).is_break() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    async fn query(&self, sql: &'static Sql) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.session.query(sql, &[]).await
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
    let session = Session::new(client, schema.clone(), &[], std::sync::Arc::default()).await.map_err(failed)?;
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
    for row in client.query_typed(sql::CHECK_ENGINE, &[(&name, Type::TEXT)]).await? {
        findings.add(Rule::Engine, row.try_get::<_, String>("what")?);
    }
    for row in client.query_typed(CHECKABLE_INDEXES, &[(&name, Type::TEXT)]).await? {
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
    const NAMES: &str = "SELECT pg_class.relname::text FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace WHERE pg_namespace.nspname = $1";
    let rows = client.query_typed(NAMES, &[(&schema.name(), Type::TEXT)]).await?;
    let found: BTreeSet<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for name in migrate::created_names().filter(|name| !found.contains(*name)) {
        findings.add(Rule::Schema, format!("{name} is missing"));
    }
    Ok(())
}

async fn check_rules(session: &Session, watch: &mut Watch<'_>, report: &mut Report) -> Result<(), Stop> {
    session.begin(BEGIN).await?;
    let findings = std::mem::take(&mut report.findings);
    let mut checked = Checked { session, queues: HashMap::new(), tasks: 0, findings, watch };
    let done = check_all(&mut checked).await;
    report.rules_checked = true;
    (report.queues, report.tasks) = (checked.queues.len() as u64, checked.tasks);
    report.findings = checked.findings;
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
    tasks::check(checked).await?;
    derived::check(checked).await
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
