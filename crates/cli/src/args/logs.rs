//! `taskqueue task logs`

use clap::Args;

use super::values::{TaskRef, task_ref};

pub(super) const HELP: &str = "\
Examples:
  taskqueue task logs t_lZxL89_zReNB
  taskqueue task logs t_lZxL89_zReNB --tail 20 --follow
  taskqueue task logs t_lZxL89_zReNB --raw > output.log
  taskqueue task logs t_lZxL89_zReNB --output json

The server keeps the last 256 KiB of what the latest run printed (serve --task-output-bytes). If
older output is gone, a note says so, and where the full log is. Workers send the output within
about a second.

--follow goes on while the task waits, runs and is tried again, also while the server restarts, and
ends when the task has ended. On a terminal a progress bar is drawn in place; elsewhere each line
is printed when it is complete.

Lines are shown in the last state of a progress bar, without escape sequences other than colours,
and with colours only on a terminal. --raw prints the bytes as the server has them. A line in
brackets says where bytes are missing; with --raw it goes to standard error.

Formats: json gives one object (attempt, start, end, text, ended, missing_bytes), jsonl one object
for each piece, also with --follow, and quiet the text without notes.

Exit codes: 0 the output was printed, however the task ended (taskqueue task wait tells that). 1 there
is no such task, or the server keeps no output. 3 the server stays away for half a minute.";

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The id of the task
    #[arg(value_name = "ID", value_parser = task_ref)]
    pub(crate) id: TaskRef,

    /// Go on with what is printed later, until the task has ended
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only the last lines of what is kept
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) tail: Option<usize>,

    /// The bytes as they are, with all escape sequences
    #[arg(long)]
    pub(crate) raw: bool,
}
