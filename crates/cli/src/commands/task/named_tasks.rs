//! Tasks that people name: by their id or its beginning, by the label of a batch, or by a selection that is walked through.

use taskqueue_client::{Client, Error, ErrorCode, OrderField, QueueName, Task, TaskId, TaskQuery, TaskSelection, Walk};
use taskqueue_core::batch_label;
use taskqueue_core::ids::ID_BYTES;
use taskqueue_core::limits::DEPENDENCIES_MAX;

use crate::args::{PAGE_LIMIT, SchedulingArgs, TaskRef};
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::json_args::too_many;

/// Tasks of which a message shows the ids, if a beginning is that of several.
const SHOWN: u16 = 3;
/// The last character of those that ids are made of.
const LAST: char = 'z';

/// Returns the ids of these tasks. The server is asked only for those that are not named by their whole id.
pub(super) async fn ids(context: &ClientContext, names: &[TaskRef]) -> Result<Vec<TaskId>, CommandError> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(id(context, name).await?);
    }
    Ok(ids)
}

/// Returns the id of a task.
pub(super) async fn id(context: &ClientContext, name: &TaskRef) -> Result<TaskId, CommandError> {
    let beginning = match name {
        TaskRef::Id(id) => return Ok(*id),
        TaskRef::Beginning(beginning) => beginning,
    };
    let selection = TaskSelection::all().filter(filter(beginning)).include_archived(true);
    let query = TaskQuery::of(selection).ascending_by(OrderField::Id).limit(SHOWN + 1);
    let found = context.client.page(&context.queue, &query).await?.items;
    let message = match found.as_slice() {
        [task] => return Ok(task.id),
        [] => format!("no task of queue {} has an id that begins with {beginning}", context.queue),
        several => {
            let ids: Vec<&str> = several.iter().take(SHOWN.into()).map(|task| task.id.as_str()).collect();
            let more = if several.len() > ids.len() { ", ..." } else { "" };
            format!("several ids begin with {beginning}: {}{more}; write more of it", ids.join(", "))
        }
    };
    Err(Failure::Refused(message).into())
}

/// Returns a random id for a new task.
pub(super) fn random_id() -> Result<TaskId, Failure> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(Failure::because("cannot get random numbers"))?;
    Ok(TaskId::from_bytes(bytes))
}

/// Returns the filter for a beginning. Ids have one length, so those are an interval. It has no character that needs an escape.
fn filter(beginning: &str) -> String {
    let rest = TaskId::LENGTH.saturating_sub(beginning.len());
    let last: String = beginning.chars().chain(std::iter::repeat_n(LAST, rest)).collect();
    format!("id >= \"{beginning}\" and id <= \"{last}\"")
}

/// Returns a task, or `None` if it does not exist.
pub(crate) async fn existing(client: &Client, queue: &QueueName, id: TaskId) -> Result<Option<Task>, Error> {
    match client.task(queue, id).await {
        Ok(task) => Ok(Some(task)),
        Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the warning about a task that does not exist.
pub(super) fn missing(id: TaskId) -> String {
    format!("{id} does not exist ({})", ErrorCode::TaskNotFound)
}

/// Walks through selected tasks, newest first: ordered by a time that nothing changes, so that no task comes twice, and tasks that are
/// created meanwhile are not included.
pub(super) fn walk(context: &ClientContext, selection: TaskSelection) -> Walk<Task> {
    let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
    context.client.walk(&context.queue, query)
}

/// Returns the tasks that `--after` and `--after-batch` name; the latter are those whose metadata has the label of the batch so far,
/// archived ones too.
pub(super) async fn awaited(context: &ClientContext, given: &SchedulingArgs) -> Result<Vec<TaskId>, CommandError> {
    let mut ids = ids(context, &given.after).await?;
    for label in &given.after_batch {
        let before = ids.len();
        let selection = TaskSelection::all().filter(batch_label::filter(label)).include_archived(true);
        let mut walk = walk(context, selection);
        while let Some(task) = walk.next().await? {
            ids.push(task.id);
            if ids.len() > DEPENDENCIES_MAX {
                return Err(too_many().into());
            }
        }
        if ids.len() == before {
            return Err(Failure::Refused(format!(
                "no task of queue {} was submitted with --batch {label}: submit those first, or name tasks with --after ID",
                context.queue
            ))
            .into());
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_differ() {
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }

    #[test]
    fn a_beginning_is_an_interval_of_ids() {
        assert_eq!(filter("t_abcd"), "id >= \"t_abcd\" and id <= \"t_abcdzzzzzzzz\"");
    }
}
