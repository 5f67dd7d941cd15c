//! Upgrades, shown with a second migration that is made up.

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
    assert_eq!(text(&connection, "SELECT group_concat(version || ' ' || name) FROM migrations"), "1 initial,2 made_up");
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
    let error = migrate_with("ALTER TABLE tasks ADD COLUMN note TEXT; UPDATE nothing SET note = 1", &mut connection);
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
    }
    assert_eq!(picture(&connection), before);
    let error = migrate_with("SELECT 1", &mut connection);
    assert!(matches!(error, Err(OpenError::Changed(..))), "another second migration: {error:?}");
}
