//! The only module that knows columns: how a row becomes a task, a head or an observation. The lists of columns are in
//! `columns.rs`, rows of what follows from tasks in `derived.rs`; how a filter reads a row without building a task first is in
//! `row_fields.rs`, what packed columns hold in `packed*.rs`.

mod columns;
mod derived;
mod packed;
mod packed_head;
mod packed_outcome;
mod row_fields;

use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, Telemetry};
use taskqueue_core::output::KeptOutput;
use taskqueue_core::task::{Outcome, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Documents;
use taskqueue_store::transaction::{QueueKey, TaskKey};

use self::columns::{
    CREATED_AT, DOCUMENTS, ID, IDENTITY, KEY, NAME, OUTCOME, PACKED, QUEUE_KEY, STATUS, observations, parsed,
    parsed_or_null, time, time_or_null,
};
pub(crate) use self::columns::{count, with_columns};
pub(crate) use self::derived::*;
use self::packed::unpack_output;
pub(crate) use self::packed::{PackedDocuments, Unreadable, pack_output};
pub use self::packed_head::{Extended, PackedHead};
pub(crate) use self::packed_outcome::PackedOutcome;
pub(crate) use self::row_fields::{RowFields, view};

/// The key of a task row.
pub(crate) fn key(row: &Row<'_>) -> Result<TaskKey> {
    row.get(KEY).map(TaskKey)
}

/// The id of a task row.
pub(crate) fn id(row: &Row<'_>) -> Result<TaskId> {
    parsed(row, ID)
}

/// The place of a task row by creation.
pub(crate) fn position(row: &Row<'_>) -> Result<(Timestamp, TaskId)> {
    Ok((time(row, CREATED_AT)?, parsed(row, ID)?))
}

/// A head, from the statements that select narrow rows.
pub(crate) fn head(row: &Row<'_>) -> Result<TaskHead> {
    let packed = PackedHead::of_row(row, PACKED)?;
    Ok(TaskHead {
        id: parsed(row, ID)?,
        priority: packed.priority,
        max_attempts: packed.max_attempts,
        routes: Routes::from_json(packed.routes),
        scheduling: packed.scheduling()?,
        definition_bytes: usize::try_from(packed.definition_bytes).unwrap_or(usize::MAX),
        progress_bytes: usize::try_from(packed.progress_bytes).unwrap_or(usize::MAX),
        lifecycle: packed.lifecycle(parsed(row, STATUS)?, time(row, CREATED_AT)?)?,
    })
}

/// A task, from the statements that select whole tasks.
pub(crate) fn task(row: &Row<'_>, queue: &QueueName) -> Result<Task> {
    let packed = PackedHead::of_row(row, PACKED)?;
    let Documents { args, metadata } = PackedDocuments::unpack(packed::column(row, DOCUMENTS)?)?.documents();
    Ok(Task {
        queue: queue.clone(),
        id: parsed(row, ID)?,
        definition: Definition {
            name: row.get(NAME)?,
            args,
            metadata,
            priority: packed.priority,
            max_attempts: packed.max_attempts,
            routes: Routes::from_json(packed.routes),
            scheduling: packed.scheduling()?,
        },
        lifecycle: packed.lifecycle(parsed(row, STATUS)?, time(row, CREATED_AT)?)?,
        outcome: PackedOutcome::of_row(row, OUTCOME)?.outcome()?,
    })
}

/// A row with nothing but documents.
pub(crate) fn documents(row: &Row<'_>) -> Result<Documents> {
    Ok(PackedDocuments::unpack(packed::column(row, 0)?)?.documents())
}

/// A row with nothing but an outcome.
pub(crate) fn outcome(row: &Row<'_>) -> Result<Outcome> {
    Ok(PackedOutcome::of_row(row, 0)?.outcome()?)
}

/// Returns what is kept of the output of a task, from a column that is null if there is none.
pub(crate) fn kept_output(row: &Row<'_>, column: impl RowIndex) -> Result<Option<KeptOutput>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(unpack_output).transpose()?)
}

/// The id of the active run, from a packed head.
pub(crate) fn active_run(row: &Row<'_>, column: impl RowIndex) -> Result<Option<RunId>> {
    let run = PackedHead::unpack(row.get_ref(column)?.as_blob()?)?.run;
    Ok(run.map(|(run_id, _)| RunId::parse(run_id).ok_or(Unreadable)).transpose()?)
}

/// The key of the queue of a transferred task.
pub(crate) fn queue_key(row: &Row<'_>) -> Result<QueueKey> {
    row.get(QUEUE_KEY).map(QueueKey)
}

/// The identity of a transferred task.
pub(crate) fn identity(row: &Row<'_>) -> Result<Identity> {
    row.get(IDENTITY)
}

/// The size of a whole task: its JSON and the texts of its error and its last run.
pub(crate) fn bytes(row: &Row<'_>) -> Result<usize> {
    let bytes = |column| Ok(row.get_ref(column)?.as_blob_or_null()?.map_or(0, <[u8]>::len));
    [DOCUMENTS, OUTCOME].into_iter().map(bytes).sum()
}

pub(crate) fn observation(row: &Row<'_>, queue: &QueueName) -> Result<Observation> {
    use observations::{
        EXPIRES_AT, ID, LAST_SEEN_AT, METADATA, ROUTE, STATUS, TASK_ID, TELEMETRY, TELEMETRY_UPDATED_AT,
    };
    let telemetry = row.get_ref(TELEMETRY)?.as_str_or_null()?.map(JsonObject::from_canonical);
    Ok(Observation {
        id: parsed(row, ID)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, ROUTE)?,
            status: parsed(row, STATUS)?,
            task_id: parsed_or_null(row, TASK_ID)?,
            metadata: JsonObject::from_canonical(row.get_ref(METADATA)?.as_str()?),
        },
        telemetry: telemetry
            .zip(time_or_null(row, TELEMETRY_UPDATED_AT)?)
            .map(|(value, updated_at)| Telemetry { value, updated_at }),
        last_seen_at: time(row, LAST_SEEN_AT)?,
        expires_at: time(row, EXPIRES_AT)?,
    })
}
