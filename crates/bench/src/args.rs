//! The command line: flags and their help. Nothing is started here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::operation::Phase;

/// Measures the taskqueue server against the bare-HTTP limit of this machine.
#[derive(Debug, Parser)]
#[command(name = "taskqueue-bench", version)]
pub(crate) struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take figures, compare them with the reference, and judge them; exit code 1 when a must is missed
    Run(RunArgs),
    /// Take figures at growing numbers of pending tasks
    Backlog(BacklogArgs),
    /// Take figures on PostgreSQL, on a cluster of its own, and compare them with pgbench
    Postgres(PostgresArgs),
    /// Be the reference: print a base URL and answer until standard input ends
    Reference,
}

/// How to take figures.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The server's binary, built for release
    #[arg(long, value_name = "PATH")]
    pub(crate) server: PathBuf,

    /// Only these phases
    #[arg(long, value_enum, value_name = "PHASES", value_delimiter = ',')]
    pub(crate) phases: Vec<Phase>,

    /// These numbers of connections for every phase, instead of the usual ones
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) connections: Vec<u16>,

    /// How many times reference and server take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// Open loop: so many requests per second, whether or not answers come; latencies from the intended start
    #[arg(long, value_name = "REQUESTS_PER_SECOND", value_parser = positive)]
    pub(crate) rate: Option<f64>,

    /// Where the database is put
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) database_dir: PathBuf,

    /// A folder in memory, for figures without the disk; skipped when there is none
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) tmpfs_dir: PathBuf,

    /// How the figures are printed
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// How to let the backlog grow.
#[derive(Debug, Args)]
pub(crate) struct BacklogArgs {
    /// The server's binary, built for release
    #[arg(long, value_name = "PATH")]
    pub(crate) server: PathBuf,

    /// How many tasks are pending; ratios are to the first
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1000,100000,1000000")]
    pub(crate) pending: Vec<u64>,

    /// Where the database is put
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) database_dir: PathBuf,
}

/// How to take figures on PostgreSQL.
#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    /// The server's binary, built for release
    #[arg(long, value_name = "PATH")]
    pub(crate) server: PathBuf,

    /// How many times pgbench and the server take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// How long claims go on without a pause, to see whether they slow down; 0 leaves it out
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) long_seconds: f64,

    /// How many tasks are pending where claims are compared with those at 1,000; 0 leaves it out
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) pending: u64,
}

/// How figures are printed.
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
