//! A task row as filters and pages read it, without building a task first. The columns are those of `rows.rs`.
//! The column `outcomes.error` has type, message and traceback of a failure as one JSON array, because a PostgreSQL text cannot
//! hold the character U+0000.

use std::borrow::Cow;

use taskqueue_core::filter::{LastErrorFields, LastRunFields};
use taskqueue_core::json::{self, Value};
use taskqueue_core::task::Failure;
use taskqueue_core::{QueueName, TaskSelection, TaskView};
use tokio_postgres::Row;

use super::{
    ARCHIVED, ARGS, ATTEMPT, CREATED_AT, Damaged, ERROR, ERROR_ATTEMPT, ERROR_OCCURRED_AT, ERROR_RUN_ID, FINISHED_AT,
    FINISHED_RUN_ID, LAST_ROUTE, LAST_RUN_ATTEMPT, LAST_RUN_WORKER, MAX_ATTEMPTS, METADATA, NAME, NOT_BEFORE, PRIORITY,
    PROGRESS, PROGRESS_ATTEMPT, PROGRESS_UPDATED_AT, RESULT, ROUTES, Read, SCHEDULING, STARTED_AT, STATUS, UPDATED_AT,
    get, id, unless_null, unmet,
};

/// Passes a task as the API shows it to `read`, straight from its row. A damaged column is an error. Heavy columns that the
/// statement leaves out seem empty.
pub(crate) fn with_view<T>(row: &Row, queue: &QueueName, read: impl FnOnce(&TaskView<'_>) -> T) -> Read<T> {
    let error = unless_null(row, ERROR, |text| ErrorText::read(text).ok_or_else(|| Damaged::at(ERROR)))?;
    let last_error = error.as_ref().map(|text| -> Read<_> {
        Ok(LastErrorFields {
            kind: &text.kind,
            message: &text.message,
            traceback: text.traceback.as_deref(),
            occurred_at: get(row, ERROR_OCCURRED_AT)?,
            attempt: get(row, ERROR_ATTEMPT)?,
            run_id: get(row, ERROR_RUN_ID)?,
        })
    });
    let last_error = last_error.transpose()?;
    let status = get(row, STATUS)?;
    let last_run = unless_null(row, LAST_RUN_WORKER, |worker| {
        Ok(LastRunFields::new(get(row, LAST_RUN_ATTEMPT)?, worker, status, get(row, FINISHED_RUN_ID)?))
    })?;
    let view = TaskView {
        id: id(row)?,
        queue: queue.as_str(),
        status,
        name: get(row, NAME)?,
        args: get::<Option<&str>>(row, ARGS)?.unwrap_or("{}"),
        metadata: get::<Option<&str>>(row, METADATA)?.unwrap_or("{}"),
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
        archived: get::<Option<bool>>(row, ARCHIVED)?.unwrap_or(false),
        unmet: unmet(row)?,
    };
    Ok(read(&view))
}

/// Whether the task of a row is selected; one whose row is damaged is not.
pub(crate) fn is_selected(row: &Row, queue: &QueueName, selection: &TaskSelection) -> bool {
    with_view(row, queue, |task| selection.matches(task)).unwrap_or(false)
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
