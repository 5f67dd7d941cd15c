//! `task archive` and `task unarchive`. Named tasks are changed one by one, selected ones together by a bulk update; a fuzzy search,
//! which no filter says, is walked through.

use taskqueue_client::{BulkUpdateRequest, TaskSelection, Update, Updated};

use super::actions::{self, Action};
use super::bulk_change::{Change, note_no_match};
use super::bulk_requests::as_filter;
use crate::args::{ArchiveArgs, ConfirmArgs, SelectionArgs};
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary};

pub(super) async fn run(context: &ClientContext, args: &ArchiveArgs, archived: bool) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let mut target = args.target.clone();
    target.selection.include_archived |= !archived;
    if target.selection.conditions.fuzzy.is_some() {
        // Those that are as they are to be already are no part of it; a bulk update says the same below.
        let given = target.selection.conditions.filter.take();
        let states = format!("archived == {}", !archived);
        target.selection.conditions.filter =
            Some(given.map_or_else(|| states.clone(), |filter| format!("({filter}) and {states}")));
    }
    let filter = as_filter(&target.selection).filter(|_| target.ids.is_empty());
    match filter {
        Some(filter) => change_selected(context, &target.selection, &filter, archived, args.confirm).await,
        None => actions::run(context, Action::Archive(archived), &target, args.confirm).await,
    }
}

/// All of them or none.
async fn change_selected(
    context: &ClientContext,
    args: &SelectionArgs,
    filter: &str,
    archived: bool,
    confirm: ConfirmArgs,
) -> Result<(), CommandError> {
    let change = if archived { Change::Archive } else { Change::Unarchive };
    // Those that are as they are to be already are no part of it.
    let filter = format!("({filter}) and archived == {}", !archived);
    let selection = TaskSelection::all().filter(&filter).include_archived(args.include_archived);
    let counts = StatusCounts::of(&context.client, &context.queue, selection).await?;
    let applicable = counts.among(change.applies_to());
    let left_out = counts.total() - applicable;
    if counts.total() == 0 {
        note_no_match(context);
        return Ok(print_summary(context, archived, Updated { matched: 0, updated: 0 }, 0)?);
    }
    if applicable == 0 {
        print_summary(context, archived, Updated { matched: 0, updated: 0 }, left_out)?;
        return Err(change.nothing_changed(&counts).into());
    }
    change.confirm(context, &counts, confirm)?;
    let filter = format!("{filter} and {}", change.applies_to().filter_text());
    let changes = Update { archived: Some(archived), ..Update::default() };
    let request = BulkUpdateRequest { filter: filter.into(), changes, include_archived: args.include_archived };
    let updated = context.client.update_tasks(&context.queue, &request).await?;
    print_summary(context, archived, updated, left_out)?;
    let reasons = change.reasons(&counts);
    match updated.updated {
        0 => Err(change.nothing_changed(&counts).into()),
        _ if reasons.is_empty() => Ok(()),
        _ => {
            output::note(&format!("left out: {reasons}"));
            Ok(())
        }
    }
}

fn print_summary(context: &ClientContext, archived: bool, updated: Updated, left_out: u64) -> Result<(), Failure> {
    let done = if archived { "archived" } else { "unarchived" };
    let skipped = left_out + updated.matched.saturating_sub(updated.updated);
    let summary = Summary { counts: vec![(done, updated.updated), ("skipped", skipped), ("refused", 0)] };
    context.printer.done(&summary, &summary.sentence())
}
