//! Every SQL statement of this backend, with the types of its parameters. Each file says what it is for; what is decided is in
//! `core`.

use std::sync::LazyLock;

use tokio_postgres::types::Type;

use crate::rows::with_columns;
use crate::session::Sql;

macro_rules! statements {
    ($(#[$doc:meta])* $list:ident: $($name:ident = $file:literal ($($type:ident),*);)*) => {
        $(pub(crate) static $name: Sql = Sql {
            name: $file,
            text: LazyLock::new(|| with_columns(include_str!(concat!("sql/", $file, ".sql")))),
            types: &[$(Type::$type),*],
        };)*

        $(#[$doc])*
        pub(crate) static $list: &[&Sql] = &[$(&$name),*];
    };
}

statements! {
    /// Prepared by connections that write.
    WRITER:
    ADD_TALLY = "add_tally" (INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT2_ARRAY);
    APPEND_OUTPUT = "append_output" (INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY);
    AWAIT_RELEASE = "await_release" ();
    BEGIN_ENDED_READING = "begin_ended_reading" (INT8);
    BEGIN_RELEASE = "begin_release" ();
    BRING_TIME_BACK = "bring_time_back" (INT8, INT8, INT8, INT8, INT8);
    CHECK_QUEUES = "check_queues" (INT8_ARRAY);
    CHECK_TRANSACTION = "check_transaction" (TEXT, TEXT);
    CLEAR_ERRORS = "clear_errors" (INT8_ARRAY);
    CLEAR_LAST_RUNS = "clear_last_runs" (INT8_ARRAY);
    CLEAR_PROGRESS = "clear_progress" (INT8_ARRAY);
    CLEAR_RESULTS = "clear_results" (INT8_ARRAY);
    CONFIRM_MISSING = "confirm_missing" (INT8, TEXT_ARRAY, INT2_ARRAY);
    COUNT_FROM_NOW_ON = "count_from_now_on" (INT8);
    COUNT_LIMITED = "count_limited" (INT8);
    COUNT_NO_MORE = "count_no_more" (INT8);
    COUNT_RUNNING = "count_running" (INT8);
    CURRENT_TRANSACTION = "current_transaction" ();
    CUT_OUTPUT_PIECES = "cut_output_pieces" (INT8_ARRAY, INT8_ARRAY);
    DELETE_DELAYED = "delete_delayed" (INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    DELETE_DEPENDENCIES = "delete_dependencies" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    DELETE_ENDED = "delete_ended" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY);
    DELETE_ENDED_READING = "delete_ended_reading" (INT8);
    DELETE_EXPIRED_OBSERVATIONS = "delete_expired_observations" (INT8);
    DELETE_OBSERVATIONS = "delete_observations" (INT8_ARRAY, TEXT_ARRAY);
    DELETE_OUTPUT_PIECES = "delete_output_pieces" (INT8_ARRAY, INT8_ARRAY);
    DELETE_OUTPUT_PURGES = "delete_output_purges" (INT8_ARRAY);
    DELETE_PURGE = "delete_purge" (INT8);
    DELETE_QUEUE = "delete_queue" (INT8, INT8);
    DELETE_READY = "delete_ready" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY);
    DELETE_RUNNING = "delete_running" (INT8_ARRAY);
    DELETE_TASKS = "delete_tasks" (INT8_ARRAY, INT8);
    DELETE_TURN = "delete_turn" (INT8);
    DELETE_UNSETTLED = "delete_unsettled" (INT8_ARRAY);
    DELETE_UNSUCCESSFUL = "delete_unsuccessful" (INT8_ARRAY);
    FIND_READY = "find_ready" (INT8, TEXT, INT8_ARRAY, INT8);
    FIND_RUNS = "find_runs" (TEXT_ARRAY);
    FIND_TASKS = "find_tasks" (INT8, TEXT_ARRAY);
    FIND_UNSETTLED = "find_unsettled" (INT8, INT8);
    FORGET_ACTIVITY = "forget_activity" (INT8, INT8, INT8);
    FORGET_DELETED_RUNS = "forget_deleted_runs" (INT8, INT8);
    FREE_QUEUE = "free_queue" (TEXT);
    HAS_DEPENDENTS = "has_dependents" (INT8);
    HOLD_QUEUE = "hold_queue" (TEXT, INT8);
    INSERT_DEFINITIONS = "insert_definitions" (INT8_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY);
    INSERT_DELAYED = "insert_delayed" (INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    INSERT_ENDED = "insert_ended" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY);
    INSERT_OUTPUT_PIECES = "insert_output_pieces" (INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY);
    INSERT_QUEUES = "insert_queues" (INT8_ARRAY, TEXT_ARRAY);
    INSERT_READY = "insert_ready" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY);
    INSERT_RUNNING = "insert_running" (INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY);
    INSERT_RUNS = "insert_runs" (TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY);
    INSERT_TASKS = "insert_tasks" (
        INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, BOOL_ARRAY, INT8_ARRAY, TEXT_ARRAY
    );
    INSERT_TURN = "insert_turn" (INT8);
    INSERT_UNSETTLED = "insert_unsettled" (INT8_ARRAY, TEXT_ARRAY, BOOL_ARRAY);
    INSERT_UNSUCCESSFUL = "insert_unsuccessful" (INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY);
    LIST_DELETED = "list_deleted" (INT8_ARRAY);
    LIST_DEPENDENTS = "list_dependents" (INT8, TEXT, INT8, INT8);
    LIST_NAMED_DEPENDENTS = "list_named_dependents" (TEXT_ARRAY, TEXT_ARRAY, INT8);
    LIST_NOTED = "list_noted" (INT8, INT8, TEXT_ARRAY);
    LIST_OUTDATED = "list_outdated" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8);
    LIST_RETENTION = "list_retention" (INT8, INT8);
    LIST_WALKED_DEPENDENTS = "list_walked_dependents" (INT8, TEXT_ARRAY, INT8);
    LOAD_CLOCK = "load_clock" ();
    LOAD_DOCUMENTS = "load_documents" (INT8_ARRAY);
    LOAD_FIRST_TASKS = "load_first_tasks" (INT8_ARRAY, INT8);
    LOAD_HEADS = "load_heads" (INT8_ARRAY);
    LOAD_IDENTITIES = "load_identities" (TEXT_ARRAY, TEXT_ARRAY);
    LOAD_OBSERVATIONS = "load_observations" (TEXT_ARRAY, TEXT_ARRAY);
    LOAD_OUTPUTS = "load_outputs" (TEXT_ARRAY, TEXT_ARRAY);
    LOAD_OUTPUTS_BY_KEY = "load_outputs_by_key" (INT8_ARRAY);
    LOAD_RESULT_SIZES = "load_result_sizes" (TEXT_ARRAY, TEXT_ARRAY);
    LOAD_SETTINGS = "load_settings" (INT8_ARRAY);
    LOAD_TASKS = "load_tasks" (TEXT_ARRAY, TEXT_ARRAY);
    LOAD_TASKS_BY_KEY = "load_tasks_by_key" (INT8_ARRAY);
    LOCK_CLOCK = "lock_clock" ();
    LOCK_CLOCK_IF_FREE = "lock_clock_if_free" ();
    LOCK_DEPENDENTS = "lock_dependents" (INT8, TEXT, INT8, INT8);
    LOCK_ENDED = "lock_ended" (INT8_ARRAY);
    LOCK_ENDED_READING = "lock_ended_reading" ();
    LOCK_NAMED_DEPENDENTS = "lock_named_dependents" (TEXT_ARRAY, TEXT_ARRAY, INT8);
    LOCK_NAMED_STATUSES = "lock_named_statuses" (TEXT_ARRAY, TEXT_ARRAY);
    LOCK_OBSERVATIONS = "lock_observations" (INT8_ARRAY, TEXT_ARRAY);
    LOCK_OUTPUT_PURGES = "lock_output_purges" (INT8);
    LOCK_PURGE = "lock_purge" ();
    LOCK_QUEUES = "lock_queues" (TEXT_ARRAY);
    LOCK_QUEUE_ALONE = "lock_queue_alone" (TEXT_ARRAY);
    LOCK_QUEUE_BY_KEY = "lock_queue_by_key" (INT8);
    LOCK_RUNNING = "lock_running" (INT8, INT8);
    LOCK_STATUSES = "lock_statuses" (INT8, TEXT_ARRAY);
    LOCK_TASKS = "lock_tasks" (TEXT_ARRAY, TEXT_ARRAY);
    LOCK_TURN = "lock_turn" (INT8);
    MEASURE_GROWING = "measure_growing" ();
    MERGE_TALLY = "merge_tally" ();
    MOVE_DUE = "move_due" (TEXT_ARRAY, INT8);
    PEEK_UPKEEP = "peek_upkeep" (INT8);
    PICK_TASKS = "pick_tasks" (TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, BOOL, INT8);
    PURGE_DELAYED = "purge_delayed" (INT8, INT8);
    PURGE_DEPENDENCIES = "purge_dependencies" (INT8, INT8);
    PURGE_ENDED = "purge_ended" (INT8, INT8);
    PURGE_OUTPUT = "purge_output" (INT8_ARRAY, INT8);
    PURGE_READY = "purge_ready" (INT8, INT8);
    PURGE_TASKS = "purge_tasks" (INT8, INT8, INT8);
    RAISE_CLOCK = "raise_clock" (INT8, INT8);
    READ_ENDED = "read_ended" (INT8, TEXT, INT8);
    RELEASE_DELAYED = "release_delayed" (INT8, INT8);
    SAVE_ACTIVITY = "save_activity" (INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8, BYTEA_ARRAY);
    SAVE_ACTIVITY_SINCE = "save_activity_since" (INT8);
    SAVE_DEFINITIONS = "save_definitions" (INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY);
    SAVE_DEPENDENCIES = "save_dependencies" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT2_ARRAY);
    SAVE_ENDED_READING = "save_ended_reading" (INT8, TEXT);
    SAVE_ERRORS = "save_errors" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY);
    SAVE_HEADS = "save_heads" (
        INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY
    );
    SAVE_INSTALLATION_SECRET = "save_installation_secret" (BYTEA);
    SAVE_LAST_RUNS = "save_last_runs" (INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY);
    SAVE_LIFECYCLES = "save_lifecycles" (
        INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY,
        INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, BOOL_ARRAY, INT8_ARRAY
    );
    SAVE_NAMES = "save_names" (INT8_ARRAY, TEXT_ARRAY);
    SAVE_OBSERVATIONS = "save_observations" (
        INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        INT8_ARRAY
    );
    SAVE_ONE_ARGS = "save_one_args" (INT8_ARRAY, TEXT);
    SAVE_ONE_METADATA = "save_one_metadata" (INT8_ARRAY, TEXT);
    SAVE_ONE_RESULT = "save_one_result" (INT8_ARRAY, TEXT);
    SAVE_OUTPUTS = "save_outputs" (
        INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY
    );
    SAVE_PROGRESS = "save_progress" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY);
    SAVE_RESULTS = "save_results" (INT8_ARRAY, TEXT_ARRAY);
    SAVE_RETENTION = "save_retention" (INT8, TEXT_ARRAY, INT8_ARRAY);
    SAVE_SCAN = "save_scan" (INT8, INT8, INT8);
    SAVE_SETTINGS = "save_settings" (INT8, TEXT, BOOL);
    SAVE_SETTLED = "save_settled" (INT8, INT8);
    SAVE_TELEMETRY = "save_telemetry" (INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    SETTINGS = "settings" ();
    TAKE_NUMBERS = "take_numbers" ();
    TALLY_QUEUE = "tally_queue" (INT8);
    WALK_DEPENDENTS = "walk_dependents" (INT8, TEXT_ARRAY, INT8, BOOL);
}

