//! Every SQL statement of this backend. Each file says what it is for; what is decided is in `core`.

use std::sync::LazyLock;

use crate::rows::with_columns;

/// The text of a file without the comment at its beginning. The cache of prepared statements hashes the whole text.
const fn without_comment(text: &str) -> &str {
    let (bytes, mut start) = (text.as_bytes(), 0);
    while bytes[start] == b'-' {
        while bytes[start] != b'\n' {
            start += 1;
        }
        start += 1;
    }
    text.split_at(start).1
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = without_comment(include_str!(concat!("sql/", $file, ".sql")));)*

        #[cfg(test)]
        const PLAIN: &[(&str, &str, &str)] = &[$((stringify!($name), $file, $name)),*];
    };
}

/// Statements that select one of the column lists of `rows.rs`, and that differ from another one by a few words.
macro_rules! composed_statements {
    ($($name:ident = $file:literal $(, $word:literal = $text:literal)*;)*) => {
        $(pub(crate) static $name: LazyLock<String> = LazyLock::new(|| {
            let text = with_columns(without_comment(include_str!(concat!("sql/", $file, ".sql"))));
            $(let text = text.replace($word, $text);)*
            text
        });)*

        #[cfg(test)]
        const COMPOSED: &[(&str, &str, &LazyLock<String>)] = &[$((stringify!($name), $file, &$name)),*];
    };
}

/// All statements: the name of the constant, the name of the file, the text.
#[cfg(test)]
pub(crate) fn all() -> Vec<(&'static str, &'static str, &'static str)> {
    let composed = COMPOSED.iter().map(|(name, file, text)| (*name, *file, text.as_str()));
    PLAIN.iter().copied().chain(composed).collect()
}

composed_statements! {
    CHECK_OBSERVATIONS = "check_observations";
    FIND_HEAD = "find_head";
    GET_TASK = "get_task";
    LIST_HEADS = "list_heads";
    LIST_HEADS_BY_CREATION_ASCENDING = "list_heads_by_creation", "{after}" = ">", "{direction}" = "ASC";
    LIST_HEADS_BY_CREATION_DESCENDING = "list_heads_by_creation", "{after}" = "<", "{direction}" = "DESC";
    LIST_HEADS_BY_ID_ASCENDING = "list_heads_by_id", "{after}" = ">", "{direction}" = "ASC";
    LIST_HEADS_BY_ID_DESCENDING = "list_heads_by_id", "{after}" = "<", "{direction}" = "DESC";
    LIST_OBSERVATIONS = "list_observations";
    LIST_TASKS_BY_CREATION_ASCENDING = "list_tasks_by_creation", "{after}" = ">", "{direction}" = "ASC";
    LIST_TASKS_BY_CREATION_DESCENDING = "list_tasks_by_creation", "{after}" = "<", "{direction}" = "DESC";
    LIST_TASKS_BY_ID_ASCENDING = "list_tasks_by_id", "{after}" = ">", "{direction}" = "ASC";
    LIST_TASKS_BY_ID_DESCENDING = "list_tasks_by_id", "{after}" = "<", "{direction}" = "DESC";
    LIST_TASKS_OF_ONE_TIME_ASCENDING = "list_tasks_of_one_time", "{after}" = ">", "{direction}" = "ASC";
    LIST_TASKS_OF_ONE_TIME_DESCENDING = "list_tasks_of_one_time", "{after}" = "<", "{direction}" = "DESC";
    LIST_UNSUCCESSFUL_ASCENDING = "list_unsuccessful", "{after}" = ">", "{direction}" = "ASC";
    LIST_UNSUCCESSFUL_DESCENDING = "list_unsuccessful", "{after}" = "<", "{direction}" = "DESC";
    LOAD_CLAIM_INDEX = "load_claim_index";
    LOAD_HEAD = "load_head";
    LOAD_OBSERVATION = "load_observation";
    LOAD_TASK = "load_task";
    LOAD_TASK_OF_QUEUE = "load_task_of_queue";
    SCAN_TASKS = "visit_tasks", "{access}" = "NOT INDEXED", "{which}" = "";
    SCAN_TASKS_BETWEEN =
        "visit_tasks", "{access}" = "NOT INDEXED",
        "{which}" = " AND tasks.task_key > ?2 AND tasks.task_key <= ?3 ORDER BY tasks.task_key";
    SCAN_WHOLE_TASKS = "visit_whole_tasks", "{access}" = "NOT INDEXED", "{which}" = "";
    SCAN_WHOLE_TASKS_BETWEEN =
        "visit_whole_tasks", "{access}" = "NOT INDEXED",
        "{which}" = " AND tasks.task_key > ?2 AND tasks.task_key <= ?3 ORDER BY tasks.task_key";
    TRANSFER_DELETED_RUNS = "transfer_deleted_runs";
    TRANSFER_TASKS = "transfer_tasks";
    VISIT_TASK = "visit_tasks", "{access}" = "", "{which}" = " AND tasks.task_key = ?2";
    VISIT_WHOLE_TASK = "visit_whole_tasks", "{access}" = "", "{which}" = " AND tasks.task_key = ?2";
    WALK_TASKS = "visit_tasks", "{access}" = "INDEXED BY tasks_by_creation", "{which}" = "";
    WALK_UNSUCCESSFUL =
        "visit_tasks", "{access}" = "INDEXED BY unsuccessful_tasks",
        "{which}" = " AND tasks.status = ?2 AND tasks.status IN ('failed', 'cancelled')";
    WALK_WHOLE_TASKS = "visit_whole_tasks", "{access}" = "INDEXED BY tasks_by_creation", "{which}" = "";
    WALK_WHOLE_UNSUCCESSFUL =
        "visit_whole_tasks", "{access}" = "INDEXED BY unsuccessful_tasks",
        "{which}" = " AND tasks.status = ?2 AND tasks.status IN ('failed', 'cancelled')";
}

