//! Every SQL statement of this backend. Their texts are in `sql/`, a file for each subject; what is decided is in `core`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::rows::with_columns;

macro_rules! files {
    ($($subject:literal)*) => { [$(include_str!(concat!("sql/", $subject, ".sql"))),*] };
}

/// The files of statements, by subject.
pub(crate) static FILES: [&str; 14] = files! {
    "check" "claims" "counts" "dependencies" "ended" "figures" "observations" "output" "purge" "queues" "reads" "runs"
    "tasks" "transfer"
};

/// The statements by their names: each follows the line `-- name: NAME`.
static TEXTS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let statements = FILES.iter().flat_map(|file| file.split("\n-- name: ").skip(1));
    statements.filter_map(|statement| statement.split_once('\n')).collect()
});

/// The text of a statement. Without the comment at its beginning: the cache of prepared statements hashes the whole text.
fn text(name: &str) -> String {
    let mut text = TEXTS.get(name).copied().unwrap_or_default();
    while let Some((_, rest)) = text.split_once('\n').filter(|(line, _)| line.starts_with("--")) {
        text = rest;
    }
    with_columns(text.trim_end())
}

/// The text of a statement.
pub(crate) type Sql = LazyLock<String>;

/// Two statements that differ in a few words.
pub(crate) struct SqlPair {
    first: Sql,
    second: Sql,
}

