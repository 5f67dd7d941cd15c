//! Every statement prepares on a migrated database, and the hot ones neither scan nor sort.

use rusqlite::{Connection, StatementStatus};

use crate::{migrate, open, statements};

fn migrated() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
    connection
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = statement.parameter_count();
    let values = rusqlite::params_from_iter((0..parameters).map(|_| 1));
    statement.query_map(values, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_statement_prepares() {
    let connection = migrated();
    for (name, _, sql) in statements::all() {
        assert!(connection.prepare(sql).is_ok(), "{name}: {:?}", connection.prepare(sql).err());
    }
}

#[test]
fn a_bound_value_never_makes_a_statement_prepare_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    std::fs::File::create(&path).unwrap();
    let mut connection = open::writer(&path).unwrap();
    migrate::migrate(&mut connection, &path).unwrap();
    for (name, _, sql) in statements::all().into_iter().filter(|(_, _, sql)| sql.contains("SELECT")) {
        let mut statement = connection.prepare(sql).unwrap();
        for value in 0..3 {
            let values = rusqlite::params_from_iter((0..statement.parameter_count()).map(|_| value));
            statement.query(values).unwrap().next().unwrap();
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{name}");
    }
}

#[test]
fn every_file_of_the_folder_is_a_statement() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut named: Vec<&str> = statements::all().iter().map(|(_, file, _)| *file).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(files, named);
}

#[test]
fn no_statement_scans_or_sorts_but_those_that_mean_to() {
    // At start, over all tasks by design, or over the few rows of queues, counts and workers.
    let scanning = [
        "DELETE_EXPIRED_OBSERVATIONS",
        "BOUND_PURGES",
        "CHECK",
        "CHECK_DELETED_RUNS",
        "CHECK_EMPTY",
        "CHECK_OBSERVATIONS",
        "CHECK_REFERENCES",
        "CHECK_TALLY",
        "COUNT_DERIVED",
        "DELETE_LATE_OBSERVATIONS",
        "FIND_PURGE",
        "LIST_HEADS",
        "LIST_WHOLE_TALLY",
        "CLEAR_MARKS",
        "LOAD_LIVING_TASKS",
        "LOAD_MARKS",
        "LOAD_RUN_SEGMENTS",
        "RESET_MARKS",
        "SAVE_MARKS",
        "TOUCH_MARKS",
        "LOAD_QUEUES",
        "LOAD_SCAN",
        "SCAN_TASKS",
        "SCAN_WHOLE_TASKS",
        "TRANSFER_DELETED_RUNS",
        "COUNT_QUEUE_SHARE",
        "LOAD_ALL_SETTINGS",
        "LOAD_ENDED_READS",
        // The keys that it removes.
        "DELETE_DEPENDENCIES",
        // The first row.
        "FIND_UNSETTLED",
        "LIST_UNSETTLED_QUEUES",
        // For a check and a transfer.
        "LIST_NOTED_STATUSES",
    ];
    let connection = migrated();
    for (name, _, sql) in statements::all() {
        let plan = plan(&connection, sql);
        let scans = plan.iter().any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE"));
        assert_eq!(scans, scanning.contains(&name), "{name}: {plan:#?}");
    }
}

#[test]
fn dependents_are_found_by_what_they_wait_for() {
    let connection = migrated();
    let cases = [
        (statements::LIST_DEPENDENTS, "dependencies USING PRIMARY KEY (queue_key=? AND dependency=? AND task_key>?)"),
        (statements::FIND_DEPENDENCY, "dependencies USING PRIMARY KEY (queue_key=? AND dependency=? AND task_key=?)"),
        (statements::DELETE_DEPENDENCY, "dependencies USING PRIMARY KEY (queue_key=? AND dependency=? AND task_key=?)"),
        (statements::DELETE_DEPENDENCIES, "dependencies USING PRIMARY KEY (queue_key=? AND dependency<?)"),
        (statements::LIST_AWAITED, "dependencies USING PRIMARY KEY (queue_key=?)"),
        (statements::FIND_STATUS_BY_ID, "tasks USING INDEX tasks_by_id (queue_key=? AND id=?)"),
        (statements::FIND_UNSETTLED_OF_QUEUE, "unsettled USING PRIMARY KEY (queue_key=?)"),
        (statements::LIST_UNSETTLED, "unsettled USING PRIMARY KEY (queue_key=?)"),
    ];
    for (sql, search) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(search), "{plan}");
    }
}

