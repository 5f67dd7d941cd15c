//! The command line: flags and their help. Nothing is started here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::operation::Phase;
use crate::peers::Peer;
use crate::shapes::{Engine, Size};

/// Measures the taskqueue server against the bare-HTTP limit of this machine.
#[derive(Debug, Parser)]
#[command(name = "taskqueue-bench", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// How the figures are printed
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    pub(crate) output: Output,

    /// Draw plots of the figures into this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take figures, compare them with the reference, and judge them; exit code 1 when a must is missed
    Run(RunArgs),
    /// Take figures at growing numbers of pending tasks
    Backlog(BacklogArgs),
    /// Take figures on PostgreSQL, on a cluster of its own, and compare them with pgbench
    Postgres(PostgresArgs),
    /// Open 10,000 connections, let claims wait on them and followers of output, and see how soon a new task is picked up
    Wait(WaitArgs),
    /// Let a worker run `true`, and compare it with a loop that only starts and reaps it
    Work(WorkArgs),
    /// Split the cost of a request into HTTP, rules, storage and sync
    Cost(CostArgs),
    /// Do the same work on what users would pick instead, as far as scripts/install-bench-peers has installed it
    Peers(PeersArgs),
    /// Cancel many pending tasks by one bulk action, and see how long another client waits meanwhile
    Bulk(BulkArgs),
    /// Let `task submit --from` create the tasks of a file, and compare it with batches
    Submit(SubmitArgs),
    /// Finish many tasks, start again, and compare with a server that has no history
    History(HistoryArgs),
    /// Let workers send output and progress, see what claims keep of their throughput, and how soon followers have a line
    RunOutput(RunOutputArgs),
    /// Ask for the pages of the dashboard with many tasks, and see what claims keep of their throughput beside open ones
    Dashboard(DashboardArgs),
    /// Ask for the metrics of many queues with many tasks
    Scrape(ScrapeArgs),
    /// Compare single requests with another build of the server
    Compare(CompareArgs),
    /// Compare claim-complete with TLS and without
    Tls(TlsArgs),
    /// Compare claim-complete beside delayed tasks, tasks in chains and a retention with the same beside nothing
    Waiting(WaitingArgs),
    /// Complete a task for which many others wait, on SQLite and on PostgreSQL, and see how soon all of them can be claimed
    Dependents(DependentsArgs),
    /// Send the largest request of every kind, alone and by 32 clients, to servers that may use 256 MiB, on SQLite and on PostgreSQL
    Shapes(ShapesArgs),
    /// Be the reference: print a base URL and answer until standard input ends
    Reference,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

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

    /// A folder in memory, for figures without the disk; skipped when there is none
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) tmpfs_dir: PathBuf,
}

/// What is measured, and where.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server's binary, built for release
    #[arg(long = "server", value_name = "PATH")]
    pub(crate) binary: PathBuf,

    /// Where databases and other files are put
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) database_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BacklogArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks are pending; ratios are to the first
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1000,100000,1000000")]
    pub(crate) pending: Vec<u64>,
}

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

    /// How many tasks are completed before claims are compared with those at 1,000 again; 0 leaves it out
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) completed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many connections are idle, how many claims wait, heartbeats are held and followers wait
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) connections: u16,

    /// How many tasks are created one after the other to see how soon they are picked up
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) pickups: u32,

    /// For how long the CPU of waiting claims is measured; they wait for 30 seconds at most
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks a worker runs in one turn
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,

    /// How many tasks it runs at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) slots: u16,

    /// How many times the bare loop and the worker take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// For how long the CPU of an idle worker is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many times reference, server in memory and server on disk take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// A folder in memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) tmpfs_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PeersArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Where scripts/install-bench-peers has put what it installed
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    pub(crate) peers_dir: PathBuf,

    /// Only these
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',')]
    pub(crate) peers: Vec<Peer>,

    /// Over how many connections, or with how many calls under way at once
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "64,1")]
    pub(crate) connections: Vec<u16>,

    /// How many times all take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long creations are measured, and then pairs
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks are cancelled
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tasks: u64,

    /// How often; the rate is a median, the waits are those of all rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many lines the file has
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lines: u64,

    /// How many times batches and the command take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long batches are measured
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks are finished; 10,000,000 take some 6 GiB
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) finished: u64,

    /// How many are created at a time before they are claimed and completed
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ScrapeArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many queues there are
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) queues: u64,

    /// How many tasks are pending, in all queues together
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) tasks: u64,

    /// How many times the metrics are asked for
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) scrapes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks the queue has
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(3..))]
    pub(crate) tasks: u64,

    /// How many times each page is asked for
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: u32,

    /// How many pages are open beside claims
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) viewers: u16,

    /// How many times claims are measured alone and beside the viewers; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct RunOutputArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many workers send 1 KiB of output and a progress report per second
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: u16,

    /// How many tasks are followed
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) followers: u16,

    /// How many tasks were finished before
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) finished: u64,

    /// How many times claims are measured alone and beside the workers; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// The binary of the other build
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: PathBuf,

    /// How many times both take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct WaitingArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many delayed tasks one of the servers has
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) delayed: u64,

    /// How many tasks in chains one of the servers has
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) chained: u64,

    /// How many times all take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct DependentsArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// How many tasks wait for one
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) dependents: u64,

    /// How many times it is done on each; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShapesArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Only on these
    #[arg(long, value_enum, value_name = "ENGINES", value_delimiter = ',', default_value = "sqlite,postgres")]
    pub(crate) engines: Vec<Engine>,

    /// As large as the contract allows, or as small as in the tests
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = Size::Full)]
    pub(crate) size: Size,

    /// Only those whose method and path contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
}

#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Over how many connections, which are kept
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "64,16,1")]
    pub(crate) connections: Vec<u16>,

    /// How many times both take turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long each turn is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = positive)]
    pub(crate) seconds: f64,
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
