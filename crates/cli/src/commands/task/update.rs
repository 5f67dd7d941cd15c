//! `task update`: changes tasks that are named by id, one by one, or all that match a filter, in one request.

use taskqueue_client::{BulkUpdateRequest, TaskId, TaskSelection, Update, Updated};

use super::awaited_tasks;
use super::bulk_change::{Change, note_no_match};
use super::named_tasks;
use super::update_preview;
use crate::args::UpdateArgs;
use crate::change_args;
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};

pub(super) async fn run(context: &ClientContext, args: &UpdateArgs) -> Result<(), CommandError> {
    let after = awaited_tasks::find(context, &args.change.scheduling.new).await?;
    let update = change_args::update(&args.change, after, output::now())?;
    // An update as the contract has it needs no second request.
    if update.uses_extensions() {
        context.client.require_extensions().await?;
    }
    let ids = named_tasks::ids(context, &args.ids).await?;
    match ids.as_slice() {
        [] if args.dry_run => update_preview::of_selection(context, selection(args), &update).await,
        [] => update_selected(context, args, update).await,
        ids if args.dry_run => update_preview::of_ids(context, ids, &update).await,
        ids => update_ids(context, ids, &update).await,
    }
}

/// Atomic: all selected tasks that are not running are changed, or none. The command fails if that leaves nothing to do.
async fn update_selected(context: &ClientContext, args: &UpdateArgs, changes: Update) -> Result<(), CommandError> {
    let change = Change::Update;
    let counts = StatusCounts::of(&context.client, &context.queue, selection(args)).await?;
    let applicable = counts.among(change.applies_to());
    if counts.total() == 0 {
        note_no_match(context);
        return Ok(print_summary(context, Updated { matched: 0, updated: 0 }, 0)?);
    }
    if applicable == 0 {
        print_summary(context, Updated { matched: 0, updated: 0 }, counts.running)?;
        return Err(change.nothing_changed(&counts).into());
    }
    change.confirm(context, &counts, args.confirm)?;
    let request = BulkUpdateRequest { filter: filter(args).into(), changes, include_archived: args.include_archived };
    let updated = context.client.update_tasks(&context.queue, &request).await?;
    print_summary(context, updated, counts.running)?;
    let reasons = change.reasons(&counts);
    match updated {
        Updated { updated: 0, matched } => Err(Failure::Refused(nothing_updated(matched, &reasons)).into()),
        _ if reasons.is_empty() => Ok(()),
        _ => {
            output::note(&format!("left out: {reasons}"));
            Ok(())
        }
    }
}

fn selection(args: &UpdateArgs) -> TaskSelection {
    let selection = match args.status {
        Some(status) => TaskSelection::all().status(status),
        None => TaskSelection::all(),
    };
    let selection = selection.include_archived(args.include_archived);
    match &args.filter {
        Some(filter) => selection.filter(filter),
        None => selection,
    }
}

/// The same selection as one filter, which is all that a bulk update takes.
fn filter(args: &UpdateArgs) -> String {
    let status = args.status.map(|status| format!("status == \"{}\"", status.as_str()));
    match (&args.filter, status) {
        (Some(filter), Some(status)) => format!("({filter}) and {status}"),
        (Some(filter), None) => filter.clone(),
        (None, status) => status.unwrap_or_default(),
    }
}

fn print_summary(context: &ClientContext, updated: Updated, running: u64) -> Result<(), Failure> {
    let counts = vec![
        ("updated", updated.updated),
        ("unchanged", updated.matched.saturating_sub(updated.updated)),
        ("running_left_out", running),
    ];
    let summary = Summary { counts };
    context.printer.done(&summary, &summary.sentence())
}

fn nothing_updated(matched: u64, reasons: &str) -> String {
    let equal = match matched {
        0 => None,
        1 => Some("1 has these values already".to_owned()),
        count => Some(format!("{count} have these values already")),
    };
    let reasons = Some(reasons.to_owned()).filter(|reasons| !reasons.is_empty());
    let all: Vec<String> = equal.into_iter().chain(reasons).collect();
    if all.is_empty() {
        return "nothing was changed: the tasks changed in the meantime".to_owned();
    }
    format!("nothing was changed: {}", all.join("; "))
}

fn update_summary(updated: u64, refused: u64) -> Summary {
    Summary { counts: vec![("updated", updated), ("refused", refused)] }
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
                unreachable @ Failure::Unreachable(_) => {
                    output::note(&format!("{} so far", update_summary(updated, refused).sentence()));
                    return Err(unreachable.into());
                }
                failure => {
                    refused += 1;
                    output::warning(&format!("{id}: {}", failure.message().unwrap_or_default()));
                }
            },
        }
    }
    let summary = update_summary(updated, refused);
    context.printer.done(&summary, &summary.sentence())?;
    if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}
