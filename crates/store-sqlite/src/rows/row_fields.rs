//! A task row as filters and pages read it, without building a task first. The columns are those of `rows.rs`.

use rusqlite::{Result, Row};
use taskqueue_core::definition::routes_of;
use taskqueue_core::filter::{LastErrorFields, LastRunFields, TaskFields};
use taskqueue_core::ids::QueueName;
use taskqueue_core::task::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

use super::{
    ARGS, ATTEMPT, CREATED_AT, ERROR_ATTEMPT, ERROR_MESSAGE, ERROR_OCCURRED_AT, ERROR_RUN_ID, ERROR_TRACEBACK,
    ERROR_TYPE, FINISHED_AT, FINISHED_RUN_ID, ID, LAST_ROUTE, LAST_RUN_ATTEMPT, LAST_RUN_WORKER, MAX_ATTEMPTS,
    METADATA, NAME, PRIORITY, RESULT, ROUTES, STARTED_AT, STATUS, UPDATED_AT, parsed, time, time_or_null,
};

/// A task as the API shows it, straight from the row. Each column is read once, and a damaged one is an error.
pub(crate) fn view<'a>(row: &'a Row<'_>, queue: &'a QueueName) -> Result<TaskView<'a>> {
    let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    let text_or_null = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?);
    let last_error = match text_or_null(ERROR_TYPE)? {
        None => None,
        Some(kind) => Some(LastErrorFields {
            kind,
            message: text(ERROR_MESSAGE)?,
            traceback: text_or_null(ERROR_TRACEBACK)?,
            occurred_at: time(row, ERROR_OCCURRED_AT)?,
            attempt: row.get(ERROR_ATTEMPT)?,
            run_id: text(ERROR_RUN_ID)?,
        }),
    };
    let status = parsed(row, STATUS)?;
    let last_run = match text_or_null(LAST_RUN_WORKER)? {
        None => None,
        Some(worker) => {
            let (attempt, finished_run_id) = (row.get(LAST_RUN_ATTEMPT)?, text_or_null(FINISHED_RUN_ID)?);
            Some(LastRunFields::new(attempt, worker, status, finished_run_id))
        }
    };
    Ok(TaskView {
        id: parsed(row, ID)?,
        queue: queue.as_str(),
        status,
        name: text_or_null(NAME)?,
        args: text(ARGS)?,
        metadata: text(METADATA)?,
        priority: row.get(PRIORITY)?,
        attempt: row.get(ATTEMPT)?,
        max_attempts: row.get(MAX_ATTEMPTS)?,
        routes: text(ROUTES)?,
        result: text_or_null(RESULT)?.unwrap_or("{}"),
        last_error,
        last_route: text_or_null(LAST_ROUTE)?,
        created_at: time(row, CREATED_AT)?,
        updated_at: time(row, UPDATED_AT)?,
        started_at: time_or_null(row, STARTED_AT)?,
        finished_at: time_or_null(row, FINISHED_AT)?,
        last_run,
    })
}

/// A task row for a filter: columns are read when the filter needs them. Values of the wrong type cannot occur in a STRICT
/// table. If the file is damaged, they read as empty and the row does not match.
pub(crate) struct RowFields<'a, 'stmt>(pub(crate) &'a Row<'stmt>);

impl RowFields<'_, '_> {
    fn text(&self, column: usize) -> Option<&str> {
        self.0.get_ref(column).ok()?.as_str_or_null().ok()?
    }

    fn int(&self, column: usize) -> Option<i64> {
        self.0.get_ref(column).ok()?.as_i64_or_null().ok()?
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        self.int(column).map(Timestamp::from_micros)
    }
}

impl TaskFields for RowFields<'_, '_> {
    fn id(&self) -> &str {
        self.text(ID).unwrap_or_default()
    }
    fn status(&self) -> Status {
        self.text(STATUS).and_then(Status::parse).unwrap_or(Status::Cancelled)
    }
    fn name(&self) -> Option<&str> {
        self.text(NAME)
    }
    fn last_route(&self) -> Option<&str> {
        self.text(LAST_ROUTE)
    }
    fn priority(&self) -> i64 {
        self.int(PRIORITY).unwrap_or_default()
    }
    fn attempt(&self) -> i64 {
        self.int(ATTEMPT).unwrap_or_default()
    }
    fn max_attempts(&self) -> i64 {
        self.int(MAX_ATTEMPTS).unwrap_or_default()
    }
    fn created_at(&self) -> Timestamp {
        self.time(CREATED_AT).unwrap_or_default()
    }
    fn updated_at(&self) -> Timestamp {
        self.time(UPDATED_AT).unwrap_or_default()
    }
    fn started_at(&self) -> Option<Timestamp> {
        self.time(STARTED_AT)
    }
    fn finished_at(&self) -> Option<Timestamp> {
        self.time(FINISHED_AT)
    }
    fn routes(&self) -> impl Iterator<Item = &str> {
        self.text(ROUTES).into_iter().flat_map(routes_of)
    }
    fn args(&self) -> &str {
        self.text(ARGS).unwrap_or("{}")
    }
    fn metadata(&self) -> &str {
        self.text(METADATA).unwrap_or("{}")
    }
    fn result(&self) -> &str {
        self.text(RESULT).unwrap_or("{}")
    }
    fn last_error(&self) -> Option<LastErrorFields<'_>> {
        Some(LastErrorFields {
            kind: self.text(ERROR_TYPE)?,
            message: self.text(ERROR_MESSAGE)?,
            traceback: self.text(ERROR_TRACEBACK),
            occurred_at: self.time(ERROR_OCCURRED_AT)?,
            attempt: self.int(ERROR_ATTEMPT)?,
            run_id: self.text(ERROR_RUN_ID)?,
        })
    }
    fn last_run(&self) -> Option<LastRunFields<'_>> {
        let (worker, attempt) = (self.text(LAST_RUN_WORKER)?, self.int(LAST_RUN_ATTEMPT)?);
        Some(LastRunFields::new(attempt, worker, self.status(), self.text(FINISHED_RUN_ID)))
    }
}