#[test]
fn output_is_found_by_its_offset() {
    let connection = migrated();
    let cases = [
        (statements::FIND_OUTPUT_PIECE, "(task_key=? AND start<?)"),
        (statements::TAKE_OUTPUT_PIECE, "(task_key=? AND start=?)"),
        (statements::DELETE_OLD_OUTPUT_PIECES, "(task_key=? AND start<?)"),
        (statements::LIST_OUTPUT_PIECES, "(task_key=? AND start>? AND start<?)"),
    ];
    for (sql, beginning) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(&format!("output_pieces_by_start {beginning}")), "{plan}");
    }
}

#[test]
fn the_default_list_walks_its_index_from_the_cursor_on() {
    let connection = migrated();
    let cases = [
        (&statements::LIST_TASKS_BY_CREATION_DESCENDING, "(queue_key=? AND created_at<?)"),
        (&statements::LIST_TASKS_BY_CREATION_ASCENDING, "(queue_key=? AND created_at>?)"),
        (&statements::LIST_TASKS_OF_ONE_TIME_DESCENDING, "(queue_key=? AND created_at=? AND id<?)"),
        (&statements::LIST_TASKS_OF_ONE_TIME_ASCENDING, "(queue_key=? AND created_at=? AND id>?)"),
    ];
    for (sql, beginning) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(&format!("tasks_by_creation {beginning}")), "{plan}");
    }
}

#[test]
fn activity_is_found_by_queue_and_time_and_what_is_old_by_time() {
    let connection = migrated();
    let cases = [
        (statements::LIST_ACTIVITY, "activity USING PRIMARY KEY (queue_key=? AND unit=? AND start>? AND start<?)"),
        (statements::FORGET_ACTIVITY, "activity USING COVERING INDEX activity_by_start (unit=? AND start<?)"),
        (statements::DELETE_ACTIVITY, "activity USING PRIMARY KEY (queue_key=?)"),
    ];
    for (sql, search) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(search), "{plan}");
    }
}

#[test]
fn what_has_ended_is_found_by_queue_state_and_time() {
    let connection = migrated();
    let cases = [
        (statements::LIST_ENDED, "(queue_key=? AND status=? AND ended_at<?)"),
        (statements::DELETE_ENDED, "(queue_key=? AND status=? AND ended_at=? AND task_key=?)"),
        (statements::DELETE_FIRST_ENDED, "(queue_key=? AND status=? AND (ended_at,task_key)<(?,?))"),
        (statements::FIND_FIRST_ENDED, "(queue_key=? AND status=?)"),
        (statements::FIND_NEXT_ENDED, "((queue_key,status)>(?,?))"),
    ];
    for (sql, beginning) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(&format!("ended USING PRIMARY KEY {beginning}")), "{plan}");
    }
}

#[test]
fn narrow_rows_are_walked_by_creation_and_by_id() {
    let connection = migrated();
    let cases = [
        (&statements::LIST_HEADS_BY_CREATION_ASCENDING, "tasks_by_creation (queue_key=? AND (created_at,id)>(?,?))"),
        (&statements::LIST_HEADS_BY_CREATION_DESCENDING, "tasks_by_creation (queue_key=? AND (created_at,id)<(?,?))"),
        (&statements::LIST_HEADS_BY_ID_ASCENDING, "tasks_by_id (queue_key=? AND id>?)"),
        (&statements::LIST_HEADS_BY_ID_DESCENDING, "tasks_by_id (queue_key=? AND id<?)"),
    ];
    for (sql, beginning) in cases {
        let plan = plan(&connection, sql).join("\n");
        assert!(plan.contains(beginning), "{plan}");
    }
}