impl SqlPair {
    /// Returns the second one if `second`, else the first one.
    pub(crate) fn choose(&'static self, second: bool) -> &'static str {
        if second { &self.second } else { &self.first }
    }
}

macro_rules! statements {
    ($($name:ident;)*) => {
        $(pub(crate) static $name: Sql = Sql::new(|| text(stringify!($name)));)*

        #[cfg(test)]
        static SINGLE: &[(&str, &Sql)] = &[$((stringify!($name), &$name)),*];
    };
}

/// Lists in two directions: ascending, and descending.
macro_rules! directed_statements {
    ($($name:ident;)*) => {
        $(pub(crate) static $name: SqlPair = SqlPair {
            first: Sql::new(|| text(stringify!($name)).replace("{after}", ">").replace("{direction}", "ASC")),
            second: Sql::new(|| text(stringify!($name)).replace("{after}", "<").replace("{direction}", "DESC")),
        };)*

        #[cfg(test)]
        static DIRECTED: &[(&str, &SqlPair)] = &[$((stringify!($name), &$name)),*];
    };
}

/// Ways to visit the tasks of a queue: how the table is accessed, and which tasks are visited. Without their JSON, and with it.
macro_rules! visiting_statements {
    ($($name:ident = $access:literal, $which:literal;)*) => {
        $(pub(crate) static $name: SqlPair = SqlPair {
            first: Sql::new(|| text("VISIT_TASKS").replace("{access}", $access).replace("{which}", $which)),
            second: Sql::new(|| text("VISIT_WHOLE_TASKS").replace("{access}", $access).replace("{which}", $which)),
        };)*

        #[cfg(test)]
        static VISITING: &[(&str, &SqlPair)] = &[$((stringify!($name), &$name)),*];
    };
}

directed_statements! {
    LIST_HEADS_BY_CREATION; LIST_HEADS_BY_ID; LIST_TASKS_BY_CREATION; LIST_TASKS_BY_ID; LIST_TASKS_OF_ONE_TIME;
    LIST_UNSUCCESSFUL;
}

visiting_statements! {
    SCAN_TASKS = "NOT INDEXED", "";
    SCAN_TASKS_BETWEEN = "NOT INDEXED", " AND tasks.task_key > ?2 AND tasks.task_key <= ?3 ORDER BY tasks.task_key";
    VISIT_TASK = "", " AND tasks.task_key = ?2";
    WALK_TASKS = "INDEXED BY tasks_by_creation", "";
    WALK_UNSUCCESSFUL =
        "INDEXED BY unsuccessful_tasks", " AND tasks.status = ?2 AND tasks.status IN ('failed', 'cancelled')";
}

statements! {
    ADD_TALLY; BEGIN_READ; BOUND_DELETED_RUNS; BOUND_PURGES; CHANGE_TALLY; CHECK; CHECK_DELETED_RUNS; CHECK_EMPTY; CHECK_OBSERVATIONS;
    CHECK_OUTPUT_PIECES; CHECK_REFERENCES; CHECK_TALLY; CLEAR_DELETED_RUNS; CLEAR_LIVING_TASKS; CLEAR_MARKS;
    CLEAR_RUN_PAGES; CLEAR_RUN_SEGMENTS; COUNT_DERIVED; COUNT_QUEUE_SHARE; COUNT_TALLY; DELETE_ACTIVITY; DELETE_DEFINITION;
    DELETE_DEPENDENCIES; DELETE_DEPENDENCY; DELETE_EMPTIED_TALLY; DELETE_ENDED; DELETE_ENDED_READ;
    DELETE_EXPIRED_OBSERVATIONS; DELETE_FIRST_ENDED; DELETE_FORGETTABLE_RUNS; DELETE_LATE_OBSERVATIONS;
    DELETE_LIVING_TASKS; DELETE_OBSERVATION; DELETE_OBSERVATIONS; DELETE_OLD_OUTPUT_PIECES; DELETE_OUTCOME;
    DELETE_OUTPUT; DELETE_OUTPUT_PIECES; DELETE_PAST_RUNS; DELETE_PURGE; DELETE_QUEUE; DELETE_RUN_PAGES;
    DELETE_RUN_SEGMENT; DELETE_SETTINGS; DELETE_TALLY; DELETE_TASK; DELETE_UNSETTLED; DELETE_UNSETTLED_OF_QUEUE;
    END_READ; FIND_DEPENDENCY; FIND_FIRST_ENDED; FIND_HEAD; FIND_LAST_KEY; FIND_LAST_RUN_PAGE; FIND_LIVING_TASKS;
    FIND_NEXT_ENDED; FIND_OUTPUT_PIECE; FIND_PURGE; FIND_QUEUE; FIND_RUN_PAGE; FIND_STATUS; FIND_STATUS_BY_ID;
    FIND_TASK; FIND_UNSETTLED; FIND_UNSETTLED_OF_QUEUE; FORGET_ACTIVITY; GET_OUTPUT; GET_RELATED; GET_TASK; HAS_ENDED;
    HAS_QUEUE; INSERT_DEFINITION; INSERT_DELETED_RUN; INSERT_ENDED; INSERT_OUTPUT_PIECE; INSERT_PAST_RUN; INSERT_PURGE;
    INSERT_QUEUE; INSERT_RUN_PAGE; INSERT_TASK; LIST_ACTIVITY; LIST_AWAITED; LIST_DEPENDENTS; LIST_ENDED;
    LIST_FORGETTABLE_RUNS; LIST_HEADS; LIST_NOTED_STATUSES; LIST_OBJECTS; LIST_OBSERVATIONS; LIST_OUTPUT_PIECES;
    LIST_PAST_RUNS; LIST_PURGEABLE_TASKS; LIST_RELATED; LIST_RUN_PAGES; LIST_TALLY; LIST_UNSETTLED;
    LIST_UNSETTLED_QUEUES; LIST_WHOLE_TALLY; LIST_WORKER_STATES; LOAD_ACTIVITY_SINCE; LOAD_ALL_SETTINGS; LOAD_CLAIM_INDEX; LOAD_DELETED_RUNS;
    LOAD_DOCUMENTS; LOAD_ENDED_READ; LOAD_ENDED_READS; LOAD_HEAD; LOAD_IDENTITY; LOAD_INSTALLATION_SECRET;
    LOAD_LIVING_TASKS; LOAD_MARKS; LOAD_OBSERVATION; LOAD_OUTCOME; LOAD_OUTPUT; LOAD_PAST_RUNS; LOAD_QUEUES;
    LOAD_RUN_SEGMENTS; LOAD_SCAN; LOAD_SETTINGS; LOAD_TASK; LOAD_TASK_OF_QUEUE; RESET_MARKS; SAVE_ACTIVITY;
    SAVE_ACTIVITY_SINCE; SAVE_DEPENDENCY; SAVE_DOCUMENTS; SAVE_ENDED_READ; SAVE_HEAD; SAVE_HEAD_AND_OUTCOME_KEY;
    SAVE_INSTALLATION_SECRET; SAVE_LIVING_TASKS; SAVE_MARKS; SAVE_NAME; SAVE_OBSERVATION; SAVE_OUTCOME; SAVE_OUTPUT;
    SAVE_OUTPUT_PIECE; SAVE_RUN_SEGMENT; SAVE_SCAN; SAVE_SETTINGS; SAVE_UNSETTLED; TAKE_OUTPUT_PIECE; TALLY_QUEUE; TOUCH_MARKS;
    TRANSFER_DELETED_RUNS; TRANSFER_QUEUE; TRANSFER_TASKS;
}

/// Every statement prepares on a migrated database, and the hot ones neither scan nor sort.
#[cfg(test)]
mod tests {
    use rusqlite::{Connection, StatementStatus};

