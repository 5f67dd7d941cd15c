//! A task row as filters and pages read it, without building a task first. The columns are those of `rows.rs`.
//! The column `outcomes.error` has type, message and traceback of a failure as one JSON array, because a PostgreSQL text cannot
//! hold the character U+0000.

use std::borrow::Cow;
use std::cell::OnceCell;

use taskqueue_core::filter::{LastErrorFields, LastRunFields, TaskFields};
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::{self, Value};
use taskqueue_core::task::{Failure, Status};
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;
use tokio_postgres::Row;

use super::{
    ARCHIVED, ARGS, ATTEMPT, CREATED_AT, Damaged, ERROR, ERROR_ATTEMPT, ERROR_OCCURRED_AT, ERROR_RUN_ID, FINISHED_AT,
    FINISHED_RUN_ID, ID, LAST_ROUTE, LAST_RUN_ATTEMPT, LAST_RUN_WORKER, MAX_ATTEMPTS, METADATA, NAME, NOT_BEFORE,
    PRIORITY, PROGRESS, PROGRESS_ATTEMPT, PROGRESS_UPDATED_AT, RESULT, ROUTES, Read, SCHEDULING, STARTED_AT, STATUS,
    UPDATED_AT, get, id, unless_null, unmet,
};

/// A task row for a filter: columns are read when the filter needs them. Values of the wrong type cannot occur in our tables.
/// If a table is damaged, they read as empty and the row does not match.
pub(crate) struct RowFields<'a> {
    row: &'a Row,
    error: OnceCell<Option<ErrorText<'a>>>,
}

impl<'a> RowFields<'a> {
    pub(crate) fn new(row: &'a Row) -> Self {
        Self { row, error: OnceCell::new() }
    }

    /// The routes as JSON, for grouping.
    pub(crate) fn routes_text(&self) -> &'a str {
        self.text(ROUTES).unwrap_or_default()
    }

    /// The task as the API shows it. Unlike for a filter, a damaged column is an error.
    pub(crate) fn view<'b>(&'b self, queue: &'b QueueName) -> Read<TaskView<'b>> {
        let row = self.row;
        let last_error = unless_null(row, ERROR, |_: &str| self.error().ok_or_else(|| Damaged::at(ERROR)))?;
        let status = get(row, STATUS)?;
        let last_run = unless_null(row, LAST_RUN_WORKER, |worker| {
            Ok(LastRunFields::new(get(row, LAST_RUN_ATTEMPT)?, worker, status, get(row, FINISHED_RUN_ID)?))
        })?;
        Ok(TaskView {
            id: id(row)?,
            queue: queue.as_str(),
            status,
            name: get(row, NAME)?,
            args: get(row, ARGS)?,
            metadata: get(row, METADATA)?,
            priority: get(row, PRIORITY)?,
            attempt: get(row, ATTEMPT)?,
            max_attempts: get(row, MAX_ATTEMPTS)?,
            routes: get(row, ROUTES)?,
            result: get::<Option<&str>>(row, RESULT)?.unwrap_or("{}"),
            last_error,
            last_route: get(row, LAST_ROUTE)?,
            created_at: get(row, CREATED_AT)?,
            updated_at: get(row, UPDATED_AT)?,
            started_at: get(row, STARTED_AT)?,
            finished_at: get(row, FINISHED_AT)?,
            last_run,
            progress: get(row, PROGRESS)?,
            progress_updated_at: get(row, PROGRESS_UPDATED_AT)?,
            progress_attempt: get(row, PROGRESS_ATTEMPT)?,
            not_before: get(row, NOT_BEFORE)?,
            scheduling: get(row, SCHEDULING)?,
            archived: self.archived(),
            unmet: unmet(row)?,
        })
    }

    fn text(&self, column: usize) -> Option<&'a str> {
        self.row.try_get(column).ok()?
    }

    fn int(&self, column: usize) -> Option<i64> {
        self.row.try_get(column).ok()?
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        self.int(column).map(Timestamp::from_micros)
    }

    fn error(&self) -> Option<LastErrorFields<'_>> {
        let text = self.error.get_or_init(|| self.text(ERROR).and_then(ErrorText::read)).as_ref()?;
        Some(LastErrorFields {
            kind: &text.kind,
            message: &text.message,
            traceback: text.traceback.as_deref(),
            occurred_at: self.time(ERROR_OCCURRED_AT)?,
            attempt: self.int(ERROR_ATTEMPT)?,
            run_id: self.text(ERROR_RUN_ID),
        })
    }
}

