//! `taskqueue queue ...`

mod settings;
mod stats;

use std::collections::BTreeMap;

use taskqueue_client::{Client, ErrorCode, QueueName, Status, TaskSelection};
use taskqueue_core::words;
use tokio::task::JoinSet;

use super::client_runtime;
use super::status_counts::StatusCounts;
use crate::args::{DeleteQueueArgs, Format, QueueArg, QueueArgs, QueueCommand};
use crate::client_context::{ClientContext, Retrying};
use crate::confirm::confirm;
use crate::explain_error::explain_missing_queue;
use crate::failure::{CommandError, Failure};
use crate::output::{self, CountedQueueRecord, QueueRecord};

/// Enough that the answers do not wait for each other, and few enough for a server that has other work.
const CONCURRENT_REQUESTS: usize = 8;

pub(crate) fn run(args: QueueArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    client_runtime::run(&context, None, async |context| match &args.command {
        QueueCommand::Create(args) => {
            let created = context.client.create_queue(&args.name).await?;
            let word = if created.created { "created" } else { "already there" };
            let sentence = format!("queue {} {word}", args.name);
            Ok(context.printer.done(&QueueRecord(created.value.name), &sentence)?)
        }
        QueueCommand::List => list(context).await,
        QueueCommand::Stats(args) => explained(context, stats::show(context, args).await).await,
        QueueCommand::Settings(args) => explained(context, settings::show(context, &args.name).await).await,
        QueueCommand::Pause(args) => explained(context, settings::pause(context, &args.name, true).await).await,
        QueueCommand::Resume(args) => explained(context, settings::pause(context, &args.name, false).await).await,
        QueueCommand::Limit(args) => explained(context, settings::limit(context, args).await).await,
        QueueCommand::Retention(args) => explained(context, settings::retention(context, args).await).await,
        QueueCommand::Delete(args) => explained(context, delete(context, args).await).await,
    })
}

/// People see how many tasks each queue has; programs get the names.
async fn list(context: &ClientContext) -> Result<(), CommandError> {
    let names: Vec<QueueName> = context.client.queues().await?.into_iter().map(|queue| queue.name).collect();
    let mut listing = context.printer.listing::<CountedQueueRecord>();
    for names in names.chunks(CONCURRENT_REQUESTS) {
        let counts = match context.printer.format() {
            Format::Table => counts(&context.client, names).await,
            _ => BTreeMap::new(),
        };
        for name in names {
            listing
                .push(&CountedQueueRecord { queue: QueueRecord(name.clone()), counts: counts.get(name).copied() })?;
        }
    }
    listing.finish()?;
    if names.is_empty() {
        output::note("there are no queues; create one with: taskqueue queue create NAME");
    }
    Ok(())
}

/// The tasks of a few queues by status. The list is of use without them, so a failure is no error.
async fn counts(client: &Client, queues: &[QueueName]) -> BTreeMap<QueueName, [u64; 5]> {
    let mut calls = JoinSet::new();
    for queue in queues.iter().cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let counts = StatusCounts::of(&client, &queue, TaskSelection::all()).await.ok()?;
            Some((queue, Status::ALL.map(|status| counts.get(status))))
        });
    }
    calls.join_all().await.into_iter().flatten().collect()
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
            let tasks = words::count(tasks, "task");
            confirm(&format!("Delete queue {} with {tasks}?", args.name), args.confirm)?;
        }
        context.client.delete_queue_with_tasks(&args.name).await?;
    } else {
        context.client.delete_queue(&args.name).await?;
    }
    Ok(context.printer.done(&QueueRecord(args.name.clone()), &format!("queue {} deleted", args.name))?)
}
