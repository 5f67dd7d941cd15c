//! `task get` and `task explain`.

use taskqueue_client::{Explanation, Reason, Status, Task, TaskId};
use taskqueue_core::dependency::DEPENDENCY_FAILED;

use super::named_tasks;
use crate::args::Format;
use crate::client_context::ClientContext;
use crate::explained_reasons::{Known, sentences};
use crate::failure::{CommandError, Failure};
use crate::output::{self, ExplanationRecord, ReasonRecord, worker_place};
use crate::shell_command::ShellCommand;

/// Says that the task waits for itself: nothing else of it tells why it is pending. Servers that cannot explain do not say so.
async fn note_cycle(context: &ClientContext, task: &Task) {
    if task.status != Status::Pending || task.scheduling.dependencies.is_empty() {
        return;
    }
    let Ok(explanation) = context.client.explain_task(&context.queue, task.id).await else { return };
    let cycle = explanation.reasons.iter().find(|reason| matches!(reason.reason, Some(Reason::DependencyCycle { .. })));
    cycle.into_iter().for_each(|reason| output::warning(&format!("{}: {}", task.id, reason.message)));
}

/// Shows one task with all its fields, or several. A missing one does not hide the others.
pub(super) async fn get(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.task(&context.queue, *id).await?;
        context.printer.one(&task)?;
        note_cycle(context, &task).await;
        return Ok(());
    }
    let mut found = Vec::new();
    for id in ids {
        match named_tasks::existing(context, *id).await? {
            Some(task) => found.push(task),
            None => output::warning(&named_tasks::missing(*id)),
        }
    }
    context.printer.several(&found)?;
    for task in &found {
        note_cycle(context, task).await;
    }
    if found.len() == ids.len() { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// Says why a task is not claimed yet, a line for each reason, with what helps. The server says the reasons; the words for people are made
/// here, where the commands are known.
pub(super) async fn explain(context: &ClientContext, id: TaskId) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let explanation = context.client.explain_task(&context.queue, id).await?;
    match context.printer.format() {
        Format::Json | Format::Jsonl => Ok(context.printer.one(&ExplanationRecord(&explanation))?),
        Format::Csv | Format::Quiet => {
            let reasons: Vec<ReasonRecord<'_>> = explanation.reasons.iter().map(ReasonRecord).collect();
            Ok(context.printer.list(&reasons)?)
        }
        Format::Table => {
            let known = known(context, id, &explanation).await;
            let command = |words: &str| {
                let make = if words.starts_with("queue ") { ShellCommand::of_server } else { ShellCommand::new };
                make(context, words).as_str().to_owned()
            };
            let lines = sentences(id, &context.queue, &explanation, &known, &command, output::now());
            lines.iter().try_for_each(|line| context.printer.text(&output::escape(line)))?;
            Ok(())
        }
    }
}

/// Returns what else there is to say of the task and of some that it waits for. Without it the explanation is as true, so a failure is no
/// error.
async fn known(context: &ClientContext, id: TaskId, explanation: &Explanation) -> Known {
    let unmet = explanation.reasons.iter().filter_map(|reason| match &reason.reason {
        Some(Reason::Dependencies { unmet }) => Some(unmet),
        _ => None,
    });
    let existing = unmet.flatten().filter(|(_, status)| status.is_some()).map(|(id, _)| *id);
    let mut known = Known::default();
    for other in existing.take(Known::SHOWN).chain([id]) {
        let Ok(Task { name, last_error, last_run, .. }) = context.client.task(&context.queue, other).await else {
            continue;
        };
        known.names.extend(name.map(|name| (other, name.to_string())));
        known.runs_on = last_run.filter(|_| other == id).and_then(|run| worker_place(&run.worker));
        let failure = last_error.map(|error| error.failure).filter(|failure| &*failure.kind == DEPENDENCY_FAILED);
        known.cancelled_because = failure.filter(|_| other == id).map(|failure| failure.message.to_string());
    }
    known
}
