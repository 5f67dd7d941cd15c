//! `taskqueue task update`, `cancel`, `requeue`, `delete` and `rerun`.

use clap::Args;
use taskqueue_core::ids::TaskId;
use taskqueue_core::task::Status;

use super::definition::ChangeArgs;
use super::selection::TargetArgs;
use super::values::{status, task_id};

pub(super) const UPDATE_HELP: &str = "\
Examples:
  taskqueue task update t_lZxL89_zReNB --priority 5
  taskqueue task update --filter 'args.model == \"vit\"' --route gpu-large --yes
  taskqueue task update --status failed --max-attempts 5

Running tasks are left out. Selected tasks are changed together: all of them or none. Before
that, the command shows their number and asks for confirmation; programs have to give --yes.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const CANCEL_HELP: &str = "\
Examples:
  taskqueue task cancel t_lZxL89_zReNB
  taskqueue task cancel --filter 'args.seed > 3' --yes

Before selected tasks are cancelled, the command shows their number and asks for confirmation;
programs have to give --yes. Tasks that have ended are left out.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const REQUEUE_HELP: &str = "\
Examples:
  taskqueue task requeue t_lZxL89_zReNB
  taskqueue task requeue --status failed
  taskqueue task requeue --filter 'last_error.type == \"OutOfMemory\"' --yes

Selected tasks are requeued if they failed or were cancelled; a pending task is requeued only by
id. The command shows their number and asks for confirmation; programs have to give --yes. To
run succeeded tasks again, see taskqueue task rerun.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const DELETE_HELP: &str = "\
Examples:
  taskqueue task delete t_lZxL89_zReNB
  taskqueue task delete --status succeeded --filter 'finished_at < \"2026-01-01T00:00:00Z\"'

Running tasks are left out. Before selected tasks are deleted, the command shows their number
and asks for confirmation; programs have to give --yes.

Exit code 1 if a named task does not exist or is running, and if tasks match and none of them
was deleted; standard error tells why.";

pub(super) const RERUN_HELP: &str = "\
Examples:
  taskqueue task rerun t_lZxL89_zReNB
  taskqueue task rerun --filter 'status == \"succeeded\" and args.model == \"vit\"'
  taskqueue task wait $(taskqueue task rerun --status failed --yes --output quiet)

The new tasks have the name, args, metadata, priority, max_attempts and routes of the old ones,
and random ids, which the command prints. The old tasks stay as they are. Pending and running
tasks are left out.

With --output json the result is a list of {\"old_id\", \"new_id\"}, with quiet the new ids. Running
the command again makes further copies.";

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_id, required_unless_present_any = ["status", "filter"],
          conflicts_with_all = ["status", "filter"])]
    pub(crate) ids: Vec<TaskId>,

    /// Change all tasks with this status: pending, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    /// Change all tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Succeed if a named task does not exist
    #[arg(long)]
    pub(crate) ignore_missing: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
