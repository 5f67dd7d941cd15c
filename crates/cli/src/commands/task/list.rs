//! `task list` and `task count`.

use taskqueue_client::{GroupQuery, TaskDimension, TaskSelection};
use taskqueue_core::words;

use super::loaded_tasks;
use crate::args::{CountArgs, Format, ListArgs, SelectionArgs};
use crate::client_context::ClientContext;
use crate::commands::print_pages::{note_cut, print_groups, print_items};
use crate::failure::{CommandError, Failure};
use crate::output::{self, CountRecord};

pub(super) async fn list(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let format = context.printer.format();
    if args.fields().is_some() && !matches!(format, Format::Table | Format::Csv) {
        let message = "--columns is for --output table and csv; the other formats have all fields or only the id";
        return Err(Failure::Usage(message.to_owned()).into());
    }
    let max_items = args.limit.max_items(format);
    let selection = args.selection.selection();
    let (printed, total) = if args.own_sort().is_empty() && !args.has_wildcard() {
        let walk = context.client.walk_tasks(&context.queue, args.query(max_items));
        (print_items(context, walk, max_items, args.fields()).await?, None)
    } else {
        let loaded = loaded_tasks::load(context, args, max_items).await?;
        (loaded.print(context, args.fields())?, loaded.total)
    };
    if printed.is_cut {
        let count = async {
            match total {
                Some(total) => Ok(total),
                None => context.client.count_tasks(&context.queue, &selection).await,
            }
        };
        note_cut(printed, "tasks", count).await;
    } else if printed.count == 0 {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}

/// Says why a list is empty: whether the queue is, or the selection, or whether all its tasks are archived.
async fn note_nothing(context: &ClientContext, selection: &SelectionArgs) {
    let queue = &context.queue;
    let others = match selection.is_empty() && selection.include_archived {
        true => Some(0),
        // The list itself was answered, so a failure of this request is not worth an error.
        false => context.client.count_tasks(queue, &TaskSelection::all().include_archived(true)).await.ok(),
    };
    output::note(&match others {
        Some(0) => format!("queue {queue} is empty"),
        Some(archived) if selection.is_empty() => {
            let tasks = words::count(archived, "task");
            format!("{tasks} of queue {queue}, all of them archived: --include-archived shows them")
        }
        Some(others) => format!("no task matches; queue {queue} has {}", words::count(others, "task")),
        None => format!("no task of queue {queue} matches"),
    });
}

pub(super) async fn count(context: &ClientContext, args: &CountArgs) -> Result<(), CommandError> {
    let selection = args.selection.selection();
    let Some(dimensions) = &args.group_by else {
        let count = context.client.count_tasks(&context.queue, &selection).await?;
        return Ok(context.printer.one(&CountRecord(count))?);
    };
    let words: Vec<&'static str> = dimensions.0.iter().copied().map(TaskDimension::as_str).collect();
    let query = GroupQuery::by(dimensions.0.iter().copied(), selection);
    let groups = print_groups(context, context.client.walk_task_groups(&context.queue, query), &words).await?;
    if groups == 0 {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}
