//! `taskqueue worker ...`

use taskqueue_client::{GroupQuery, WorkerDimension};

use super::client_runtime;
use super::print_pages::{print_groups, print_items};
use crate::args::{CountWorkersArgs, ListWorkersArgs, WorkerArgs, WorkerCommand};
use crate::failure::{CommandError, Failure};
use crate::output::CountRecord;
use crate::session::{Retrying, Session};

pub(crate) fn run(args: WorkerArgs) -> Result<(), Failure> {
    let session = Session::open(&args.connection, &args.queue, args.output, Retrying::Interactive)?;
    client_runtime::run(&session, args.command.filter(), async |session| match &args.command {
        WorkerCommand::List(args) => list(session, args).await,
        WorkerCommand::Count(args) => count(session, args).await,
    })
}

async fn list(session: &Session, args: &ListWorkersArgs) -> Result<(), CommandError> {
    let walk = session.client.walk_workers(&session.queue, args.selection.query(args.limit));
    print_items(session, walk, args.limit, "workers").await
}

async fn count(session: &Session, args: &CountWorkersArgs) -> Result<(), CommandError> {
    let selection = args.selection.selection();
    let Some(dimensions) = &args.group_by else {
        let count = session.client.count_workers(&session.queue, &selection).await?;
        return Ok(session.printer.one(&CountRecord(count))?);
    };
    let words: Vec<&'static str> = dimensions.0.iter().copied().map(WorkerDimension::as_str).collect();
    let query = GroupQuery::by(dimensions.0.iter().copied(), selection);
    print_groups(session, session.client.walk_worker_groups(&session.queue, query), &words).await
}
