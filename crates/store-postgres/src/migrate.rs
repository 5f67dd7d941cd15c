//! Migrations: numbered SQL files in the program, applied forward only. The schema remembers number, name and checksum;
//! unknown, newer or changed ones are refused. Whatever is missing is applied in one transaction, so that a server that
//! dies leaves nothing half-done; of several servers at once, one does it and the others wait.

use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, GenericClient, IsolationLevel, Transaction};

use crate::failure::describe;
use crate::open::OpenError;
use crate::session::Schema;

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") },
    Migration {
        version: 2,
        name: "deleted_runs_and_clock",
        sql: include_str!("migrations/0002_deleted_runs_and_clock.sql"),
    },
];

const LEDGER: &str = "CREATE TABLE taskqueue.migrations (
    version  bigint NOT NULL PRIMARY KEY,
    name     text NOT NULL,
    checksum text NOT NULL
)";

/// Whether there is such a schema, what columns its table `migrations` has, and whether there is anything else in it.
/// Asked of the catalogue, which everybody may read.
const LOOK: &str = "SELECT
    n.oid IS NOT NULL,
    (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ', ' ORDER BY a.attnum)
     FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relnamespace = n.oid AND c.relname = 'migrations' AND c.relkind = 'r'),
    EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid)
    FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS n ON n.nspname = $1";

const LEDGER_COLUMNS: &str = "version bigint, name text, checksum text";

/// Waits for another server that migrates, for so long. A time limit that the role may have is for smaller work.
const LIMITS: &str = "SET LOCAL lock_timeout = '30s'; SET LOCAL statement_timeout = 0";

/// Waits for whoever migrates and keeps others out; those who only read the ledger do not wait.
const TAKE_TURN: &str = "LOCK TABLE taskqueue.migrations IN SHARE ROW EXCLUSIVE MODE";

/// How often a schema is looked at because somebody else was first. Twice is enough unless it is dropped in between.
const LOOKS: usize = 5;

/// What is there.
enum Found {
    Nothing,
    EmptySchema,
    Ours,
}

/// Why a step was not done.
enum Stop {
    Refused(OpenError),
    Driver(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

/// Brings the schema to the newest version. A schema that is there already needs no right to change it.
pub(crate) async fn migrate(client: &mut Client, schema: &Schema, hosts: &str) -> Result<(), OpenError> {
    for _ in 1..LOOKS {
        match advance(client, schema).await {
            Err(Stop::Driver(error)) if is_overtaken(&error) => {}
            done => return done.map_err(|stop| explain(stop, schema, hosts)),
        }
    }
    advance(client, schema).await.map_err(|stop| explain(stop, schema, hosts))
}

/// One look, and what it asks for.
async fn advance(client: &mut Client, schema: &Schema) -> Result<(), Stop> {
    let found = look(client, schema).await?;
    if matches!(found, Found::Ours) && pending(client, schema).await?.is_empty() {
        return Ok(());
    }
    let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    transaction.batch_execute(LIMITS).await?;
    match found {
        Found::Nothing => {
            transaction.batch_execute(&format!("CREATE SCHEMA {}", schema.quoted())).await?;
            transaction.batch_execute(&schema.apply(LEDGER)).await?;
        }
        Found::EmptySchema => transaction.batch_execute(&schema.apply(LEDGER)).await?,
        Found::Ours => transaction.batch_execute(&schema.apply(TAKE_TURN)).await?,
    }
    // Read again: whoever was waited for may have applied them.
    let pending = pending(&transaction, schema).await?;
    for migration in pending {
        apply(&transaction, schema, migration).await?;
    }
    transaction.commit().await?;
    for migration in pending {
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    Ok(())
}

/// Refuses a schema that is not ours, without having changed anything.
async fn look(client: &Client, schema: &Schema) -> Result<Found, Stop> {
    let foreign = || Stop::Refused(OpenError::Foreign(schema.name().to_owned()));
    let rows = client.query_typed(LOOK, &[(&schema.name(), Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(foreign)?;
    let (exists, ledger, used) = (row.try_get(0)?, row.try_get::<_, Option<String>>(1)?, row.try_get(2)?);
    match (exists, ledger.as_deref(), used) {
        (false, ..) => Ok(Found::Nothing),
        (true, Some(LEDGER_COLUMNS), _) => Ok(Found::Ours),
        (true, None, false) => Ok(Found::EmptySchema),
        (true, ..) => Err(foreign()),
    }
}

/// What is still to be applied, if what was applied is what this program knows.
async fn pending(client: &impl GenericClient, schema: &Schema) -> Result<&'static [Migration], Stop> {
    let question = schema.apply("SELECT version, name, checksum FROM taskqueue.migrations ORDER BY version");
    let rows = client.query_typed(&question, &[]).await?;
    for (index, row) in rows.iter().enumerate() {
        let (version, name, checksum): (i64, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let Some(known) = MIGRATIONS.get(index) else {
            let why = format!("schema version {version}");
            return Err(Stop::Refused(OpenError::Newer(schema.name().to_owned(), why)));
        };
        if (known.version, known.name, digest(known.sql)) != (version, name.as_str(), checksum) {
            let why = format!("migration {version} {name}");
            return Err(Stop::Refused(OpenError::Changed(schema.name().to_owned(), why)));
        }
    }
    Ok(&MIGRATIONS[rows.len()..])
}

async fn apply(transaction: &Transaction<'_>, schema: &Schema, migration: &Migration) -> Result<(), Error> {
    transaction.batch_execute(&schema.apply(migration.sql)).await?;
    let entry = schema.apply("INSERT INTO taskqueue.migrations (version, name, checksum) VALUES ($1, $2, $3)");
    let checksum = digest(migration.sql);
    let values: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
        &[(&migration.version, Type::INT8), (&migration.name, Type::TEXT), (&checksum, Type::TEXT)];
    transaction.execute_typed(&entry, values).await?;
    Ok(())
}

/// Whether another server created first what we were about to create. PostgreSQL says so in several ways, depending on
/// how far the other was.
fn is_overtaken(error: &Error) -> bool {
    const CONFLICT: &[SqlState] = &[
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| CONFLICT.contains(code))
}

fn explain(stop: Stop, schema: &Schema, hosts: &str) -> OpenError {
    let error = match stop {
        Stop::Refused(error) => return error,
        Stop::Driver(error) => error,
    };
    let (name, text) = (schema.name().to_owned(), describe(&error));
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::NoRight(name, text),
        Some(&SqlState::LOCK_NOT_AVAILABLE) => OpenError::Migrating(name),
        Some(&SqlState::RESERVED_NAME) => OpenError::SchemaName(name),
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => OpenError::ReadOnly(hosts.to_owned()),
        _ => OpenError::Failed(hosts.to_owned(), text),
    }
}

fn digest(sql: &str) -> String {
    Sha256::digest(sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
