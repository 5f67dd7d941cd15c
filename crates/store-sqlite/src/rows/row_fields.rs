//! A task row as filters and pages read it, without building a task first. The columns are those of `rows.rs`.

use std::cell::OnceCell;

use rusqlite::{Result, Row};
use taskqueue_core::filter::{LastErrorFields, LastRunFields};
use taskqueue_core::ids::QueueName;
use taskqueue_core::task::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

use super::packed::{self, PackedDocuments};
use super::packed_head::PackedHead;
use super::packed_outcome::PackedOutcome;
use super::{CREATED_AT, DOCUMENTS, ID, NAME, OUTCOME, PACKED, STATUS, parsed, time};

/// A task as the API shows it, straight from the row. Each column is read once, and a damaged one is an error. The id and the
/// lease of an active run are not in a view, so none can be shown by mistake.
pub(crate) fn view<'a>(row: &'a Row<'_>, queue: &'a QueueName) -> Result<TaskView<'a>> {
    let (status, head) = (parsed(row, STATUS)?, PackedHead::of_row(row, PACKED)?);
    let documents = PackedDocuments::unpack(packed::column(row, DOCUMENTS)?)?;
    let outcome = PackedOutcome::of_row(row, OUTCOME)?;
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
        last_run: last_run(&outcome, status, &head),
        progress: outcome.progress.map(|progress| progress.value),
        progress_updated_at: outcome.progress.map(|progress| progress.updated_at),
        progress_attempt: outcome.progress.map(|progress| progress.attempt),
        not_before: head.extended.not_before,
        scheduling: head.extended.scheduling,
        archived: head.extended.archived,
        unmet: head.extended.unmet,
    })
}

fn last_run<'a>(outcome: &PackedOutcome<'a>, status: Status, head: &PackedHead<'a>) -> Option<LastRunFields<'a>> {
    outcome.last_run.map(|(attempt, worker)| LastRunFields::new(attempt, worker, status, head.finished_run_id()))
}

/// A task row for a filter: columns are read, and packed ones unpacked, when the filter needs them. Values of the wrong type
/// cannot occur in a STRICT table. If the file is damaged, they read as empty and the row does not match.
pub(crate) struct RowFields<'a, 'stmt> {
    row: &'a Row<'stmt>,
    head: OnceCell<Option<PackedHead<'a>>>,
    documents: OnceCell<Option<PackedDocuments<'a>>>,
    outcome: OnceCell<Option<PackedOutcome<'a>>>,
}

impl<'a, 'stmt> RowFields<'a, 'stmt> {
    pub(crate) fn new(row: &'a Row<'stmt>) -> Self {
        Self { row, head: OnceCell::new(), documents: OnceCell::new(), outcome: OnceCell::new() }
    }

    fn text(&self, column: usize) -> Option<&'a str> {
        self.row.get_ref(column).ok()?.as_str_or_null().ok()?
    }

    fn head(&self) -> Option<&PackedHead<'a>> {
        self.head.get_or_init(|| PackedHead::of_row(self.row, PACKED).ok()).as_ref()
    }

    fn documents(&self) -> Option<&PackedDocuments<'a>> {
        let unpack = || PackedDocuments::unpack(packed::column(self.row, DOCUMENTS).ok()?).ok();
        self.documents.get_or_init(unpack).as_ref()
    }

    fn outcome(&self) -> Option<&PackedOutcome<'a>> {
        self.outcome.get_or_init(|| PackedOutcome::of_row(self.row, OUTCOME).ok()).as_ref()
    }

    /// The routes as JSON.
    pub(crate) fn routes_text(&self) -> &'a str {
        self.head().map_or("", |head| head.routes)
    }
}

taskqueue_store::task_fields! {
    RowFields<'_, '_>;
    routes from routes_text;
    id: &str = |row| row.text(ID).unwrap_or_default();
    status: Status = |row| row.text(STATUS).and_then(Status::parse).unwrap_or(Status::Cancelled);
    name: Option<&str> = |row| row.text(NAME);
    last_route: Option<&str> = |row| row.head()?.last_route;
    priority: i64 = |row| row.head().map_or(0, |head| head.priority);
    attempt: i64 = |row| row.head().map_or(0, |head| head.attempt);
    max_attempts: i64 = |row| row.head().map_or(0, |head| head.max_attempts);
    created_at: Timestamp = |row| time(row.row, CREATED_AT).unwrap_or_default();
    updated_at: Timestamp = |row| row.head().map_or_else(Timestamp::default, |head| head.updated_at);
    started_at: Option<Timestamp> = |row| row.head()?.started_at;
    finished_at: Option<Timestamp> = |row| row.head()?.finished_at;
    args: &str = |row| row.documents().map_or("{}", |documents| documents.args);
    metadata: &str = |row| row.documents().map_or("{}", |documents| documents.metadata);
    result: &str = |row| row.outcome().map_or("{}", |outcome| outcome.result);
    last_error: Option<LastErrorFields<'_>> = |row| row.outcome()?.last_error;
    progress: Option<&str> = |row| row.outcome()?.progress.map(|progress| progress.value);
    last_run: Option<LastRunFields<'_>> = |row| last_run(row.outcome()?, row.status(), row.head()?);
    archived: bool = |row| row.head().is_some_and(|head| head.extended.archived);
}
