//! `taskqueue task ...`

mod actions;
mod archive;
mod awaited_tasks;
mod bulk_change;
mod bulk_requests;
mod concurrent_calls;
mod create_many;
mod creation_calls;
mod dry_run;
mod explain;
mod jsonl;
mod list;
mod loaded_tasks;
mod logs;
mod named_tasks;
mod one_action;
mod outage;
mod planned_task;
mod refusals;
mod rerun;
mod show;
mod submit;
mod sweep;
mod update;
mod update_preview;
mod wait;
mod watch;

use self::actions::Action;
pub(super) use self::logs::{Cursor, Step};
use super::client_runtime;
use crate::args::{RequeueArgs, TaskArgs, TaskCommand};
use crate::change_args;
use crate::client_context::{ClientContext, Retrying};
use crate::failure::{CommandError, Failure};

pub(crate) fn run(args: TaskArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &args.queue, args.output, retrying(&args.command))?;
    client_runtime::run(&context, args.command.filter(), async |context| match &args.command {
        TaskCommand::Submit(args) => submit::run(context, args).await,
        TaskCommand::Sweep(args) => sweep::run(context, args).await,
        TaskCommand::Get(args) => show::get(context, &named_tasks::ids(context, &args.ids).await?).await,
        TaskCommand::Explain(args) => explain::run(context, named_tasks::id(context, &args.id).await?).await,
        TaskCommand::List(args) if args.watch.watch.is_some() => watch::run(context, args).await,
        TaskCommand::List(args) => list::list(context, args).await,
        TaskCommand::Count(args) => list::count(context, args).await,
        TaskCommand::Update(args) => update::run(context, args).await,
        TaskCommand::Cancel(args) => actions::run(context, Action::Cancel, &args.target, args.confirm).await,
        TaskCommand::Requeue(args) => requeue(context, args).await,
        TaskCommand::Rerun(args) => rerun::run(context, args).await,
        TaskCommand::Delete(args) => {
            let action = Action::Delete { ignore_missing: args.ignore_missing };
            actions::run(context, action, &args.target, args.confirm).await
        }
        TaskCommand::Archive(args) => archive::run(context, args, true).await,
        TaskCommand::Unarchive(args) => archive::run(context, args, false).await,
        TaskCommand::Wait(args) => wait::run(context, args).await,
        TaskCommand::Logs(args) => logs::run(context, args).await,
    })
}

/// With changes, if any are given.
async fn requeue(context: &ClientContext, args: &RequeueArgs) -> Result<(), CommandError> {
    let update = change_args::patches(&args.patch)?;
    let changes = update.has_patches().then(|| update.into());
    if changes.is_some() {
        context.client.require_extensions().await?;
    }
    actions::run(context, Action::Requeue(changes), &args.target, args.confirm).await
}

/// Bulk submissions, waits and followed output survive a restart of the server (the latter two by their own means); other commands fail soon.
fn retrying(command: &TaskCommand) -> Retrying {
    match command {
        TaskCommand::Submit(args) if args.from.is_some() => Retrying::LongRunning,
        TaskCommand::Sweep(_) | TaskCommand::Rerun(_) => Retrying::LongRunning,
        TaskCommand::Wait(_) => Retrying::NeverButPatient,
        TaskCommand::Logs(args) if args.follow => Retrying::NeverButPatient,
        TaskCommand::List(args) if args.watch.watch.is_some() => Retrying::Never,
        _ => Retrying::Interactive,
    }
}
