//! Applies the migrations of this program to a file, each in a transaction of its own. Which ones are missing, and which
//! files are refused, is decided in `store::migration`.

use std::path::Path;

use rusqlite::Connection;
use taskqueue_store::migration::{AppliedMigration, Migration, SchemaMismatch, unapplied};

use crate::open::{APPLICATION_ID, OpenError};

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

const CREATE_MIGRATIONS: &str = "CREATE TABLE migrations (
    version  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT";

/// Brings the file to the newest schema.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    migrate_to(MIGRATIONS, connection, path)
}

/// Brings the file to the schema of the last one of these migrations.
fn migrate_to(known: &[Migration], connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    if is_empty(connection).map_err(failed)? {
        initialise(connection).map_err(failed)?;
    }
    let applied = applied(connection).map_err(failed)?;
    for migration in fitting(known, &applied, path)? {
        apply(connection, migration).map_err(failed)?;
        // Nobody upgrades a new file.
        if !applied.is_empty() {
            tracing::info!(version = migration.version, name = migration.name, "applied a migration");
        }
    }
    if applied.is_empty() {
        tracing::info!(path = %path.display(), "made a new database");
    }
    Ok(())
}

/// The version of the schema of a file, and that of this program. Refuses what this program does not know.
pub(crate) fn versions(connection: &Connection, path: &Path) -> Result<(i64, i64), OpenError> {
    let applied = applied(connection).map_err(|error| OpenError::of_sqlite(path, &error))?;
    fitting(MIGRATIONS, &applied, path)?;
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
    Ok((applied.last().map_or(0, |migration| migration.version), newest))
}

/// Returns the migrations that are still to be applied.
fn fitting<'a>(
    known: &'a [Migration],
    applied: &[AppliedMigration],
    path: &Path,
) -> Result<&'a [Migration], OpenError> {
    unapplied(known, applied).map_err(|mismatch| match mismatch {
        SchemaMismatch::Newer(why) => OpenError::Newer(path.into(), why),
        SchemaMismatch::Changed(why) => OpenError::Changed(path.into(), why),
    })
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

/// Marks an empty database as one of this program, and creates the table of migrations.
fn initialise(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(CREATE_MIGRATIONS)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<AppliedMigration>> {
    let mut statement = connection.prepare("SELECT version, name, checksum FROM migrations ORDER BY version")?;
    let rows = statement.query_map([], |row| {
        Ok(AppliedMigration { version: row.get("version")?, name: row.get("name")?, checksum: row.get("checksum")? })
    })?;
    rows.collect()
}

fn apply(connection: &mut Connection, migration: &Migration) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(migration.sql)?;
    transaction.execute(
        "INSERT INTO migrations (version, name, checksum) VALUES (?1, ?2, ?3)",
        (migration.version, migration.name, migration.checksum()),
    )?;
    transaction.commit()
}

/// Upgrades, shown with a second migration that is made up.
#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE_AND_TASK: &str = "INSERT INTO queues (queue_key, name) VALUES (1, 'q');
    INSERT INTO tasks (task_key, queue_key, id, created_at, status, packed) VALUES (1, 1, 't_1', 5, 'pending', x'01')";
    const MADE_UP: &str = "ALTER TABLE tasks ADD COLUMN note TEXT; UPDATE tasks SET note = status";

    /// The migrations of a program that is newer by this one.
    fn known_with(sql: &'static str) -> [Migration; 2] {
        let Migration { version, name, sql: first } = &MIGRATIONS[0];
        [Migration { version: *version, name, sql: first }, Migration { version: 2, name: "made_up", sql }]
    }

    fn first_schema() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("tasks.db")).unwrap();
        connection.execute_batch(QUEUE_AND_TASK).unwrap();
        connection
    }

    fn migrate_with(sql: &'static str, connection: &mut Connection) -> Result<(), OpenError> {
        migrate_to(&known_with(sql), connection, Path::new("tasks.db"))
    }

    fn text(connection: &Connection, sql: &str) -> String {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The schema and what it says of itself.
    fn picture(connection: &Connection) -> String {
        text(connection, "SELECT group_concat(sql, ';') FROM sqlite_schema")
            + &text(connection, "SELECT group_concat(version || name || checksum) FROM migrations")
    }

    #[test]
    fn a_second_migration_is_applied_once_and_keeps_what_is_there() {
        let mut connection = first_schema();
        migrate_with(MADE_UP, &mut connection).unwrap();
        assert_eq!(text(&connection, "SELECT id || created_at || hex(packed) || note FROM tasks"), "t_1501pending");
        let expected = "1 initial,2 made_up";
        assert_eq!(text(&connection, "SELECT group_concat(version || ' ' || name) FROM migrations"), expected);
        let before = (picture(&connection), connection.total_changes());
        migrate_with(MADE_UP, &mut connection).unwrap();
        assert_eq!((picture(&connection), connection.total_changes()), before);

        let mut fresh = Connection::open_in_memory().unwrap();
        migrate_with(MADE_UP, &mut fresh).unwrap();
        assert_eq!(picture(&fresh), picture(&connection), "a new file is what an upgraded one is");
    }

    #[test]
    fn a_migration_that_fails_in_the_middle_has_changed_nothing_and_can_be_done_again() {
        let mut connection = first_schema();
        let before = picture(&connection);
        let error =
            migrate_with("ALTER TABLE tasks ADD COLUMN note TEXT; UPDATE nothing SET note = 1", &mut connection);
        assert!(matches!(error, Err(OpenError::Unusable(..))), "{error:?}");
        assert_eq!(picture(&connection), before);
        migrate_with(MADE_UP, &mut connection).unwrap();
        assert_eq!(text(&connection, "SELECT note FROM tasks"), "pending");
    }

    #[test]
    fn the_program_before_refuses_an_upgraded_file_and_changes_nothing() {
        let mut connection = first_schema();
        migrate_with(MADE_UP, &mut connection).unwrap();
        let before = picture(&connection);
        let path = Path::new("tasks.db");
        let refusals = [migrate(&mut connection, path), versions(&connection, path).map(|_| ())];
        for refusal in refusals {
            assert!(matches!(&refusal, Err(OpenError::Newer(_, why)) if why == "schema version 2"), "{refusal:?}");
            assert!(refusal.unwrap_err().to_string().contains("tasks.db"));
        }
        assert_eq!(picture(&connection), before);
        let error = migrate_with("SELECT 1", &mut connection);
        assert!(matches!(error, Err(OpenError::Changed(..))), "another second migration: {error:?}");
        assert!(error.unwrap_err().to_string().contains("tasks.db"));
    }
}
