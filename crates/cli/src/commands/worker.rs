//! `taskqueue worker ...`

use taskqueue_client::{GroupQuery, WorkerDimension};

use super::client_runtime;
use super::print_pages::{print_groups, print_items};
use crate::args::{CountWorkersArgs, ListWorkersArgs, WorkerArgs, WorkerCommand};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::{CommandError, Failure};
use crate::output::CountRecord;

pub(crate) fn run(args: WorkerArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, args.output, Retrying::Interactive)?;
    client_runtime::run(&context, args.command.filter(), async |context| match &args.command {
        WorkerCommand::List(args) => list(context, args).await,
        WorkerCommand::Count(args) => count(context, args).await,
    })
}

async fn list(context: &ClientContext, args: &ListWorkersArgs) -> Result<(), CommandError> {
    let walk = context.client.walk_workers(&context.queue, args.selection.query(args.limit));
    print_items(context, walk, args.limit, "workers").await
}

async fn count(context: &ClientContext, args: &CountWorkersArgs) -> Result<(), CommandError> {
    let selection = args.selection.selection();
    let Some(dimensions) = &args.group_by else {
        let count = context.client.count_workers(&context.queue, &selection).await?;
        return Ok(context.printer.one(&CountRecord(count))?);
    };
    let words: Vec<&'static str> = dimensions.0.iter().copied().map(WorkerDimension::as_str).collect();
    let query = GroupQuery::by(dimensions.0.iter().copied(), selection);
    print_groups(context, context.client.walk_worker_groups(&context.queue, query), &words).await
}
