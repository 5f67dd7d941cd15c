//! `taskqueue-bench`: puts load on the server, compares it with others, and judges. An instrument, never a part of the product. A
//! library for the sake of one test of the binary, which sends the same requests (`shapes`).
//!
//! All figures are rows of one table, `scenarios.rs`: what is prepared, what is sent, what is measured, must and aim. The commands run
//! parts of it: `run` (against bare HTTP), `compare --baseline PATH` (the same rows against another
//! build), `postgres`, `peers`, `shapes`, and `scenarios` (everything else); `--only TEXT` picks rows by their names.

mod beside;
mod client;
mod figures;
mod load;
mod measures;
mod peers;
mod reference;
mod request;
mod scenarios;
mod server;
pub mod shapes;
mod turns;
mod usage;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Args as Flags, Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Runs those who are beside the load. Never dropped, which async code may not do.
static BESIDE: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().unwrap_or_else(|error| panic!("threads cannot be started: {error}")));

/// A measurement that could not be taken says why. A figure that misses its goal is no failure.
type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

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
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,

    /// Prepare so much of every number of tasks, to try a scenario; below 1 nothing but errors is judged
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) scale: f64,
}

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let CommandLine { command, args } = CommandLine::parse();
    let result = match command {
        Command::Reference => reference::run().map(|()| true),
        _ => block_on(scenarios::run(command, args)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            figures::progress(&format!("error: {failure}"));
            // Not 1: nothing was found wanting, there is just no answer.
            ExitCode::from(2)
        }
    }
}

/// Waits for something on this thread.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    LocalSet::new().block_on(&Builder::new_current_thread().enable_all().build()?, work)
}
