//! Flags that say what a task is to be. Reading the files and the JSON that they name is done in `json_args.rs`.

use std::path::PathBuf;

use clap::Args;
use taskqueue_core::ids::Route;

use super::values::route;

/// The args of a task.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectArgs {
    /// The args as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    pub(crate) args: Option<String>,

    /// One member of the args (repeatable); wins over the same member of --args
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) arg: Vec<String>,

    /// A file with the args as one JSON object; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,
}

impl ObjectArgs {
    /// Whether no args are given at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.args.is_none() && self.arg.is_empty() && self.args_file.is_none()
    }
}

/// What a new task is to be, apart from its args.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DefinitionArgs {
    /// A name for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What to keep with the task, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,

    /// Higher is claimed first [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,

    /// How often the task is tried [default: 3]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_attempts: Option<i64>,

    /// Who may claim it (repeatable) [default: default]
    #[arg(long = "route", value_name = "ROUTE", value_parser = route)]
    pub(crate) routes: Vec<Route>,
}

/// New values for tasks; every object and list replaces the old one completely.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "change")]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArgs,

    #[command(flatten)]
    pub(crate) definition: DefinitionArgs,

    /// Take the name away
    #[arg(long, conflicts_with = "name")]
    pub(crate) no_name: bool,

    /// The result, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) result: Option<String>,
}
