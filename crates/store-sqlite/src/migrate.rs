//! Migrations: numbered SQL files in the program, applied forward only, each in a transaction of its own. The file
//! remembers number, name and checksum; unknown, newer or changed ones are refused.

use std::path::Path;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use crate::open::{APPLICATION_ID, OpenError};

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") },
    Migration { version: 2, name: "deleted_runs", sql: include_str!("migrations/0002_deleted_runs.sql") },
];

const LEDGER: &str = "CREATE TABLE migrations (
    version  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT";

/// Brings the file to the newest schema.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    if is_empty(connection).map_err(failed)? {
        mark(connection).map_err(failed)?;
    }
    let applied = applied(connection).map_err(failed)?;
    check(&applied, path)?;
    for migration in &MIGRATIONS[applied.len()..] {
        apply(connection, migration).map_err(failed)?;
    }
    Ok(())
}

/// Refuses a database that is not ours, without having changed a byte of it.
pub(crate) fn recognise(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    if id == APPLICATION_ID || (id == 0 && is_empty(connection).map_err(failed)?) {
        return Ok(());
    }
    Err(OpenError::Foreign(path.into()))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Makes an empty database ours.
fn mark(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(LEDGER)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<(i64, String, String)>> {
    let mut statement = connection.prepare("SELECT version, name, checksum FROM migrations ORDER BY version")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

fn check(applied: &[(i64, String, String)], path: &Path) -> Result<(), OpenError> {
    for (index, (version, name, checksum)) in applied.iter().enumerate() {
        let Some(known) = MIGRATIONS.get(index) else {
            return Err(OpenError::Newer(path.into(), format!("schema version {version}")));
        };
        if (known.version, known.name, digest(known.sql)) != (*version, name.as_str(), checksum.clone()) {
            return Err(OpenError::Changed(path.into(), format!("migration {version} {name}")));
        }
    }
    Ok(())
}

fn apply(connection: &mut Connection, migration: &Migration) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(migration.sql)?;
    transaction.execute(
        "INSERT INTO migrations (version, name, checksum) VALUES (?1, ?2, ?3)",
        (migration.version, migration.name, digest(migration.sql)),
    )?;
    transaction.commit()?;
    tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    Ok(())
}

fn digest(sql: &str) -> String {
    Sha256::digest(sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
