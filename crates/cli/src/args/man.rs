//! `taskqueue man`

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}
