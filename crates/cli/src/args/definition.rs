//! Flags for the definition of a task. `json_args.rs` reads the JSON and the files.

use std::path::PathBuf;

use clap::Args;
use taskqueue_core::ids::Route;

use super::values::route;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectArgs {
    /// The args as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) args: Option<String>,

    /// One member of the args (repeatable), such as lr=0.1 or model.layers=2; replaces the same member of --args
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) arg: Vec<String>,

    /// A file with the args as one JSON object; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,
}

impl ObjectArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.args.is_none() && self.arg.is_empty() && self.args_file.is_none()
    }
}

/// The definition without its args.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DefinitionArgs {
    /// The name of the task
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Metadata of the task, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,

    /// Tasks with a higher priority are claimed first (new tasks: 0)
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// How many times the task is attempted (new tasks: 3)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_attempts: Option<i64>,

    /// Workers of this route may claim the task (repeatable; new tasks: default)
    #[arg(long = "route", value_name = "ROUTE", value_parser = route)]
    pub(crate) routes: Vec<Route>,
}
