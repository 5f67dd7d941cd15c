//! `taskqueue worker ...`

use taskqueue_client::{Observation, WorkerSelection};
use taskqueue_core::words;

use super::print_pages::{note_cut, print_count, print_items};
use crate::args::{CountWorkersArgs, ListWorkersArgs, WorkerArgs, WorkerCommand, WorkerSelectionArgs};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::{CommandError, Failure};
use crate::output::{self, WideWorker};

pub(crate) fn run(args: WorkerArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, args.output, Retrying::Interactive)?;
    context.run(args.filter.as_deref(), async |context| match &args.command {
        WorkerCommand::List(args) => list(context, args).await,
        WorkerCommand::Count(args) => count(context, args).await,
    })
}

async fn list(context: &ClientContext, args: &ListWorkersArgs) -> Result<(), CommandError> {
    let max_items = args.limit.max_items(context.printer.format());
    let walk = context.client.walk(&context.queue, args.selection.query(max_items));
    let printed = match args.wide {
        true => {
            print_items::<_, WideWorker<'_>>(context, walk, max_items, None, |listing, worker| {
                listing.push(&WideWorker(worker))
            })
            .await?
        }
        false => {
            print_items::<_, Observation>(context, walk, max_items, None, |listing, worker| listing.push(worker))
                .await?
        }
    };
    if printed.is_cut {
        let selection = args.selection.selection();
        note_cut(printed, "workers", context.client.count(&context.queue, &selection)).await;
    } else if printed.count == 0 {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}

/// Says why a list is empty: whether there are no workers, or none that match.
async fn note_nothing(context: &ClientContext, selection: &WorkerSelectionArgs) {
    let queue = &context.queue;
    let others = match &selection.filter {
        None => Some(0),
        // The list itself was answered, so a failure of this request is not worth an error.
        Some(_) => context.client.count(queue, &WorkerSelection::all()).await.ok(),
    };
    output::note(&match others {
        Some(0) => format!("no worker of queue {queue} has reported within the last five minutes"),
        Some(others) => format!("no worker matches; queue {queue} has {}", words::count(others, "worker")),
        None => format!("no worker of queue {queue} matches"),
    });
}

async fn count(context: &ClientContext, args: &CountWorkersArgs) -> Result<(), CommandError> {
    if !print_count(context, args.selection.selection(), args.group_by.as_deref()).await? {
        note_nothing(context, &args.selection).await;
    }
    Ok(())
}
