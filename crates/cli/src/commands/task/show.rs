//! `task get`, `task list` and `task count`.

use taskqueue_client::{ErrorCode, GroupQuery, TaskDimension, TaskId};

use crate::args::{CountArgs, ListArgs};
use crate::client_context::ClientContext;
use crate::commands::print_pages::{print_groups, print_items};
use crate::failure::{CommandError, Failure};
use crate::output::{self, CountRecord};

/// One task with all its fields, or several. A missing one does not hide the others.
pub(super) async fn get(context: &ClientContext, ids: &[TaskId]) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.task(&context.queue, *id).await?;
        return Ok(context.printer.one(&task)?);
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
    if missing == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
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
