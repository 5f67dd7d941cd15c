//! `taskqueue task ...`: one file per kind of command.

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
use crate::session::{Patience, Session};

pub(crate) use self::show::{print_groups, print_walk};

pub(crate) fn run(args: TaskArgs) -> Result<(), Failure> {
    let session = Session::open(&args.connection, &args.queue, args.output, patience(&args.command))?;
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

/// A submission or a wait outlives a restart of the server; elsewhere somebody waits for the answer.
fn patience(command: &TaskCommand) -> Patience {
    match command {
        TaskCommand::Submit(args) if args.from.is_some() => Patience::Long,
        TaskCommand::Sweep(_) | TaskCommand::Wait(_) => Patience::Long,
        TaskCommand::List(args) if args.watch.watch.is_some() => Patience::None,
        _ => Patience::Brief,
    }
}