statements! {
    /// Prepared by a transfer as well.
    TRANSFER:
    CHECK_EMPTY = "check_empty" ();
    CLEAR_DELETED_RUNS = "clear_deleted_runs" ();
    COUNT_DERIVED = "count_derived" (INT8_ARRAY);
    LIST_WHOLE_TALLY = "list_whole_tally" ();
    LOAD_OUTPUT_PIECES = "load_output_pieces" (INT8_ARRAY);
    LOAD_QUEUES = "load_queues" ();
    RAISE_NUMBERS = "raise_numbers" (INT8);
    TRANSFER_DELETED_RUNS = "transfer_deleted_runs" (INT8, TEXT, INT8);
    TRANSFER_DEPENDENCIES = "transfer_dependencies" (INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY);
    TRANSFER_UNSETTLED = "transfer_unsettled" (INT8);
    TRANSFER_TASKS = "transfer_tasks" (INT8, INT8_ARRAY, INT8);
}

statements! {
    /// Of a check, which prepares nothing: its statements run once.
    #[cfg(test)]
    OF_CHECK:
    CHECK_DEPENDENCIES = "check_dependencies" ();
    CHECK_ENDED = "check_ended" ();
    CHECK_LIMITED = "check_limited" ();
    CHECK_OBSERVATIONS = "check_observations" (INT8);
    CHECK_OUTPUTS = "check_outputs" (INT8, INT8);
    CHECK_PENDING_ORDER = "check_pending_order" ();
    CHECK_REFERENCES = "check_references" ();
    CHECK_RUNNING = "check_running" ();
    CHECK_RUN_IDS = "check_run_ids" ();
    CHECK_SETTINGS = "check_settings" ();
    CHECK_TALLY = "check_tally" ();
}

