//! `task get`, `task list` and `task count`.

use taskqueue_client::{GroupQuery, TaskDimension, TaskId};

use crate::args::{CountArgs, ListArgs};
use crate::client_context::ClientContext;
use crate::commands::print_pages::{print_groups, print_items};
use crate::failure::CommandError;
use crate::output::CountRecord;

pub(super) async fn get(context: &ClientContext, id: TaskId) -> Result<(), CommandError> {
    let task = context.client.task(&context.queue, id).await?;
    Ok(context.printer.one(&task)?)
}

pub(super) async fn list(context: &ClientContext, args: &ListArgs) -> Result<(), CommandError> {
    let walk = context.client.walk_tasks(&context.queue, args.query());
    print_items(context, walk, args.limit, "tasks").await
}

pub(super) async fn count(context: &ClientContext, args: &CountArgs) -> Result<(), CommandError> {
    let selection = args.selection.selection();
    let Some(dimensions) = &args.group_by else {
        let count = context.client.count_tasks(&context.queue, &selection).await?;
        return Ok(context.printer.one(&CountRecord(count))?);
    };
    let words: Vec<&'static str> = dimensions.0.iter().copied().map(TaskDimension::as_str).collect();
    let query = GroupQuery::by(dimensions.0.iter().copied(), selection);
    print_groups(context, context.client.walk_task_groups(&context.queue, query), &words).await
}
