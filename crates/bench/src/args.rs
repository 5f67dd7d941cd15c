//! The command line: commands, flags and their help. Nothing is started here.

use std::path::PathBuf;

use clap::{Args as Flags, Parser, Subcommand, ValueEnum};

/// Measures the taskqueue server. Every command runs rows of one table of scenarios; exit code 1 when a must is missed.
#[derive(Debug, Parser)]
#[command(name = "taskqueue-bench", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) args: Args,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Compare the server with the bare-HTTP limit of this machine
    Run,
    /// Do what `run` does with another build of the server (--baseline) instead of the reference
    Compare,
    /// Do the same work on what users would pick instead, as far as scripts/install-bench-peers has installed it
    Peers,
    /// Take figures on PostgreSQL, on a cluster of its own, and compare them with pgbench
    Postgres,
    /// Send the largest request of every kind, alone and by 32 clients, to servers that may use 256 MiB, on SQLite and on PostgreSQL
    Shapes,
    /// Take all other figures: backlogs, history, waiting, output, the worker, bulk actions, TLS, metrics, the dashboard
    Scenarios,
    /// Print the table of scenarios
    List,
    /// Be the reference: print a base URL and answer until standard input ends
    Reference,
}

#[derive(Clone, Debug, Flags)]
pub(crate) struct Args {
    /// The server's binary, built for release
    #[arg(long = "server", global = true, value_name = "PATH", default_value = "target/release/taskqueue")]
    pub(crate) binary: PathBuf,

    /// The binary of another build, for `compare`
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) baseline: Option<PathBuf>,

    /// Where databases and other files are put
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) database_dir: PathBuf,

    /// A folder in memory, for figures without the disk
    #[arg(long, global = true, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) tmpfs_dir: PathBuf,

    /// Where scripts/install-bench-peers has put what it installed
    #[arg(long, global = true, value_name = "DIR", default_value = "target/bench-peers")]
    pub(crate) peers_dir: PathBuf,

    /// Only the scenarios whose name contains this; of shapes, those whose method and path do
    #[arg(long, global = true, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,

    /// These numbers of connections for every scenario that takes turns, instead of its own
    #[arg(long, global = true, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) connections: Vec<u16>,

    /// How many times those who are compared take turns; figures are medians
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// How long each turn is measured
    #[arg(long, global = true, value_name = "SECONDS", value_parser = positive)]
    pub(crate) seconds: Option<f64>,

    /// Prepare so much of every number of tasks, to try a scenario; below 1 nothing but errors is judged
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 1.0, value_parser = positive)]
    pub(crate) scale: f64,

    /// How the figures are printed
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables for people
    Text,
    /// One object for machines
    Json,
}

fn positive(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0).ok_or("must be a number above 0")
}
