//! `taskqueue task ...`

mod actions;
mod change;
mod concurrent_calls;
mod dry_run;
mod logs;
mod named_tasks;
mod planned_tasks;
mod rerun;
mod show;
mod submit;
mod wait;

use self::actions::Action;
use self::change::Change;
pub(super) use self::logs::{Cursor, Step};
pub(super) use self::named_tasks::existing;
use crate::args::{DeleteArgs, RequeueArgs, TaskArgs, TaskCommand};
use crate::config::{ClientContext, Retrying};
use crate::failure::{CommandError, Failure};
use crate::json_args;

pub(crate) fn run(args: TaskArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, args.output, retrying(&args.command))?;
    context.run(args.filter.as_deref(), async |context| match &args.command {
        TaskCommand::Submit(args) => submit::run(context, args).await,
        TaskCommand::Sweep(args) => submit::run_sweep(context, args).await,
        TaskCommand::Get { ids } => show::get(context, &named_tasks::ids(context, ids).await?).await,
        TaskCommand::Explain { id } => show::explain(context, named_tasks::id(context, id).await?).await,
        TaskCommand::List(args) if args.watch.is_some() => show::watch(context, args).await,
        TaskCommand::List(args) => show::list(context, args).await,
        TaskCommand::Count(args) => show::count(context, args).await,
        TaskCommand::Update(args) => change::run(context, args).await,
        TaskCommand::Cancel(args) => actions::run(context, Action::new(Change::Cancel, None), args).await,
        TaskCommand::Requeue(args) => requeue(context, args).await,
        TaskCommand::Rerun(args) => rerun::run(context, args).await,
        TaskCommand::Delete(DeleteArgs { target, ignore_missing }) => {
            let action = Action { ignore_missing: *ignore_missing, ..Action::new(Change::Delete, None) };
            actions::run(context, action, target).await
        }
        TaskCommand::Archive(args) => change::archive(context, args, Change::Archive).await,
        TaskCommand::Unarchive(args) => change::archive(context, args, Change::Unarchive).await,
        TaskCommand::Wait(args) => wait::run(context, args).await,
        TaskCommand::Logs(args) => logs::run(context, args).await,
    })
}

/// Requeues tasks, with changes if any are given.
async fn requeue(context: &ClientContext, args: &RequeueArgs) -> Result<(), CommandError> {
    let update = json_args::patches(&args.patch)?;
    let changes = Some(update).filter(|update| update.has_patches());
    if changes.is_some() {
        context.client.require_extensions().await?;
    }
    actions::run(context, Action::new(Change::Requeue, changes), &args.target).await
}

/// Returns how often failed requests are repeated. Bulk submissions, waits and followed output survive a restart of the server (the latter two by their own means); other commands fail soon.
fn retrying(command: &TaskCommand) -> Retrying {
    match command {
        TaskCommand::Submit(args) if args.from.is_some() => Retrying::LongRunning,
        TaskCommand::Sweep(_) | TaskCommand::Rerun(_) => Retrying::LongRunning,
        TaskCommand::Wait(_) => Retrying::NeverButPatient,
        TaskCommand::Logs(args) if args.follow => Retrying::NeverButPatient,
        TaskCommand::List(args) if args.watch.is_some() => Retrying::Never,
        _ => Retrying::Interactive,
    }
}
