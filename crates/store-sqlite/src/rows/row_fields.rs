//! A task row as filters and pages read it, without building a task first. The columns are those of `rows.rs`.

use rusqlite::{Result, Row};
use taskqueue_core::filter::{LastRunFields, Reads};
use taskqueue_core::ids::QueueName;
use taskqueue_core::selection::TaskSelection;
use taskqueue_core::task_view::TaskView;

use super::packed::{self, PackedDocuments};
use super::packed_head::PackedHead;
use super::packed_outcome::PackedOutcome;
use super::{CREATED_AT, DOCUMENTS, ID, NAME, OUTCOME, PACKED, STATUS, parsed, time};

/// A task as the API shows it, straight from the row. Each column is read once, and a damaged one is an error. The id and the
/// lease of an active run are not in a view, so none can be shown by mistake. Heavy columns that are not read seem empty.
pub(crate) fn view<'a>(row: &'a Row<'_>, queue: &'a QueueName, reads: Reads) -> Result<TaskView<'a>> {
    let (status, head) = (parsed(row, STATUS)?, PackedHead::of_row(row, PACKED)?);
    let documents = match reads.definition {
        true => PackedDocuments::unpack(packed::column(row, DOCUMENTS)?)?,
        false => PackedDocuments { args: "{}", metadata: "{}" },
    };
    let outcome = if reads.outcome { PackedOutcome::of_row(row, OUTCOME)? } else { PackedOutcome::NONE };
    let last_run = |(attempt, worker)| LastRunFields::new(attempt, worker, status, head.finished_run_id());
    Ok(TaskView {
        id: parsed(row, ID)?,
        queue: queue.as_str(),
        status,
        name: row.get_ref(NAME)?.as_str_or_null()?,
        args: documents.args,
        metadata: documents.metadata,
        priority: head.priority,
        attempt: head.attempt,
        max_attempts: head.max_attempts,
        routes: head.routes,
        result: outcome.result,
        last_error: outcome.last_error,
        last_route: head.last_route,
        created_at: time(row, CREATED_AT)?,
        updated_at: head.updated_at,
        started_at: head.started_at,
        finished_at: head.finished_at,
        last_run: outcome.last_run.map(last_run),
        progress: outcome.progress.map(|progress| progress.value),
        progress_updated_at: outcome.progress.map(|progress| progress.updated_at),
        progress_attempt: outcome.progress.map(|progress| progress.attempt),
        not_before: head.extended.not_before,
        scheduling: head.extended.scheduling,
        archived: head.extended.archived,
        unmet: head.extended.unmet,
    })
}

/// The task of a row, if it is selected; one whose row is damaged is not. What the selection does not read seems empty.
pub(crate) fn selected<'a>(row: &'a Row<'_>, queue: &'a QueueName, selection: &TaskSelection) -> Option<TaskView<'a>> {
    view(row, queue, selection.reads()).ok().filter(|task| selection.matches(task))
}
