//! Every SQL statement of this backend. Their texts are in `sql/`, a file for each subject; what is decided is in `core`.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::types::Type;

use crate::rows::with_columns;
use crate::session::Sql;

macro_rules! files {
    ($($subject:literal)*) => { [$(include_str!(concat!("sql/", $subject, ".sql"))),*] };
}

/// The files of statements, by subject.
pub(crate) static FILES: [&str; 16] = files! {
    "check" "claims" "clock" "counts" "dependencies" "ended" "figures" "observations" "output" "purge" "queues" "reads"
    "schema" "tasks" "transfer" "wakeups"
};

/// The statements by their names: each follows the line `-- name: NAME`.
static TEXTS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let statements = FILES.iter().flat_map(|file| file.split("\n-- name: ").skip(1));
    statements.filter_map(|statement| statement.split_once('\n')).collect()
});

fn text(name: &str) -> String {
    TEXTS.get(name).map(|text| with_columns(text)).unwrap_or_default()
}

/// The types of the parameters of a text, which casts each of them at least once: `$1::bigint`.
fn types(text: &str) -> Vec<Type> {
    let cast = |number: usize| {
        let (_, rest) = text.split_once(&format!("${number}::"))?;
        let name = rest.split(|letter: char| !letter.is_alphanumeric()).next()?;
        let is_array = rest[name.len()..].starts_with("[]");
        TYPES.iter().find(|(known, ..)| *known == name).map(|(_, one, many)| if is_array { many } else { one }.clone())
    };
    (1..).map_while(cast).collect()
}

/// The types that parameters have: their names, and those of one value and of an array.
static TYPES: [(&str, Type, Type); 6] = [
    ("bigint", Type::INT8, Type::INT8_ARRAY),
    ("boolean", Type::BOOL, Type::BOOL_ARRAY),
    ("bytea", Type::BYTEA, Type::BYTEA_ARRAY),
    ("integer", Type::INT4, Type::INT4_ARRAY),
    ("smallint", Type::INT2, Type::INT2_ARRAY),
    ("text", Type::TEXT, Type::TEXT_ARRAY),
];

