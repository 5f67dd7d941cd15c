//! `taskqueue health`

use clap::Args;

use super::connection::{ConnectionArgs, OutputArgs};

/// The health of the server.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