taskqueue_store::task_fields! {
    RowFields<'_>;
    routes from routes_text;
    id: &str = |row| row.text(ID).unwrap_or_default();
    status: Status = |row| row.text(STATUS).and_then(Status::parse).unwrap_or(Status::Cancelled);
    name: Option<&str> = |row| row.text(NAME);
    last_route: Option<&str> = |row| row.text(LAST_ROUTE);
    priority: i64 = |row| row.int(PRIORITY).unwrap_or_default();
    attempt: i64 = |row| row.int(ATTEMPT).unwrap_or_default();
    max_attempts: i64 = |row| row.int(MAX_ATTEMPTS).unwrap_or_default();
    created_at: Timestamp = |row| row.time(CREATED_AT).unwrap_or_default();
    updated_at: Timestamp = |row| row.time(UPDATED_AT).unwrap_or_default();
    started_at: Option<Timestamp> = |row| row.time(STARTED_AT);
    finished_at: Option<Timestamp> = |row| row.time(FINISHED_AT);
    args: &str = |row| row.text(ARGS).unwrap_or("{}");
    metadata: &str = |row| row.text(METADATA).unwrap_or("{}");
    result: &str = |row| row.text(RESULT).unwrap_or("{}");
    last_error: Option<LastErrorFields<'_>> = RowFields::error;
    last_run: Option<LastRunFields<'_>> = |row| {
        let (worker, attempt) = (row.text(LAST_RUN_WORKER)?, row.int(LAST_RUN_ATTEMPT)?);
        Some(LastRunFields::new(attempt, worker, row.status(), row.text(FINISHED_RUN_ID)))
    };
    progress: Option<&str> = |row| row.text(PROGRESS);
    archived: bool = |row| row.row.try_get::<_, Option<bool>>(ARCHIVED).ok().flatten().unwrap_or(false);
}

pub(super) struct ErrorText<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) message: Cow<'a, str>,
    pub(super) traceback: Option<Cow<'a, str>>,
}

impl<'a> ErrorText<'a> {
    pub(super) fn read(column: &'a str) -> Option<Self> {
        let Value::Array(parts) = json::parse(column.as_bytes()).ok()? else { return None };
        match <[Value<'a>; 3]>::try_from(parts).ok()? {
            [Value::Str(kind), Value::Str(message), Value::Null] => Some(Self { kind, message, traceback: None }),
            [Value::Str(kind), Value::Str(message), Value::Str(traceback)] => {
                Some(Self { kind, message, traceback: Some(traceback) })
            }
            _ => None,
        }
    }
}

impl From<ErrorText<'_>> for Failure {
    fn from(text: ErrorText<'_>) -> Self {
        Self { kind: text.kind.into(), message: text.message.into(), traceback: text.traceback.map(Into::into) }
    }
}

pub(crate) fn error_text(failure: &Failure) -> String {
    let mut text = vec![b'['];
    json::write_string(&mut text, &failure.kind);
    text.push(b',');
    json::write_string(&mut text, &failure.message);
    text.push(b',');
    match &failure.traceback {
        Some(traceback) => json::write_string(&mut text, traceback),
        None => text.extend_from_slice(b"null"),
    }
    text.push(b']');
    // Only whole pieces of UTF-8 were written, so this does not fail.
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: &str, message: &str, traceback: Option<&str>) -> Failure {
        Failure { kind: kind.into(), message: message.into(), traceback: traceback.map(Into::into) }
    }

    #[test]
    fn an_error_reads_back_from_its_column_whatever_characters_it_holds() {
        let cases = [
            (failure("", "", None), r#"["","",null]"#),
            (failure("E", "a\0b", Some("")), r#"["E","a\u0000b",""]"#),
            (failure("\"],[", "é\n\\", Some("null")), r#"["\"],[","é\n\\","null"]"#),
        ];
        for (failure, column) in cases {
            assert_eq!(error_text(&failure), column);
            assert_eq!(ErrorText::read(column).map(Failure::from), Some(failure), "{column}");
        }
    }

    #[test]
    fn a_damaged_error_column_is_noticed() {
        for column in ["", "[", "{}", r#"["a","b"]"#, r#"["a","b",1]"#, r#"[null,"b",null]"#, r#"["a","b",null,null]"#]
        {
            assert!(ErrorText::read(column).is_none(), "{column}");
        }
    }
}
