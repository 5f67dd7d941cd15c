//! `task get`.

use taskqueue_client::{ErrorCode, TaskId};

use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output;

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
