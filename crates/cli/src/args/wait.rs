//! `taskqueue task wait`

use std::time::Duration;

use clap::Args;

use super::selection::ConditionArgs;
use super::values::{TaskRef, duration, task_ref};

pub(super) const HELP: &str = "\
Examples:
  taskqueue task wait                                   # all tasks of the queue
  taskqueue task wait --filter 'args.model == \"vit\"' --timeout 2h
  ids=$(taskqueue task rerun --status failed --yes --output quiet)
  [ -n \"$ids\" ] && taskqueue task wait $ids             # without ids: all tasks of the queue
  taskqueue task wait && python report.py               # only if every task succeeded

The command waits until none of the tasks is pending or running. Tasks that match later count, too.

Exit codes: 0 every task succeeded. 1 tasks failed, were cancelled or do not exist; nothing
matches; or the time is over. 3 the server stays away for half a minute, or is away when the
time is over.";

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The tasks, by id [without ids and options: all tasks of the queue]
    #[arg(value_name = "ID", value_parser = task_ref, conflicts_with_all = ["name", "fuzzy", "filter"])]
    pub(crate) ids: Vec<TaskRef>,

    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,

    /// Stop waiting after this time, such as 30s, 5m or 2h; 0 asks once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Succeed if no task matches
    #[arg(long)]
    pub(crate) allow_empty: bool,
}