    use super::*;
    use crate::{migrate, open, statements};

    /// All statements with their names.
    fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        let pairs = DIRECTED.iter().chain(VISITING);
        let single = SINGLE.iter().map(|(name, text)| (*name, text.as_str()));
        single.chain(pairs.flat_map(|(name, pair)| [false, true].map(|second| (*name, pair.choose(second)))))
    }

    /// The names of the texts that are used.
    fn used_texts() -> impl Iterator<Item = &'static str> {
        let names = SINGLE.iter().map(|(name, _)| *name).chain(DIRECTED.iter().map(|(name, _)| *name));
        names.chain(["VISIT_TASKS", "VISIT_WHOLE_TASKS"])
    }

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
        for (name, sql) in all() {
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
        for (name, sql) in all().filter(|(_, sql)| sql.contains("SELECT")) {
            let mut statement = connection.prepare(sql).unwrap();
            for value in 0..3 {
                let values = rusqlite::params_from_iter((0..statement.parameter_count()).map(|_| value));
                statement.query(values).unwrap().next().unwrap();
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{name}");
        }
    }

    #[test]
    fn every_statement_has_one_text_and_every_text_is_used() {
        let mut used: Vec<&str> = used_texts().collect();
        used.sort_unstable();
        let lines = statements::FILES.iter().flat_map(|file| file.lines());
        let mut written: Vec<&str> = lines.filter_map(|line| line.strip_prefix("-- name: ")).collect();
        written.sort_unstable();
        assert_eq!(written, used);
    }

    #[test]
    fn no_statement_scans_or_sorts_but_those_that_mean_to() {
        // At start, over all tasks by design, or over the few rows of queues, counts and workers.
        let by_design = "DELETE_EXPIRED_OBSERVATIONS BOUND_PURGES CHECK CHECK_DELETED_RUNS CHECK_EMPTY \
             CHECK_OBSERVATIONS CHECK_REFERENCES CHECK_TALLY COUNT_DERIVED DELETE_LATE_OBSERVATIONS FIND_PURGE \
             LIST_HEADS LIST_WHOLE_TALLY CLEAR_MARKS LOAD_LIVING_TASKS LOAD_MARKS LOAD_RUN_SEGMENTS RESET_MARKS \
             SAVE_MARKS TOUCH_MARKS LOAD_QUEUES LOAD_SCAN SCAN_TASKS TRANSFER_DELETED_RUNS COUNT_QUEUE_SHARE \
             LOAD_ALL_SETTINGS LOAD_ENDED_READS";
        // The keys that it removes, the first row, and what is read for a check and a transfer.
        let others = "DELETE_DEPENDENCIES FIND_UNSETTLED LIST_UNSETTLED_QUEUES LIST_NOTED_STATUSES LIST_OBJECTS";
        let scanning: Vec<&str> = by_design.split(' ').chain(others.split(' ')).collect();
        let connection = migrated();
        for (name, sql) in all() {
            let plan = plan(&connection, sql);
            let scans = plan.iter().any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE"));
            assert_eq!(scans, scanning.contains(&name), "{name}: {plan:#?}");
        }
    }

    #[test]
    fn what_is_looked_for_is_found_by_its_index() {
        let [one_dependency, later_dependents] = ["task_key=?", "task_key>?"]
            .map(|task| format!("dependencies USING PRIMARY KEY (queue_key=? AND dependency=? AND {task})"));
        let (of_one_time, heads) = (&statements::LIST_TASKS_OF_ONE_TIME, &statements::LIST_HEADS_BY_CREATION);
        let cases: &[(&str, &str)] = &[
            // Dependents, by what they wait for.
            (&statements::LIST_DEPENDENTS, &later_dependents),
            (&statements::FIND_DEPENDENCY, &one_dependency),
            (&statements::DELETE_DEPENDENCY, &one_dependency),
            (&statements::DELETE_DEPENDENCIES, "dependencies USING PRIMARY KEY (queue_key=? AND dependency<?)"),
            (&statements::LIST_AWAITED, "dependencies USING PRIMARY KEY (queue_key=?)"),
            (&statements::FIND_STATUS_BY_ID, "tasks USING INDEX tasks_by_id (queue_key=? AND id=?)"),
            (&statements::FIND_UNSETTLED_OF_QUEUE, "unsettled USING PRIMARY KEY (queue_key=?)"),
            (&statements::LIST_UNSETTLED, "unsettled USING PRIMARY KEY (queue_key=?)"),
            // Output, by its offset.
            (&statements::FIND_OUTPUT_PIECE, "output_pieces_by_start (task_key=? AND start<?)"),
            (&statements::TAKE_OUTPUT_PIECE, "output_pieces_by_start (task_key=? AND start=?)"),
            (&statements::DELETE_OLD_OUTPUT_PIECES, "output_pieces_by_start (task_key=? AND start<?)"),
            (&statements::LIST_OUTPUT_PIECES, "output_pieces_by_start (task_key=? AND start>? AND start<?)"),
            // The default list, and narrow rows, from the cursor on.
            (statements::LIST_TASKS_BY_CREATION.choose(true), "tasks_by_creation (queue_key=? AND created_at<?)"),
            (statements::LIST_TASKS_BY_CREATION.choose(false), "tasks_by_creation (queue_key=? AND created_at>?)"),
            (of_one_time.choose(true), "tasks_by_creation (queue_key=? AND created_at=? AND id<?)"),
            (of_one_time.choose(false), "tasks_by_creation (queue_key=? AND created_at=? AND id>?)"),
            (heads.choose(false), "tasks_by_creation (queue_key=? AND (created_at,id)>(?,?))"),
            (heads.choose(true), "tasks_by_creation (queue_key=? AND (created_at,id)<(?,?))"),
            (statements::LIST_HEADS_BY_ID.choose(false), "tasks_by_id (queue_key=? AND id>?)"),
            (statements::LIST_HEADS_BY_ID.choose(true), "tasks_by_id (queue_key=? AND id<?)"),
            // Activity, by queue and time, and what is old by time.
            (&statements::LIST_ACTIVITY, "activity USING PRIMARY KEY (queue_key=? AND unit=? AND start>? AND start<?)"),
            (&statements::FORGET_ACTIVITY, "activity USING COVERING INDEX activity_by_start (unit=? AND start<?)"),
            (&statements::DELETE_ACTIVITY, "activity USING PRIMARY KEY (queue_key=?)"),
            // What has ended, by queue, state and time.
            (&statements::LIST_ENDED, "ended USING PRIMARY KEY (queue_key=? AND status=? AND ended_at<?)"),
            (
                &statements::DELETE_ENDED,
                "ended USING PRIMARY KEY (queue_key=? AND status=? AND ended_at=? AND task_key=?)",
            ),
            (
                &statements::DELETE_FIRST_ENDED,
                "ended USING PRIMARY KEY (queue_key=? AND status=? AND (ended_at,task_key)<(?,?))",
            ),
            (&statements::FIND_FIRST_ENDED, "ended USING PRIMARY KEY (queue_key=? AND status=?)"),
            (&statements::FIND_NEXT_ENDED, "ended USING PRIMARY KEY ((queue_key,status)>(?,?))"),
        ];
        let connection = migrated();
        for (sql, search) in cases {
            let plan = plan(&connection, sql).join("\n");
            assert!(plan.contains(search), "{plan}");
        }
    }
}
