//! `taskqueue task ...`

mod actions;
mod concurrent_calls;
mod create_many;
mod jsonl;
mod show;
mod submit;
mod sweep;
mod update;
mod wait;
mod watch;

use super::client_runtime;
use crate::args::{TaskArgs, TaskCommand};
use crate::failure::Failure;
use crate::session::{Retrying, Session};

pub(crate) fn run(args: TaskArgs) -> Result<(), Failure> {
    let session = Session::open(&args.connection, &args.queue, args.output, retrying(&args.command))?;
    client_runtime::run(&session, args.command.filter(), async |session| match &args.command {
        TaskCommand::Submit(args) => submit::run(session, args).await,
        TaskCommand::Sweep(args) => sweep::run(session, args).await,
        TaskCommand::Get(args) => show::get(session, args.id).await,
        TaskCommand::List(args) if args.watch.watch.is_some() => watch::run(session, args).await,
        TaskCommand::List(args) => show::list(session, args).await,
        TaskCommand::Count(args) => show::count(session, args).await,
        TaskCommand::Update(args) => update::run(session, args).await,
        TaskCommand::Cancel(args) => actions::run(session, actions::Action::Cancel, args).await,
        TaskCommand::Requeue(args) => actions::run(session, actions::Action::Requeue, args).await,
        TaskCommand::Delete(args) => actions::run(session, actions::Action::Delete, args).await,
        TaskCommand::Wait(args) => wait::run(session, args).await,
    })
}

/// Bulk submissions and waits survive a restart of the server; other commands fail soon.
fn retrying(command: &TaskCommand) -> Retrying {
    match command {
        TaskCommand::Submit(args) if args.from.is_some() => Retrying::LongRunning,
        TaskCommand::Sweep(_) | TaskCommand::Wait(_) => Retrying::LongRunning,
        TaskCommand::List(args) if args.watch.watch.is_some() => Retrying::Never,
        _ => Retrying::Interactive,
    }
}
