//! `task get`, `task list` and `task count`.

use taskqueue_client::{GroupQuery, TaskDimension, TaskId};

use crate::args::{CountArgs, ListArgs};
use crate::commands::print_pages::{print_groups, print_items};
use crate::failure::CommandError;
use crate::output::CountRecord;
use crate::session::Session;

pub(super) async fn get(session: &Session, id: TaskId) -> Result<(), CommandError> {
    let task = session.client.task(&session.queue, id).await?;
    Ok(session.printer.one(&task)?)
}

pub(super) async fn list(session: &Session, args: &ListArgs) -> Result<(), CommandError> {
    let walk = session.client.walk_tasks(&session.queue, args.query());
    print_items(session, walk, args.limit, "tasks").await
}

pub(super) async fn count(session: &Session, args: &CountArgs) -> Result<(), CommandError> {
    let selection = args.selection.selection();
    let Some(dimensions) = &args.group_by else {
        let count = session.client.count_tasks(&session.queue, &selection).await?;
        return Ok(session.printer.one(&CountRecord(count))?);
    };
    let words: Vec<&'static str> = dimensions.0.iter().copied().map(TaskDimension::as_str).collect();
    let query = GroupQuery::by(dimensions.0.iter().copied(), selection);
    print_groups(session, session.client.walk_task_groups(&session.queue, query), &words).await
}
