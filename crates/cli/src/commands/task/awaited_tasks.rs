//! The tasks that `--after` and `--after-batch` name; the latter are those whose metadata has the label of the batch.

use taskqueue_client::{OrderField, TaskId, TaskQuery, TaskSelection};
use taskqueue_core::batch_label;
use taskqueue_core::limits::DEPENDENCIES_MAX;

use super::named_tasks;
use crate::args::SchedulingArgs;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::scheduling_args::too_many;

/// The largest page.
const PAGE_LIMIT: u16 = 1000;

/// The named tasks, and all of these batches so far, archived ones too.
pub(super) async fn find(context: &ClientContext, given: &SchedulingArgs) -> Result<Vec<TaskId>, CommandError> {
    let mut ids = named_tasks::ids(context, &given.after).await?;
    for label in &given.after_batch {
        let before = ids.len();
        let selection = TaskSelection::all().filter(batch_label::filter(label)).include_archived(true);
        let query = TaskQuery::of(selection).descending_by(OrderField::CreatedAt).limit(PAGE_LIMIT);
        let mut walk = context.client.walk_tasks(&context.queue, query);
        while let Some(task) = walk.next().await? {
            ids.push(task.id);
            if ids.len() > DEPENDENCIES_MAX {
                return Err(too_many().into());
            }
        }
        if ids.len() == before {
            return Err(no_batch(context, label).into());
        }
    }
    Ok(ids)
}

fn no_batch(context: &ClientContext, label: &str) -> Failure {
    Failure::Refused(format!(
        "no task of queue {} was submitted with --batch {label}: submit those first, or name tasks with --after ID",
        context.queue
    ))
}