macro_rules! statements {
    ($(#[$doc:meta])* $list:ident, prepared: $is_prepared:literal; $($name:ident,)*) => {
        $(pub(crate) static $name: Sql = Sql {
            name: stringify!($name),
            text: LazyLock::new(|| text(stringify!($name))),
            types: LazyLock::new(|| types(&$name.text)),
            is_prepared: $is_prepared,
        };)*

        $(#[$doc])*
        #[cfg(test)]
        pub(crate) static $list: &[&Sql] = &[$(&$name),*];
    };
}

statements! {
    /// Of connections that write.
    WRITER, prepared: true;
    ADD_TALLY, APPEND_OUTPUT, AWAIT_RELEASE, BEGIN_ENDED_READING, BEGIN_RELEASE, BRING_TIME_BACK, CHECK_QUEUES,
    CHECK_TRANSACTION, CLEAR_ERRORS, CLEAR_LAST_RUNS, CLEAR_PROGRESS, CLEAR_RESULTS, CONFIRM_MISSING,
    COUNT_FROM_NOW_ON, COUNT_LIMITED, COUNT_NO_MORE, COUNT_RUNNING, CURRENT_TRANSACTION, CUT_OUTPUT_PIECES,
    DELETE_DELAYED, DELETE_DEPENDENCIES, DELETE_ENDED, DELETE_ENDED_READING, DELETE_EXPIRED_OBSERVATIONS,
    DELETE_OBSERVATIONS, DELETE_OUTPUT_PIECES, DELETE_OUTPUT_PURGES, DELETE_PURGE, DELETE_QUEUE, DELETE_READY,
    DELETE_RUNNING, DELETE_TASKS, DELETE_TURN, DELETE_UNSETTLED, DELETE_UNSUCCESSFUL, FIND_READY, FIND_RUNS,
    FIND_TASKS, FIND_UNSETTLED, FORGET_ACTIVITY, FORGET_DELETED_RUNS, FREE_QUEUE, HAS_DEPENDENTS, HOLD_QUEUE,
    INSERT_DEFINITIONS, INSERT_DELAYED, INSERT_DEPENDENCIES, INSERT_ENDED, INSERT_OUTPUT_PIECES, INSERT_QUEUES, INSERT_READY,
    INSERT_RUNNING, INSERT_RUNS, INSERT_TASKS, INSERT_TURN, INSERT_UNSETTLED, INSERT_UNSUCCESSFUL, LIST_DELETED,
    LIST_DEPENDENTS, LIST_NAMED_DEPENDENTS, LIST_NOTED, LIST_OUTDATED, LIST_RETENTION, LIST_WALKED_DEPENDENTS,
    LOAD_CLOCK, LOAD_DOCUMENTS, LOAD_FIRST_TASKS, LOAD_HEADS, LOAD_IDENTITIES, LOAD_OBSERVATIONS, LOAD_OUTPUTS,
    LOAD_OUTPUTS_BY_KEY, LOAD_RESULT_SIZES, LOAD_SETTINGS, LOAD_TASKS, LOAD_TASKS_BY_KEY, LOCK_CLOCK,
    LOCK_CLOCK_IF_FREE, LOCK_DEPENDENTS, LOCK_ENDED, LOCK_ENDED_READING, LOCK_NAMED_DEPENDENTS, LOCK_NAMED_STATUSES,
    LOCK_OBSERVATIONS, LOCK_OUTPUT_PURGES, LOCK_PURGE, LOCK_QUEUES, LOCK_QUEUE_ALONE, LOCK_QUEUES_BY_KEY,
    LOCK_RUNNING, LOCK_STATUSES, LOCK_TASKS, LOCK_TURN, MEASURE_GROWING, MERGE_TALLY, MOVE_DUE, PEEK_UPKEEP,
    PICK_TASKS, PURGE_DELAYED, PURGE_DEPENDENCIES, PURGE_ENDED, PURGE_OUTPUT, PURGE_READY, PURGE_TASKS, RAISE_CLOCK,
    READ_ENDED, RELEASE_DELAYED, SAVE_ACTIVITY, SAVE_ACTIVITY_SINCE, SAVE_DEFINITIONS, SAVE_DEPENDENCIES,
    SAVE_ENDED_READING, SAVE_ERRORS, SAVE_HEADS, SAVE_INSTALLATION_SECRET, SAVE_LAST_RUNS, SAVE_LIFECYCLES,
    SAVE_NAMES, SAVE_OBSERVATIONS, SAVE_ONE_ARGS, SAVE_ONE_METADATA, SAVE_ONE_RESULT, SAVE_OUTPUTS, SAVE_PROGRESS,
    SAVE_RESULTS, SAVE_RETENTION, SAVE_SCAN, SAVE_SETTINGS, SAVE_SETTLED, SAVE_TELEMETRY, SETTINGS, TAKE_NUMBERS,
    TALLY_QUEUE, WALK_DEPENDENTS,
}

statements! {
    /// Of reading connections; of a transfer, each for some thousand rows; of a check and of the schema itself, where each runs once; those
    /// that are completed with a condition and an order (`dialect/order.rs`), or that the planner is to plan each time.
    UNPREPARED, prepared: false;
    CHECK, CHECK_DEPENDENCIES, CHECK_EMPTY, CHECK_ENDED, CHECK_LIMITED, CHECK_OBSERVATIONS, CHECK_OUTPUTS,
    CHECK_PENDING_ORDER, CHECK_REFERENCES, CHECK_RUNNING, CHECK_RUN_IDS, CHECK_SETTINGS, CHECK_TALLY,
    CLEAR_DELETED_RUNS, COUNT_DERIVED, COUNT_STATUSES, COUNT_TALLY, COUNT_TASKS, EXPLAIN_DELAYED,
    EXPLAIN_DEPENDENCIES, EXPLAIN_ROUTES, EXPLAIN_TASK, FIND_QUEUE, FIND_QUEUE_AND_TIME, FIND_SELECTED, GET_OUTPUT,
    GET_OUTPUT_PIECES, GET_RELATED, GET_SETTINGS, GET_TASK, GROUP_TASKS, HAS_MANY_ARCHIVED, HAS_SCHEMA,
    INSPECT_SCHEMA, LIST_ACTIVITY, LIST_CHANGED, LIST_CHECKABLE_INDEXES, LIST_DAMAGE, LIST_FIGURES,
    LIST_KEYS_BY_STATUS, LIST_MATCHING, LIST_OBSERVATIONS, LIST_OLDEST_PENDING, LIST_PENDING_PARTS, LIST_QUEUE_KEYS,
    LIST_RELATED, LIST_RELATIONS, LIST_ROUTE_FIGURES, LIST_SERVED_ROUTES, LIST_TALLY, LIST_TASKS, LIST_WHOLE_TALLY,
    LOAD_ACTIVITY_SINCE, LOAD_INSTALLATION_SECRET, LOAD_OUTPUT_PIECES, LOAD_QUEUES, LOCK_FOUND, MEASURE_TABLES,
    POLL_OUTPUTS, POLL_ROUTES, POLL_RUNS, RAISE_NUMBERS, SCAN_TASKS, TAKE_SNAPSHOT, TRANSFER_DELETED_RUNS,
    TRANSFER_DEPENDENCIES, TRANSFER_TASKS, TRANSFER_UNSETTLED,
}
