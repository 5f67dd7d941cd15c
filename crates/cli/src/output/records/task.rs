//! A task: the row, the details and the JSON of the contract.

use taskqueue_client::{LastError, LastRun, Status, Task};
use taskqueue_core::json::{Found, lookup};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record, age};

impl Record for Task {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("ID"),
        Column::text("STATUS"),
        Column::shrinking("NAME"),
        Column::number("PRIORITY"),
        Column::number("ATTEMPT"),
        Column::shrinking("ROUTES"),
        Column::text("CREATED"),
        Column::text("UPDATED"),
        Column::with_values("ERROR", 10),
        Column::shrinking("ARGS"),
        Column::with_values("RESULT", 16),
    ];

    const LEAVE_OUT: &'static [&'static str] =
        &["RESULT", "PRIORITY", "CREATED", "ROUTES", "ARGS", "ATTEMPT", "UPDATED", "ERROR"];

    const FIELDS: &'static [&'static str] = &[
        "id",
        "queue",
        "status",
        "name",
        "args",
        "metadata",
        "priority",
        "attempt",
        "max_attempts",
        "routes",
        "result",
        "last_error.type",
        "last_error.message",
        "last_route",
        "created_at",
        "updated_at",
        "started_at",
        "finished_at",
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.id.as_str()),
            Cell::status(self.status),
            Cell::optional(self.name.as_deref()),
            Cell::number(self.priority),
            Cell::new(format!("{}/{}", self.attempt, self.max_attempts)),
            Cell::new(routes(self)),
            Cell::new(age(self.created_at, now)),
            Cell::new(age(self.updated_at, now)),
            Cell::optional(error_type(self)),
            Cell::new(self.args.as_str()),
            Cell::optional((!self.result.is_empty_object()).then(|| self.result.as_str())),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        Self::write(out, &self.view());
    }

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        let time = |at: Timestamp| format!("{at} ({})", age(at, now));
        let mut fields = vec![
            ("id", Cell::new(self.id.as_str())),
            ("queue", Cell::new(self.queue.as_str())),
            ("status", Cell::status(self.status)),
            ("name", Cell::optional(self.name.as_deref())),
            ("args", Cell::new(self.args.as_str())),
            ("metadata", Cell::new(self.metadata.as_str())),
            ("priority", Cell::number(self.priority)),
            ("attempt", Cell::new(format!("{} of {}", self.attempt, self.max_attempts))),
            ("routes", Cell::new(routes(self))),
            ("result", Cell::new(self.result.as_str())),
        ];
        fields.extend(self.last_error.iter().flat_map(|error| error_details(error, &time(error.occurred_at))));
        fields.extend([
            ("last_route", Cell::optional(self.last_route.as_ref().map(|route| route.as_str()))),
            ("created_at", Cell::new(time(self.created_at))),
            ("updated_at", Cell::new(time(self.updated_at))),
            ("started_at", Cell::optional(self.started_at.map(time))),
            ("finished_at", Cell::optional(self.finished_at.map(time))),
        ]);
        fields.extend(self.last_run.iter().map(|run| ("last_run", Cell::new(last_run(run)))));
        fields.extend(self.last_run.iter().filter_map(|run| Some(("", Cell::new(run_folder(self, run)?)))));
        fields
    }
}

/// The type of the last error, unless the task has succeeded since.
fn error_type(task: &Task) -> Option<&str> {
    let error = task.last_error.as_ref().filter(|_| task.status != Status::Succeeded);
    error.map(|error| &*error.failure.kind)
}

fn routes(task: &Task) -> String {
    task.routes.iter().collect::<Vec<_>>().join(",")
}

/// The folder of the run on the machine of its worker, below the run directory that a worker of ours names.
fn run_folder(task: &Task, run: &LastRun) -> Option<String> {
    let Some(Found::Str(run_dir)) = lookup(run.worker.as_str(), &["folder"]) else { return None };
    Some(format!("folder {}/{}/{}", run_dir.to_text(), task.id, run.run_id?))
}

/// `attempt 2, run r_..., by {"host": ...}`. The id of an active run is not known.
fn last_run(run: &LastRun) -> String {
    let run_id = run.run_id.map(|run_id| format!(", run {run_id}")).unwrap_or_default();
    format!("attempt {}{run_id}, by {}", run.attempt, run.worker.as_str())
}

fn error_details(error: &LastError, occurred_at: &str) -> Vec<(&'static str, Cell)> {
    let said = format!("{}: {}", error.failure.kind, error.failure.message);
    let when = format!("attempt {}, {occurred_at}", error.attempt);
    let mut fields = vec![("last_error", Cell::new(said)), ("", Cell::new(when))];
    let traceback = error.failure.traceback.iter().flat_map(|text| text.lines());
    fields.extend(traceback.map(|line| ("", Cell::new(line).dimmed())));
    fields
}
