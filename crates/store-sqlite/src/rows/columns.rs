//! The columns that statements select, and how a column is read.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::ids::{Route, RunId, TaskId, WorkerId};
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::columns;

use super::packed_head::FINISHED_RUN_ID;

columns! {
    // The narrow table. What SQL does not need of it is in one column, so that a task of a page costs few steps of SQLite.
    NARROW from 0;
    KEY = "tasks.task_key",
    ID = "tasks.id",
    STATUS = "tasks.status",
    CREATED_AT = "tasks.created_at",
    PACKED = "tasks.packed",
    NAME = "tasks.name",
}

columns! {
    HEAVY from NARROW.len();
    DOCUMENTS = "definitions.documents",
    OUTCOME = "outcomes.outcome",
}

columns! {
    TRANSFERRED from NARROW.len() + HEAVY.len();
    IDENTITY = "definitions.identity",
    QUEUE_KEY = "tasks.queue_key",
}

pub(super) mod observations {
    taskqueue_store::columns! {
        COLUMNS from 0;
        ID = "observations.id",
        ROUTE = "observations.route",
        STATUS = "observations.status",
        TASK_ID = "observations.task_id",
        LAST_SEEN_AT = "observations.last_seen_at",
        EXPIRES_AT = "observations.expires_at",
        METADATA = "observations.metadata",
        TELEMETRY = "observations.telemetry",
        TELEMETRY_UPDATED_AT = "observations.telemetry_updated_at",
    }
}

pub(super) mod claim_index {
    taskqueue_store::columns! {
        COLUMNS from 0;
        KEY = "tasks.task_key",
        QUEUE_KEY = "tasks.queue_key",
        STATUS = "tasks.status",
        PACKED = "tasks.packed",
    }
}

/// The text of a statement with the columns that it asks for, for example `{task_columns}`.
pub(crate) fn with_columns(text: &str) -> String {
    // A page does not show keys.
    let mut listed = NARROW.to_vec();
    listed[KEY] = "NULL";
    let lists: [(&str, &[&[&str]]); 7] = [
        ("{head_columns}", &[NARROW]),
        ("{listed_columns}", &[&listed, HEAVY]),
        ("{task_columns}", &[NARROW, HEAVY]),
        ("{transferred_columns}", &[NARROW, HEAVY, TRANSFERRED]),
        ("{claim_index_columns}", &[claim_index::COLUMNS]),
        ("{observation_columns}", &[observations::COLUMNS]),
        ("{finished_run_id}", &[&[FINISHED_RUN_ID]]),
    ];
    lists.iter().fold(text.to_owned(), |text, (name, columns)| text.replace(name, &columns.concat().join(", ")))
}

/// A word of the contract or an identifier in a column.
pub(super) struct Parsed<T>(T);

macro_rules! parsed {
    ($($type:ty)*) => {
        $(impl FromSql for Parsed<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                <$type>::parse(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
            }
        })*
    };
}

parsed! { Status RunId WorkerId Route WorkerStatus }

/// Every row of a page has one.
impl FromSql for Parsed<TaskId> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(text) => TaskId::parse_bytes(text).map(Self).ok_or(FromSqlError::InvalidType),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// A column of this type.
pub(super) fn parsed<T>(row: &Row<'_>, column: impl RowIndex) -> Result<T>
where
    Parsed<T>: FromSql,
{
    row.get::<_, Parsed<T>>(column).map(|parsed| parsed.0)
}

/// A column of this type or null.
pub(super) fn parsed_or_null<T>(row: &Row<'_>, column: impl RowIndex) -> Result<Option<T>>
where
    Parsed<T>: FromSql,
{
    Ok(row.get::<_, Option<Parsed<T>>>(column)?.map(|parsed| parsed.0))
}

pub(super) fn time(row: &Row<'_>, column: impl RowIndex) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn time_or_null(row: &Row<'_>, column: impl RowIndex) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// A count, which is never negative.
pub(crate) fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}
