//! Applies the migrations of this program to a schema. Which ones are missing, and which schemas are refused, is decided in
//! `store::migration`. All that are missing are applied in one transaction, so that a server that dies leaves nothing
//! half-done; of several servers that start at once, one applies them and the others wait.

use taskqueue_store::migration::{AppliedMigration, Migration, SchemaMismatch, unapplied};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, GenericClient, IsolationLevel, Transaction};

use crate::failure::describe;
use crate::open::OpenError;
use crate::session::Schema;
use crate::statements as sql;

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

const CREATE_MIGRATIONS: &str = "CREATE TABLE taskqueue.migrations (
    version  bigint NOT NULL PRIMARY KEY,
    name     text NOT NULL,
    checksum text NOT NULL
)";

const MIGRATIONS_COLUMNS: &str = "version bigint, name text, checksum text";

/// How long to wait for another server that migrates. A statement timeout of the role is meant for smaller work.
const LIMITS: &str = "SET LOCAL lock_timeout = '30s'; SET LOCAL statement_timeout = 0";

/// Waits for a server that migrates, and makes others wait. Servers that only read the table do not wait.
const LOCK_MIGRATIONS: &str = "LOCK TABLE taskqueue.migrations IN SHARE ROW EXCLUSIVE MODE";

/// How often it is tried again because another server was faster. Twice is enough unless the schema is dropped in between.
const ATTEMPTS: usize = 5;

/// What is in the database under the name of the schema.
enum SchemaState {
    Missing,
    Empty,
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

/// Brings the schema to the newest version. A schema that is up to date needs no right to change it.
pub(crate) async fn migrate(client: &mut Client, schema: &Schema, hosts: &str) -> Result<(), OpenError> {
    migrate_to(MIGRATIONS, client, schema, hosts).await
}

/// Brings the schema to the version of the last one of these migrations.
async fn migrate_to(known: &[Migration], client: &mut Client, schema: &Schema, hosts: &str) -> Result<(), OpenError> {
    for _ in 1..ATTEMPTS {
        match try_migrate(known, client, schema).await {
            Err(Stop::Driver(error)) if was_created_by_other(&error) => {}
            done => return done.map_err(|stop| explain(stop, schema, hosts)),
        }
    }
    try_migrate(known, client, schema).await.map_err(|stop| explain(stop, schema, hosts))
}

/// Inspects the schema and applies what is missing.
async fn try_migrate(known: &[Migration], client: &mut Client, schema: &Schema) -> Result<(), Stop> {
    let state = inspect(client, schema).await?;
    if matches!(state, SchemaState::Ours) && missing(known, client, schema).await?.is_empty() {
        return Ok(());
    }
    let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    transaction.batch_execute(LIMITS).await?;
    match state {
        SchemaState::Missing => {
            transaction.batch_execute(&format!("CREATE SCHEMA {}", schema.quoted())).await?;
            transaction.batch_execute(&schema.apply(CREATE_MIGRATIONS)).await?;
        }
        SchemaState::Empty => transaction.batch_execute(&schema.apply(CREATE_MIGRATIONS)).await?,
        SchemaState::Ours => transaction.batch_execute(&schema.apply(LOCK_MIGRATIONS)).await?,
    }
    // Read again: the server that was waited for may have applied them.
    let missing = missing(known, &transaction, schema).await?;
    for migration in missing {
        apply(&transaction, schema, migration).await?;
    }
    transaction.commit().await?;
    // Nobody upgrades a new schema.
    if missing.len() == known.len() {
        tracing::info!(schema = schema.name(), "made the tables of a new database");
        return Ok(());
    }
    for migration in missing {
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    Ok(())
}

/// The version of a schema, and that of this program, without changing anything.
pub(crate) async fn versions(client: &Client, schema: &Schema, hosts: &str) -> Result<(i64, i64), OpenError> {
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let found = async {
        match inspect(client, schema).await? {
            SchemaState::Ours => Ok(MIGRATIONS.len() - missing(MIGRATIONS, client, schema).await?.len()),
            SchemaState::Missing | SchemaState::Empty => {
                Err(Stop::Refused(OpenError::Missing(schema.name().to_owned(), hosts.to_owned())))
            }
        }
    };
    let applied = found.await.map_err(|stop| explain(stop, schema, hosts))?;
    Ok((applied.checked_sub(1).map_or(0, |last| MIGRATIONS[last].version), newest))
}

/// The tables and indexes that the migrations create.
pub(crate) fn created_names() -> impl Iterator<Item = &'static str> {
    let lines = MIGRATIONS.iter().flat_map(|migration| migration.sql.lines());
    lines.filter_map(|line| {
        let rest = ["CREATE TABLE taskqueue.", "CREATE UNIQUE INDEX ", "CREATE INDEX "]
            .iter()
            .find_map(|beginning| line.strip_prefix(beginning))?;
        rest.split(' ').next()
    })
}

/// Refuses a schema that is not ours, without having changed anything.
async fn inspect(client: &Client, schema: &Schema) -> Result<SchemaState, Stop> {
    let foreign = || Stop::Refused(OpenError::Foreign(schema.name().to_owned()));
    let rows = client.query_typed(&sql::INSPECT_SCHEMA.text, &[(&schema.name(), Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(foreign)?;
    let (exists, columns, used) = (row.try_get(0)?, row.try_get::<_, Option<String>>(1)?, row.try_get(2)?);
    match (exists, columns.as_deref(), used) {
        (false, ..) => Ok(SchemaState::Missing),
        (true, Some(MIGRATIONS_COLUMNS), _) => Ok(SchemaState::Ours),
        (true, None, false) => Ok(SchemaState::Empty),
        (true, ..) => Err(foreign()),
    }
}

/// The migrations that are still to be applied.
async fn missing<'a>(
    known: &'a [Migration],
    client: &impl GenericClient,
    schema: &Schema,
) -> Result<&'a [Migration], Stop> {
    let question = schema.apply("SELECT version, name, checksum FROM taskqueue.migrations ORDER BY version");
    let mut applied = Vec::new();
    for row in client.query_typed(&question, &[]).await? {
        let (version, name) = (row.try_get("version")?, row.try_get("name")?);
        applied.push(AppliedMigration { version, name, checksum: row.try_get("checksum")? });
    }
    unapplied(known, &applied).map_err(|mismatch| {
        Stop::Refused(match mismatch {
            SchemaMismatch::Newer(why) => OpenError::Newer(schema.name().to_owned(), why),
            SchemaMismatch::Changed(why) => OpenError::Changed(schema.name().to_owned(), why),
        })
    })
}

async fn apply(transaction: &Transaction<'_>, schema: &Schema, migration: &Migration) -> Result<(), Error> {
    transaction.batch_execute(&schema.apply(migration.sql)).await?;
    let entry = schema.apply("INSERT INTO taskqueue.migrations (version, name, checksum) VALUES ($1, $2, $3)");
    let checksum = migration.checksum();
    let values: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
        &[(&migration.version, Type::INT8), (&migration.name, Type::TEXT), (&checksum, Type::TEXT)];
    transaction.execute_typed(&entry, values).await?;
    Ok(())
}

/// Whether another server created the schema first. Which error PostgreSQL reports depends on how far the other one was.
fn was_created_by_other(error: &Error) -> bool {
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

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
