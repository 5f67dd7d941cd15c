//! `taskqueue health`

use clap::Args;

use super::connection::{ConnectionArgs, OutputArgs};

pub(super) const HELP: &str = "\
Examples:
  taskqueue health
  taskqueue health --url https://queue.example --output quiet    # ok or error

Exit codes: 0 the server and its database work, 1 they do not, 3 the server was not reached.";

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
