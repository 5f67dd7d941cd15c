//! `task update`, `task archive` and `task unarchive`: change tasks that are named by id, one by one, or all that match, in one request.

use taskqueue_client::{BulkUpdateRequest, TaskId, Update, Updated};

use super::actions::{self, Action};
use super::change::{Change, ChangeOutcome, print_summary};
use super::{dry_run, named_tasks};
use crate::args::{ConfirmArgs, SelectionArgs, TargetArgs, UpdateArgs};
use crate::client_context::ClientContext;
use crate::explain_error::explain;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};
use crate::update_args;

pub(super) async fn run(context: &ClientContext, args: &UpdateArgs) -> Result<(), CommandError> {
    let after = named_tasks::awaited(context, &args.change.scheduling.new).await?;
    let update = update_args::update(&args.change, after, output::now())?;
    // An update as the contract has it needs no second request.
    if update.uses_extensions() {
        context.client.require_extensions().await?;
    }
    let ids = named_tasks::ids(context, &args.ids).await?;
    match ids.as_slice() {
        [] if args.dry_run => dry_run::preview_selection(context, args.selection().selection(), &update).await,
        [] => {
            let selection = args.selection();
            // What this program cannot read, or what becomes too long, is for the server to judge.
            let filter = selection.as_filter().unwrap_or_else(|| selection.as_typed());
            update_selected(context, Change::Update, &selection, filter, args.confirm, update).await
        }
        ids if args.dry_run => dry_run::preview_ids(context, ids, &update).await,
        ids => update_ids(context, ids, &update).await,
    }
}

/// Puts tasks into the archive, or takes them out. Named tasks are changed one by one, selected ones together; a fuzzy search, which no
/// filter says, is walked through.
pub(super) async fn archive(context: &ClientContext, args: &TargetArgs, change: Change) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let (is_archived, mut target) = (change == Change::Archive, args.clone());
    target.selection.include_archived |= !is_archived;
    // Those that are as they are to be already are no part of it.
    if let Some(narrowed) = target.selection.narrowed(&format!("archived == {}", !is_archived)) {
        target.selection = narrowed;
    }
    let update = Update { archived: Some(is_archived), ..Update::default() };
    let filter =
        target.selection.narrowed(&change.applies_to().filter_text()).and_then(|narrowed| narrowed.as_filter());
    let Some(filter) = filter.filter(|_| target.ids.is_empty()) else {
        return actions::run(context, Action::new(change, Some(update)), &target).await;
    };
    update_selected(context, change, &target.selection, filter, target.confirm, update).await
}

/// Updates the selected tasks to which the change applies: all of them or none. The command fails if that leaves nothing to do. `filter`
/// says which tasks they are, which is all that a bulk update takes.
async fn update_selected(
    context: &ClientContext,
    change: Change,
    args: &SelectionArgs,
    filter: String,
    confirm: ConfirmArgs,
    changes: Update,
) -> Result<(), CommandError> {
    let counts = change.count(context, args.selection(), confirm).await?;
    let applicable = counts.among(change.applies_to());
    let mut updated = Updated { matched: 0, updated: 0 };
    if applicable > 0 {
        let request = BulkUpdateRequest { filter: filter.into(), changes, include_archived: args.include_archived };
        updated = context.client.update_tasks(&context.queue, &request).await?;
    }
    let (changed, equal) = (updated.updated, updated.matched.saturating_sub(updated.updated));
    let (done, left_out) = (change.words().done, counts.total() - applicable);
    let summary = match change {
        Change::Update => Summary::of([(done, changed), ("unchanged", equal), ("running_left_out", left_out)]),
        _ => Summary::of([(done, changed), ("skipped", left_out + equal), ("refused", 0)]),
    };
    print_summary(context, &summary)?;
    change.conclude(&counts, ChangeOutcome { changed, equal, missed: 0 })
}

async fn update_ids(context: &ClientContext, ids: &[TaskId], update: &Update) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.update_task(&context.queue, *id, update).await?;
        return Ok(context.printer.done(&task, &format!("{id} updated"))?);
    }
    let (mut updated, mut refused) = (0, 0);
    let summary = |updated, refused| Summary::of([("updated", updated), ("refused", refused)]);
    for id in ids {
        match context.client.update_task(&context.queue, *id, update).await {
            Ok(_) => updated += 1,
            Err(error) => match explain(context, error, None).await {
                unreachable @ Failure::Unreachable(_) => {
                    output::note(&format!("{} so far", summary(updated, refused).sentence()));
                    return Err(unreachable.into());
                }
                failure => {
                    refused += 1;
                    output::warning(&format!("{id}: {}", failure.message().unwrap_or_default()));
                }
            },
        }
    }
    print_summary(context, &summary(updated, refused))?;
    if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}
