//! `task get`.

use taskqueue_client::{ErrorCode, Reason, Status, Task, TaskId};

use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output;

/// Says that the task waits for itself: nothing else of it tells why it is pending. Servers that cannot explain do not say so.
async fn note_cycle(context: &ClientContext, task: &Task) {
    if task.status != Status::Pending || task.scheduling.dependencies.is_empty() {
        return;
    }
    let Ok(explanation) = context.client.explain_task(&context.queue, task.id).await else { return };
    let cycle = explanation.reasons.iter().find(|reason| matches!(reason.reason, Some(Reason::DependencyCycle { .. })));
    cycle.into_iter().for_each(|reason| output::warning(&format!("{}: {}", task.id, reason.message)));
}

/// One task with all its fields, or several. A missing one does not hide the others.
pub(super) async fn get(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.task(&context.queue, *id).await?;
        context.printer.one(&task)?;
        note_cycle(context, &task).await;
        return Ok(());
    }
    let mut found = Vec::new();
    let mut missing = 0_u64;
    for id in ids {
        match context.client.task(&context.queue, *id).await {
            Ok(task) => found.push(task),
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                missing += 1;
                output::warning(&format!("{id} does not exist ({})", ErrorCode::TaskNotFound));
            }
            Err(error) => return Err(error.into()),
        }
    }
    context.printer.several(&found)?;
    for task in &found {
        note_cycle(context, task).await;
    }
    if missing == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}