statements! {
    ADD_TALLY = "add_tally";
    BEGIN_READ = "begin_read";
    BOUND_DELETED_RUNS = "bound_deleted_runs";
    BOUND_PURGES = "bound_purges";
    CHECK = "check";
    CHECK_DELETED_RUNS = "check_deleted_runs";
    CHECK_EMPTY = "check_empty";
    CHECK_OUTPUT_PIECES = "check_output_pieces";
    CHECK_REFERENCES = "check_references";
    CHECK_TALLY = "check_tally";
    CLEAR_DELETED_RUNS = "clear_deleted_runs";
    CLEAR_LIVING_TASKS = "clear_living_tasks";
    CLEAR_MARKS = "clear_marks";
    CLEAR_RUN_PAGES = "clear_run_pages";
    CLEAR_RUN_SEGMENTS = "clear_run_segments";
    COUNT_DERIVED = "count_derived";
    COUNT_QUEUE_SHARE = "count_queue_share";
    DELETE_ACTIVITY = "delete_activity";
    DELETE_DEFINITION = "delete_definition";
    DELETE_DEPENDENCIES = "delete_dependencies";
    DELETE_DEPENDENCY = "delete_dependency";
    DELETE_EMPTY_TALLY = "delete_empty_tally";
    DELETE_ENDED = "delete_ended";
    DELETE_ENDED_READ = "delete_ended_read";
    DELETE_EXPIRED_OBSERVATIONS = "delete_expired_observations";
    DELETE_FIRST_ENDED = "delete_first_ended";
    DELETE_FORGETTABLE_RUNS = "delete_forgettable_runs";
    DELETE_LATE_OBSERVATIONS = "delete_late_observations";
    DELETE_LIVING_TASKS = "delete_living_tasks";
    DELETE_OBSERVATION = "delete_observation";
    DELETE_OBSERVATIONS = "delete_observations";
    DELETE_OLD_OUTPUT_PIECES = "delete_old_output_pieces";
    DELETE_OUTCOME = "delete_outcome";
    DELETE_OUTPUT = "delete_output";
    DELETE_OUTPUT_PIECES = "delete_output_pieces";
    DELETE_PAST_RUNS = "delete_past_runs";
    DELETE_PURGE = "delete_purge";
    DELETE_QUEUE = "delete_queue";
    DELETE_RUN_PAGES = "delete_run_pages";
    DELETE_RUN_SEGMENT = "delete_run_segment";
    DELETE_SETTINGS = "delete_settings";
    DELETE_TALLY = "delete_tally";
    DELETE_TASK = "delete_task";
    DELETE_UNSETTLED = "delete_unsettled";
    DELETE_UNSETTLED_OF_QUEUE = "delete_unsettled_of_queue";
    END_READ = "end_read";
    FIND_DEPENDENCY = "find_dependency";
    FIND_FIRST_ENDED = "find_first_ended";
    FIND_LAST_KEY = "find_last_key";
    FIND_LAST_RUN_PAGE = "find_last_run_page";
    FIND_LIVING_TASKS = "find_living_tasks";
    FIND_NEXT_ENDED = "find_next_ended";
    FIND_OUTPUT_PIECE = "find_output_piece";
    FIND_PURGE = "find_purge";
    FIND_QUEUE = "find_queue";
    FIND_RUN_PAGE = "find_run_page";
    FIND_STATUS = "find_status";
    FIND_STATUS_BY_ID = "find_status_by_id";
    FIND_TASK = "find_task";
    FIND_UNSETTLED = "find_unsettled";
    FIND_UNSETTLED_OF_QUEUE = "find_unsettled_of_queue";
    FORGET_ACTIVITY = "forget_activity";
    GET_OUTPUT = "get_output";
    HAS_ENDED = "has_ended";
    HAS_QUEUE = "has_queue";
    GET_RELATED = "get_related";
    INSERT_DEFINITION = "insert_definition";
    INSERT_DELETED_RUN = "insert_deleted_run";
    INSERT_ENDED = "insert_ended";
    INSERT_OUTPUT_PIECE = "insert_output_piece";
    INSERT_PAST_RUN = "insert_past_run";
    INSERT_PURGE = "insert_purge";
    INSERT_QUEUE = "insert_queue";
    INSERT_RUN_PAGE = "insert_run_page";
    INSERT_TASK = "insert_task";
    LIST_ACTIVITY = "list_activity";
    LIST_AWAITED = "list_awaited";
    LIST_DEPENDENTS = "list_dependents";
    LIST_ENDED = "list_ended";
    LIST_FORGETTABLE_RUNS = "list_forgettable_runs";
    LIST_NOTED_STATUSES = "list_noted_statuses";
    LIST_OUTPUT_PIECES = "list_output_pieces";
    LIST_PAST_RUNS = "list_past_runs";
    LIST_PURGEABLE_TASKS = "list_purgeable_tasks";
    LIST_RELATED = "list_related";
    LIST_RUN_PAGES = "list_run_pages";
    LIST_TALLY = "list_tally";
    LIST_UNSETTLED = "list_unsettled";
    LIST_UNSETTLED_QUEUES = "list_unsettled_queues";
    LIST_WHOLE_TALLY = "list_whole_tally";
    LIST_WORKER_STATES = "list_worker_states";
    LOAD_ACTIVITY_SINCE = "load_activity_since";
    LOAD_ALL_SETTINGS = "load_all_settings";
    LOAD_DELETED_RUNS = "load_deleted_runs";
    LOAD_DOCUMENTS = "load_documents";
    LOAD_ENDED_READ = "load_ended_read";
    LOAD_ENDED_READS = "load_ended_reads";
    LOAD_IDENTITY = "load_identity";
    LOAD_INSTALLATION_SECRET = "load_installation_secret";
    LOAD_LIVING_TASKS = "load_living_tasks";
    LOAD_MARKS = "load_marks";
    LOAD_OUTCOME = "load_outcome";
    LOAD_OUTPUT = "load_output";
    LOAD_PAST_RUNS = "load_past_runs";
    LOAD_QUEUES = "load_queues";
    LOAD_RUN_SEGMENTS = "load_run_segments";
    LOAD_SCAN = "load_scan";
    LOAD_SETTINGS = "load_settings";
    RESET_MARKS = "reset_marks";
    SAVE_ACTIVITY = "save_activity";
    SAVE_ACTIVITY_SINCE = "save_activity_since";
    SAVE_DEPENDENCY = "save_dependency";
    SAVE_DOCUMENTS = "save_documents";
    SAVE_ENDED_READ = "save_ended_read";
    SAVE_HEAD = "save_head";
    SAVE_HEAD_AND_OUTCOME_KEY = "save_head_and_outcome_key";
    SAVE_INSTALLATION_SECRET = "save_installation_secret";
    SAVE_LIVING_TASKS = "save_living_tasks";
    SAVE_MARKS = "save_marks";
    SAVE_NAME = "save_name";
    SAVE_OBSERVATION = "save_observation";
    SAVE_OUTCOME = "save_outcome";
    SAVE_OUTPUT = "save_output";
    SAVE_OUTPUT_PIECE = "save_output_piece";
    SAVE_RUN_SEGMENT = "save_run_segment";
    SAVE_SCAN = "save_scan";
    SAVE_SETTINGS = "save_settings";
    SAVE_UNSETTLED = "save_unsettled";
    TAKE_OUTPUT_PIECE = "take_output_piece";
    TOUCH_MARKS = "touch_marks";
    TRANSFER_QUEUE = "transfer_queue";
}
