//! `taskqueue queue ...`

mod settings;
mod stats;

use taskqueue_client::{ErrorCode, TaskSelection};

use super::client_runtime;
use crate::args::{DeleteQueueArgs, QueueArg, QueueArgs, QueueCommand};
use crate::client_context::{ClientContext, Retrying};
use crate::confirm::confirm;
use crate::explain_error::explain_missing_queue;
use crate::failure::{CommandError, Failure};
use crate::output::{self, QueueRecord};

pub(crate) fn run(args: QueueArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    client_runtime::run(&context, None, async |context| match &args.command {
        QueueCommand::Create(args) => {
            let created = context.client.create_queue(&args.name).await?;
            let word = if created.created { "created" } else { "already there" };
            let sentence = format!("queue {} {word}", args.name);
            Ok(context.printer.done(&QueueRecord(created.value.name), &sentence)?)
        }
        QueueCommand::List => {
            let queues = context.client.queues().await?;
            let records: Vec<QueueRecord> = queues.into_iter().map(|queue| QueueRecord(queue.name)).collect();
            context.printer.list(&records)?;
            if records.is_empty() {
                output::note("there are no queues; create one with: taskqueue queue create NAME");
            }
            Ok(())
        }
        QueueCommand::Stats(args) => explained(context, stats::show(context, args).await).await,
        QueueCommand::Settings(args) => explained(context, settings::show(context, &args.name).await).await,
        QueueCommand::Pause(args) => explained(context, settings::pause(context, &args.name, true).await).await,
        QueueCommand::Resume(args) => explained(context, settings::pause(context, &args.name, false).await).await,
        QueueCommand::Limit(args) => explained(context, settings::limit(context, args).await).await,
        QueueCommand::Retention(args) => explained(context, settings::retention(context, args).await).await,
        QueueCommand::Delete(args) => explained(context, delete(context, args).await).await,
    })
}

/// With names that are similar to a queue that does not exist.
async fn explained(context: &ClientContext, outcome: Result<(), CommandError>) -> Result<(), CommandError> {
    match outcome {
        Err(CommandError::Call(error)) if error.code() == Some(ErrorCode::QueueNotFound) => {
            Err(explain_missing_queue(context, &error).await.into())
        }
        outcome => outcome,
    }
}

async fn delete(context: &ClientContext, args: &DeleteQueueArgs) -> Result<(), CommandError> {
    if args.cascade {
        let tasks = context.client.count_tasks(&args.name, &TaskSelection::all().include_archived(true)).await?;
        if tasks > 0 {
            let tasks = output::counted(tasks, "task");
            confirm(&format!("Delete queue {} with {tasks}?", args.name), args.confirm)?;
        }
        context.client.delete_queue_with_tasks(&args.name).await?;
    } else {
        context.client.delete_queue(&args.name).await?;
    }
    Ok(context.printer.done(&QueueRecord(args.name.clone()), &format!("queue {} deleted", args.name))?)
}
