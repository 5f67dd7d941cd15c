//! `taskqueue health`

use clap::Args;

use super::connection::{ConnectionArgs, OutputArgs};

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