/// Asks the catalogue, in which our names are values.
pub(crate) const CHECK_ENGINE: &str = include_str!("sql/check_engine.sql");

/// Used before the schema exists.
pub(crate) const CHECK_SCHEMA: &str = include_str!("sql/check_schema.sql");

statements! {
    /// Not prepared: those of reading connections, and those that the planner is to plan each time.
    #[cfg(test)]
    READER:
    CHECK = "check" ();
    COUNT_STATUSES = "count_statuses" (INT8);
    COUNT_TALLY = "count_tally" (TEXT, TEXT_ARRAY, BOOL);
    EXPLAIN_DELAYED = "explain_delayed" (INT8, INT8, INT8);
    EXPLAIN_DEPENDENCIES = "explain_dependencies" (INT8, TEXT_ARRAY);
    EXPLAIN_ROUTES = "explain_routes" (INT8, TEXT_ARRAY, INT8, INT8, INT8);
    EXPLAIN_TASK = "explain_task" (TEXT, TEXT);
    FIND_QUEUE = "find_queue" (TEXT);
    FIND_QUEUE_AND_TIME = "find_queue_and_time" (TEXT);
    GET_OUTPUT = "get_output" (TEXT, TEXT);
    GET_OUTPUT_PIECES = "get_output_pieces" (INT8, INT8, INT8, TEXT);
    GET_RELATED = "get_related" (INT8, TEXT_ARRAY);
    GET_SETTINGS = "get_settings" (TEXT);
    GET_TASK = "get_task" (TEXT, TEXT);
    HAS_MANY_ARCHIVED = "has_many_archived" (TEXT, INT8);
    LIST_ACTIVITY = "list_activity" (INT8, INT8, INT8, INT8);
    LIST_CHANGED = "list_changed" (INT8, TEXT, INT8);
    LIST_FIGURES = "list_figures" (INT8_ARRAY);
    LIST_KEYS_BY_STATUS = "list_keys_by_status" (INT8, TEXT_ARRAY);
    LIST_OBSERVATIONS = "list_observations" (INT8, INT8, TEXT, INT8);
    LIST_OLDEST_PENDING = "list_oldest_pending" (INT8_ARRAY, TEXT_ARRAY, INT8);
    LIST_PENDING_PARTS = "list_pending_parts" (INT8_ARRAY, INT8, INT8, INT8);
    LIST_QUEUES = "list_queues" ();
    LIST_QUEUE_KEYS = "list_queue_keys" ();
    LIST_RELATED = "list_related" (INT8, TEXT, INT8);
    LIST_ROUTE_FIGURES = "list_route_figures" (INT8_ARRAY, INT8);
    LIST_SERVED_ROUTES = "list_served_routes" (INT8, INT8, TEXT_ARRAY);
    LIST_TALLY = "list_tally" (TEXT, TEXT_ARRAY, BOOL);
    LOAD_ACTIVITY_SINCE = "load_activity_since" ();
    LOAD_INSTALLATION_SECRET = "load_installation_secret" ();
    LOCK_FOUND = "lock_found" (INT8_ARRAY, INT8);
    MEASURE_TABLES = "measure_tables" ();
    POLL_OUTPUTS = "poll_outputs" (TEXT_ARRAY);
    POLL_ROUTES = "poll_routes" (TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8);
    POLL_RUNS = "poll_runs" (TEXT_ARRAY);
    TAKE_SNAPSHOT = "take_snapshot" (TEXT);
}

statements! {
    /// Completed with a condition and an order (`dialect/order.rs`), so never prepared.
    #[cfg(test)]
    COMPOSED:
    COUNT_TASKS = "count_tasks" (INT8);
    FIND_SELECTED = "find_selected" (INT8, BOOL, BOOL, INT8, INT8);
    GROUP_TASKS = "group_tasks" (INT8);
    LIST_MATCHING = "list_matching" (INT8);
    LIST_TASKS = "list_tasks" (INT8, INT8, INT8);
    SCAN_TASKS = "scan_tasks" (INT8, BOOL, BOOL);
}
