//! The whole of an object of a task as JSON, exactly as it is stored.

use axum::extract::State;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::task::{LastError, Task};

use crate::layout::{self, PageResult};
use crate::problem::Problem;
use crate::state::Dashboard;
use crate::visit::Visit;

/// One object, shown by the browser, or with `?download` saved as a file.
pub(crate) async fn json(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let name = visit.path.rsplit('/').next().unwrap_or_default().to_owned();
    let task = super::read(&dashboard, &visit).await?;
    let unknown = || Problem::not_found("part of this task", "Go back to the task, and look at what it has.");
    let text = object(&task, &name).ok_or_else(unknown)?;
    let way = if visit.query.has("download") { "attachment" } else { "inline" };
    let disposition = format!("{way}; filename=\"{}-{name}.json\"", task.id);
    Ok(layout::file(text, "application/json; charset=utf-8", &disposition))
}

fn object(task: &Task, name: &str) -> Option<String> {
    let outcome = &task.outcome;
    match name {
        "args" => Some(task.definition.args.as_str().to_owned()),
        "metadata" => Some(task.definition.metadata.as_str().to_owned()),
        "result" => Some(outcome.result.as_str().to_owned()),
        "progress" => outcome.progress.as_ref().map(|progress| progress.value.as_str().to_owned()),
        "worker" => outcome.last_run.as_ref().map(|run| run.worker.as_str().to_owned()),
        "last_error" => outcome.last_error.as_ref().map(error),
        _ => None,
    }
}

fn error(error: &LastError) -> String {
    let failure = &error.failure;
    let object = ObjectWriter::new().text("type", &failure.kind).text("message", &failure.message);
    let object = object.text_or_null("traceback", failure.traceback.as_deref());
    object.time("occurred_at", error.occurred_at).integer("attempt", error.attempt).into_text()
}
