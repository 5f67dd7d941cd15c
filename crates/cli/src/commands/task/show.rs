//! `task get`, `task list` and `task count`, and printing of paged lists.

use taskqueue_client::{Group, GroupQuery, PageQuery, TaskDimension, TaskId, Walk};

use crate::args::{CountArgs, Format, LimitArgs, ListArgs};
use crate::failure::CommandError;
use crate::output::{self, CountRecord, GroupRecord, Record};
use crate::session::Session;

pub(super) async fn get(session: &Session, id: TaskId) -> Result<(), CommandError> {
    let task = session.client.task(&session.queue, id).await?;
    Ok(session.printer.one(&task)?)
}

pub(super) async fn list(session: &Session, args: &ListArgs) -> Result<(), CommandError> {
    let walk = session.client.walk_tasks(&session.queue, args.query());
    print_walk(session, walk, args.limit, "tasks").await
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

/// Prints as many items as the limit allows, and a note if there are more.
pub(crate) async fn print_walk<Q>(
    session: &Session,
    mut walk: Walk<Q>,
    limit: LimitArgs,
    noun: &str,
) -> Result<(), CommandError>
where
    Q: PageQuery<Item: Record>,
{
    let mut listing = session.printer.listing::<Q::Item>();
    let mut remaining = limit.max_items();
    while remaining != Some(0) {
        let Some(item) = walk.next().await? else {
            return Ok(listing.finish()?);
        };
        listing.push(&item)?;
        remaining = remaining.map(|count| count - 1);
    }
    listing.finish()?;
    if session.printer.format() == Format::Table && walk.next().await?.is_some() {
        output::note(&format!("there are more {noun}; show them with --all or a larger --limit"));
    }
    Ok(())
}

pub(crate) async fn print_groups<Q>(
    session: &Session,
    mut walk: Walk<Q>,
    dimensions: &[&'static str],
) -> Result<(), CommandError>
where
    Q: PageQuery<Item = Group>,
{
    let mut listing = session.printer.listing::<GroupRecord<'_>>();
    while let Some(group) = walk.next().await? {
        listing.push(&GroupRecord { dimensions, group })?;
    }
    Ok(listing.finish()?)
}
