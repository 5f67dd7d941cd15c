//! `taskqueue task update`, `cancel`, `requeue`, `delete`, `archive`, `unarchive` and `rerun`: the commands that change tasks.

use std::path::PathBuf;

use clap::Args;
use taskqueue_core::ids::Route;
use taskqueue_core::task::Status;

use super::selection::{ConditionArgs, SelectionArgs};
use super::submit::SchedulingChangeArgs;
use super::values::{TaskRef, route, status, task_ref};

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
