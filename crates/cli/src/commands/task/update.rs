//! `task update`: changes tasks that are named by id, one by one, or all that match a filter, in one request.

use taskqueue_client::{BulkUpdateRequest, Status, TaskId, TaskSelection, Update};

use crate::args::{ConfirmArgs, UpdateArgs};
use crate::client_context::ClientContext;
use crate::confirm::confirm;
use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};
use crate::json_args;
use crate::output::{self, Summary};

pub(super) async fn run(context: &ClientContext, args: &UpdateArgs) -> Result<(), CommandError> {
    let update = json_args::update(&args.change)?;
    match &args.filter {
        Some(filter) => update_matching(context, filter, update, args.confirm).await,
        None => update_ids(context, &args.ids, &update).await,
    }
}

/// Atomic: all matching tasks that are not running are changed, or none.
async fn update_matching(
    context: &ClientContext,
    filter: &str,
    changes: Update,
    args: ConfirmArgs,
) -> Result<(), CommandError> {
    let selection = TaskSelection::all().filter(filter);
    let count = context.client.count_tasks(&context.queue, &selection).await?;
    let running = context.client.count_tasks(&context.queue, &selection.status(Status::Running)).await?;
    let others = count.saturating_sub(running);
    if others > 0 {
        let left_out = if running > 0 { format!(" ({running} running left out)") } else { String::new() };
        confirm(&format!("Update {} of queue {}{left_out}?", output::counted(others, "task"), context.queue), args)?;
    }
    let updated =
        context.client.update_tasks(&context.queue, &BulkUpdateRequest { filter: filter.into(), changes }).await?;
    let counts = vec![
        ("updated", updated.updated),
        ("unchanged", updated.matched.saturating_sub(updated.updated)),
        ("running_left_out", running),
    ];
    let summary = Summary { counts };
    Ok(context.printer.done(&summary, &summary.sentence())?)
}

async fn update_ids(context: &ClientContext, ids: &[TaskId], update: &Update) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.update_task(&context.queue, *id, update).await?;
        return Ok(context.printer.done(&task, &format!("{id} updated"))?);
    }
    let (mut updated, mut refused) = (0, 0);
    for id in ids {
        match context.client.update_task(&context.queue, *id, update).await {
            Ok(_) => updated += 1,
            Err(error) => match explain(context, error, None).await {
                unreachable @ Failure::Unreachable(_) => return Err(unreachable.into()),
                failure => {
                    refused += 1;
                    output::warning(&format!("{id}: {}", failure.message().unwrap_or_default()));
                }
            },
        }
    }
    let summary = Summary { counts: vec![("updated", updated), ("refused", refused)] };
    context.printer.done(&summary, &summary.sentence())?;
    if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}
