//! `taskqueue task wait`

use std::time::Duration;

use clap::Args;
use taskqueue_client::TaskSelection;
use taskqueue_core::ids::TaskId;

use super::values::{duration, task_id};

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
    #[arg(value_name = "ID", value_parser = task_id, conflicts_with_all = ["name", "fuzzy", "filter"])]
    pub(crate) ids: Vec<TaskId>,

    /// Only tasks with exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Only tasks whose name contains the letters of each word in this order, such as 'res50 cifar'
    #[arg(long, value_name = "WORDS")]
    pub(crate) fuzzy: Option<String>,

    /// Only tasks that match this filter, such as 'args.lr < 0.1 and "gpu" in routes'
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Stop waiting after this time, such as 30s, 5m or 2h; 0 asks once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Succeed if no task matches
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

impl WaitArgs {
    pub(crate) fn selection(&self) -> TaskSelection {
        let mut selection = TaskSelection::all();
        if let Some(name) = &self.name {
            selection = selection.name(name);
        }
        if let Some(words) = &self.fuzzy {
            selection = selection.name_fuzzy(words);
        }
        if let Some(filter) = &self.filter {
            selection = selection.filter(filter);
        }
        selection
    }
}
