//! `taskqueue task update`, `cancel`, `requeue`, `delete`, `archive`, `unarchive` and `rerun`: the commands that change tasks.

use std::path::PathBuf;

use clap::Args;
use taskqueue_core::ids::Route;
use taskqueue_core::task::Status;

use super::selection::{ConditionArgs, SelectionArgs};
use super::submit::SchedulingChangeArgs;
use super::values::{TaskRef, route, status, task_ref};

pub(super) const UPDATE_HELP: &str = "\
Examples:
  taskqueue task update t_lZxL89_zReNB --arg lr=0.01 --arg model.layers=4 --unset-arg resume
  taskqueue task update --filter 'args.model == \"vit\"' --route gpu-large --yes
  taskqueue task update --status failed --max-attempts 5
  taskqueue task update --status failed --arg batch_size=16 --dry-run
  taskqueue task update t_lZxL89_zReNB --no-delay --timeout 2h
  taskqueue task update t_lZxL89_zReNB --after t_jsR8k3J-oVIW

--arg and --meta change the members that they name and keep all others. A dot reaches inside of
an object. An object is merged into the one that is there: --arg 'model={\"layers\": 4}' keeps the
other members of model. Null cannot be set in this way: --unset-arg removes a member, and
--args, which replaces all args, can contain null.

Whatever stands in the way of a dotted key becomes an object: --arg model.layers=4 and --unset-arg
model.layers replace a model that is text. To leave such tasks out, select those that have the
member: --filter 'exists(args.model.layers)'.

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
  taskqueue task requeue --filter 'last_error.type == \"OutOfMemory\"' --arg batch_size=16 --yes

Selected tasks are requeued if they failed or were cancelled; a pending task is requeued only by
id. The command shows their number and asks for confirmation; programs have to give --yes. To
run succeeded tasks again, see taskqueue task rerun.

With --arg and the like each task is changed first and then requeued, so it never runs again
with its old values. If the command is interrupted, a task may have the new values and not be
requeued yet; requeue it again.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const DELETE_HELP: &str = "\
Examples:
  taskqueue task delete t_lZxL89_zReNB
  taskqueue task delete --status succeeded --filter 'finished_at < \"2026-01-01T00:00:00Z\"'

Running tasks are left out. Before selected tasks are deleted, the command shows their number
and asks for confirmation; programs have to give --yes.

Exit code 1 if a named task does not exist or is running, and if tasks match and none of them
was deleted; standard error tells why.";

pub(super) const ARCHIVE_HELP: &str = "\
Examples:
  taskqueue task archive t_lZxL89_zReNB
  taskqueue task archive --status succeeded --filter 'finished_at < \"2026-01-01T00:00:00Z\"'

Archived tasks are kept, but lists, counts and changes of many tasks leave them out unless
--include-archived is given. Only tasks that have ended can be archived; a requeue takes a task out
of the archive. Selected tasks are changed together: all of them or none. Before that, the command
shows their number and asks for confirmation; programs have to give --yes.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const UNARCHIVE_HELP: &str = "\
Examples:
  taskqueue task unarchive t_lZxL89_zReNB
  taskqueue task unarchive --filter 'args.model == \"vit\"' --yes

Selects among archived tasks only. Selected tasks are changed together: all of them or none. Before
that, the command shows their number and asks for confirmation; programs have to give --yes.

Exit code 1 if tasks match and none of them was changed; standard error tells why.";

pub(super) const RERUN_HELP: &str = "\
Examples:
  taskqueue task rerun t_lZxL89_zReNB
  taskqueue task rerun --filter 'status == \"succeeded\" and args.model == \"vit\"'
  ids=$(taskqueue task rerun --status failed --yes --output quiet)
  [ -n \"$ids\" ] && taskqueue task wait $ids             # without ids: all tasks of the queue

The new tasks have what the old ones were submitted with, and random ids, which the command prints.
They can be claimed at once: neither the time nor the tasks that the old ones waited for are taken
over. The old tasks stay as they are. Pending and running tasks are left out.

With --output json the result is a list of {\"old_id\", \"new_id\"}, with quiet the new ids. Running
the command again makes further copies. Ctrl-C ends it and prints those that were made.";

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present_any = ["status", "filter"],
          conflicts_with_all = ["status", "filter"])]
    pub(crate) ids: Vec<TaskRef>,

    /// Change all tasks with this status: pending, succeeded, failed or cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<Status>,

    /// Change all tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'; all of the language:
    /// docs/reference/filter-language.md
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Change archived tasks that match, too
    #[arg(long, conflicts_with = "ids")]
    pub(crate) include_archived: bool,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// Show which tasks would change and how, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl UpdateArgs {
    /// Returns the selection of the tasks, if none is named.
    pub(crate) fn selection(&self) -> SelectionArgs {
        let conditions = ConditionArgs { filter: self.filter.clone(), ..ConditionArgs::default() };
        SelectionArgs { status: self.status, conditions, include_archived: self.include_archived }
    }
}

/// Changes of single members of args and metadata. All others are kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PatchArgs {
    /// Set one member of the args and keep the others (repeatable), such as lr=0.1 or model.layers=2; an object is merged
    /// into the one that is there
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) arg: Vec<String>,

    /// Remove one member of the args (repeatable), such as lr or model.layers; a model that is no object becomes one
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_arg: Vec<String>,

    /// Set one member of the metadata, as --arg does with the args (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) meta: Vec<String>,

    /// Remove one member of the metadata (repeatable)
    #[arg(long, value_name = "KEY")]
    pub(crate) unset_meta: Vec<String>,
}

/// New values for tasks.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) patch: PatchArgs,

    /// Replace all args by this JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) args: Option<String>,

    /// Replace all args by the JSON object in this file; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,

    /// Replace all metadata by this JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,

    /// The new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Remove the name
    #[arg(long, conflicts_with = "name")]
    pub(crate) no_name: bool,

    /// Tasks with a higher priority are claimed first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// How many times the task is attempted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_attempts: Option<i64>,

    /// Workers of this route may claim the task (repeatable); replaces all routes
    #[arg(long = "route", value_name = "ROUTE", value_parser = route)]
    pub(crate) routes: Vec<Route>,

    /// Replace the result by this JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) result: Option<String>,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingChangeArgs,
}

/// Tasks that are named by id, or selected, and whether to ask before they are changed.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// The tasks, by id
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present_any = ["status", "name", "fuzzy", "filter"],
          conflicts_with_all = ["status", "name", "fuzzy", "filter", "include_archived"])]
    pub(crate) ids: Vec<TaskRef>,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) patch: PatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Succeed if a named task does not exist
    #[arg(long)]
    pub(crate) ignore_missing: bool,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
