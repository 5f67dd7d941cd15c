//! `taskqueue queue ...`

use taskqueue_client::TaskSelection;

use super::client_runtime;
use crate::args::{DeleteQueueArgs, QueueArg, QueueArgs, QueueCommand};
use crate::confirm::confirm;
use crate::failure::{CommandError, Failure};
use crate::output::{self, QueueRecord};
use crate::session::{Retrying, Session};

pub(crate) fn run(args: QueueArgs) -> Result<(), Failure> {
    let session = Session::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    client_runtime::run(&session, None, async |session| match &args.command {
        QueueCommand::Create(args) => {
            let created = session.client.create_queue(&args.name).await?;
            let word = if created.created { "created" } else { "already there" };
            let sentence = format!("queue {} {word}", args.name);
            Ok(session.printer.done(&QueueRecord(created.value.name), &sentence)?)
        }
        QueueCommand::List => {
            let queues = session.client.queues().await?;
            let records: Vec<QueueRecord> = queues.into_iter().map(|queue| QueueRecord(queue.name)).collect();
            Ok(session.printer.list(&records)?)
        }
        QueueCommand::Delete(args) => delete(session, args).await,
    })
}

async fn delete(session: &Session, args: &DeleteQueueArgs) -> Result<(), CommandError> {
    if args.cascade {
        let tasks = session.client.count_tasks(&args.name, &TaskSelection::all()).await?;
        if tasks > 0 {
            let tasks = output::counted(tasks, "task");
            confirm(&format!("Delete queue {} with {tasks}?", args.name), args.confirm)?;
        }
        session.client.delete_queue_with_tasks(&args.name).await?;
    } else {
        session.client.delete_queue(&args.name).await?;
    }
    Ok(session.printer.done(&QueueRecord(args.name.clone()), &format!("queue {} deleted", args.name))?)
}
