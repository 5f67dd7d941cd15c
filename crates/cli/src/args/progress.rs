//! `taskqueue progress`

use clap::Args;

pub(super) const HELP: &str = "\
Examples:
  taskqueue progress step=120 total=1000 loss=0.31
  taskqueue progress percent=12.5 phase=warm-up
  taskqueue progress --json '{\"step\": 120, \"total\": 1000}'

For the command of a taskqueue loop. It writes one JSON object to the file that the worker names in
TASKQUEUE_PROGRESS_FILE, in place of what was there; the worker sends it to the server within two
seconds. A program can write that file itself. The task then shows it: taskqueue task get shows a
bar for step and total, or for percent, and taskqueue task list --columns id,progress.loss a column.

A value is JSON if it is valid JSON, and text otherwise, as in task submit --arg.

Exit codes: 0 written, 1 the file cannot be written, 2 wrong arguments, or not inside a run.";

#[derive(Debug, Args)]
pub(crate) struct ProgressArgs {
    /// One member of the progress, such as step=120; replaces the same member of --json
    #[arg(value_name = "KEY=VALUE", required_unless_present = "json")]
    pub(crate) members: Vec<String>,

    /// The progress as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
}
