//! `task explain`: why a task is not claimed yet, a line for each reason, with what helps. The server says the reasons; the words for
//! people are made here, where the commands are known.

use taskqueue_client::{Explanation, Reason, Task, TaskId};
use taskqueue_core::dependency::DEPENDENCY_FAILED;

use crate::args::Format;
use crate::client_context::ClientContext;
use crate::explained_reasons::{Known, sentences};
use crate::failure::CommandError;
use crate::output::{self, ExplanationRecord, ReasonRecord, worker_place};
use crate::shell_command::ShellCommand;

pub(super) async fn run(context: &ClientContext, id: TaskId) -> Result<(), CommandError> {
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

/// What else there is to say of the task and of some that it waits for. Without it the explanation is as true, so a failure is no
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
