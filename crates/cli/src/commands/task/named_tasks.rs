//! Tasks that people name by their id, or by its beginning where that is enough.

use taskqueue_client::{OrderField, TaskId, TaskQuery, TaskSelection};

use crate::args::TaskRef;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};

/// Tasks of which a message shows the ids, if a beginning is that of several.
const SHOWN: usize = 3;
/// The last character of those that ids are made of.
const LAST: char = 'z';

/// The ids of these tasks. The server is asked only for those that are not named by their whole id.
pub(super) async fn ids(context: &ClientContext, names: &[TaskRef]) -> Result<Vec<TaskId>, CommandError> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(id(context, name).await?);
    }
    Ok(ids)
}

pub(super) async fn id(context: &ClientContext, name: &TaskRef) -> Result<TaskId, CommandError> {
    let beginning = match name {
        TaskRef::Id(id) => return Ok(*id),
        TaskRef::Beginning(beginning) => beginning,
    };
    let selection = TaskSelection::all().filter(filter(beginning)).include_archived(true);
    let limit = u16::try_from(SHOWN + 1).unwrap_or(u16::MAX);
    let query = TaskQuery::of(selection).ascending_by(OrderField::Id).limit(limit);
    let found = context.client.tasks(&context.queue, &query).await?.items;
    match found.as_slice() {
        [task] => Ok(task.id),
        [] => {
            let message = format!("no task of queue {} has an id that begins with {beginning}", context.queue);
            Err(Failure::Refused(message).into())
        }
        several => {
            let ids: Vec<String> = several.iter().take(SHOWN).map(|task| task.id.to_string()).collect();
            let more = if several.len() > SHOWN { ", ..." } else { "" };
            let message = format!("several ids begin with {beginning}: {}{more}; write more of it", ids.join(", "));
            Err(Failure::Refused(message).into())
        }
    }
}

/// Ids have one length, so those with a beginning are an interval. It has no character that needs an escape.
fn filter(beginning: &str) -> String {
    let rest = TaskId::LENGTH.saturating_sub(beginning.len());
    let last: String = beginning.chars().chain(std::iter::repeat_n(LAST, rest)).collect();
    format!("id >= \"{beginning}\" and id <= \"{last}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_an_interval_of_ids() {
        assert_eq!(filter("t_abcd"), "id >= \"t_abcd\" and id <= \"t_abcdzzzzzzzz\"");
    }
}
