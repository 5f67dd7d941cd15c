//! `taskqueue-bench backlog`: what claims, the first page, counts, memory and a restart cost as pending tasks pile up
//! (rows 10, 11, 15 and 16 of the goals). One connection, so that nothing but the server's own work is measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::BacklogArgs;
use crate::client::QueueClient;
use crate::failure::{Failure, Result};
use crate::fill;
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::Operation;
use crate::plots::lines::{self, Series};
use crate::process::{Server, scratch};
use crate::report::{mebibytes, mebibytes_text, milliseconds};
use crate::results::Results;
use crate::usage::Usage;
use crate::{answer_parser, output, plots, table};

/// The backlogs that have goals.
const SMALL: u64 = 1_000;
const LARGE: u64 = 1_000_000;
/// How often the servers take turns, and how many samples of each kind a turn has.
const TURNS: usize = 10;
const SAMPLES: usize = 50;
const QUEUE: &str = "claims";

/// A server with so many pending tasks, and what they cost.
struct Backlog {
    pending: u64,
    database: PathBuf,
    server: Server,
    numbers: Numbers,
    claim: Latencies,
    page: Latencies,
    counts: Latencies,
    filter: Latencies,
    idle_rss_bytes: u64,
    rss_bytes: u64,
    restarted_rss_bytes: u64,
    healthy_after: Duration,
}

/// All servers are filled first and then take turns, so that a busy minute of the machine does not hit only one.
pub(crate) async fn run(args: &BacklogArgs, plots: Option<&Path>) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let mut backlogs = Vec::new();
    for pending in &args.pending {
        output::progress(&format!("preparing {pending} pending tasks"));
        backlogs.push(Backlog::fill(args, scratch.path(), *pending).await?);
    }
    output::progress("measuring");
    for turn in 0..=TURNS {
        for backlog in &mut backlogs {
            if turn == 1 {
                // The first turn was the warm-up.
                (backlog.claim, backlog.page, backlog.counts, backlog.filter) = Default::default();
            }
            backlog.sample().await?;
        }
    }
    let restarted = backlogs.into_iter().map(|backlog| backlog.restart(args)).collect::<Result<Vec<_>>>()?;
    if let Some(folder) = plots {
        draw(folder, &restarted)?;
    }
    let figures = restarted.iter().map(figure_json).collect::<Vec<_>>().into();
    Ok(Results { text: render(&restarted), figures, judged: judge(&restarted) })
}

impl Backlog {
    async fn fill(args: &BacklogArgs, folder: &Path, pending: u64) -> Result<Self> {
        let database = folder.join(format!("backlog-{pending}.db"));
        let server = Server::taskqueue(&args.server.binary, database.as_os_str())?;
        let idle_rss_bytes = Usage::of(server.pid())?.rss_bytes;
        fill::fill(server.address, QUEUE, pending, Rc::default()).await?;
        Ok(Self {
            pending,
            database,
            idle_rss_bytes,
            rss_bytes: Usage::of(server.pid())?.rss_bytes,
            server,
            numbers: Numbers::default(),
            claim: Latencies::default(),
            page: Latencies::default(),
            counts: Latencies::default(),
            filter: Latencies::default(),
            restarted_rss_bytes: 0,
            healthy_after: Duration::ZERO,
        })
    }

    /// Some claims, first pages and counts by status, and one filter, which reads every task. Claimed tasks are
    /// given back at once.
    async fn sample(&mut self) -> Result<()> {
        let mut client = QueueClient::connect(self.server.address, QUEUE).await?;
        for _ in 0..SAMPLES {
            claim(&mut client, self.numbers.next_run(), &mut self.claim).await?;
            read(&mut client, Operation::List, &mut self.page).await?;
            read(&mut client, Operation::CountByStatus, &mut self.counts).await?;
        }
        read(&mut client, Operation::Filter, &mut self.filter).await
    }

    /// Stops the server and starts it again on what it left.
    fn restart(self, args: &BacklogArgs) -> Result<Self> {
        self.server.stop()?;
        let server = Server::taskqueue(&args.server.binary, self.database.as_os_str())?;
        let (restarted_rss_bytes, healthy_after) = (Usage::of(server.pid())?.rss_bytes, server.healthy_after);
        Ok(Self { server, restarted_rss_bytes, healthy_after, ..self })
    }
}

/// Some claims, each given back at once.
pub(crate) async fn claims(
    address: SocketAddr,
    numbers: &Numbers,
    count: usize,
    latency: &mut Latencies,
) -> Result<()> {
    let mut client = QueueClient::connect(address, QUEUE).await?;
    for _ in 0..count {
        claim(&mut client, numbers.next_run(), latency).await?;
    }
    Ok(())
}

/// A claim, given back at once.
async fn claim(client: &mut QueueClient, run: u64, latency: &mut Latencies) -> Result<()> {
    let begin = Instant::now();
    let answer = client.succeed(Operation::Claim, 0, run).await?;
    latency.record(begin.elapsed());
    let task =
        answer_parser::claimed_task(answer.body).ok_or_else(|| Failure::new("a claim found no task".to_owned()))?;
    client.succeed(Operation::Unclaim, task, run).await.map(drop)
}

async fn read(client: &mut QueueClient, operation: Operation, latency: &mut Latencies) -> Result<()> {
    let begin = Instant::now();
    client.succeed(operation, 0, 0).await?;
    latency.record(begin.elapsed());
    Ok(())
}

/// Latencies and memory by backlog.
fn draw(folder: &Path, backlogs: &[Backlog]) -> Result<()> {
    let line = |name: &str, of: &dyn Fn(&Backlog) -> f64| Series {
        name: name.to_owned(),
        points: backlogs.iter().map(|backlog| (backlog.pending as f64, of(backlog))).collect(),
    };
    let millis = |latency: &Latencies| latency.quantile_millis(0.5);
    let latencies = [
        line("first page", &|of| millis(&of.page)),
        line("claim (one sync)", &|of| millis(&of.claim)),
        line("counts by status", &|of| millis(&of.counts)),
    ];
    let title = "median latency by pending tasks, one connection";
    plots::save(folder, "latency-by-backlog.svg", &lines::render(title, "pending tasks", "ms", &latencies))?;
    let memory = [
        line("filled", &|of| mebibytes(of.rss_bytes)),
        line("after a restart", &|of| mebibytes(of.restarted_rss_bytes)),
        line("before", &|of| mebibytes(of.idle_rss_bytes)),
    ];
    let title = "resident memory by pending tasks";
    plots::save(folder, "memory-by-backlog.svg", &lines::render(title, "pending tasks", "MiB", &memory))
}

fn figure_json(backlog: &Backlog) -> Value {
    json!({
        "pending": backlog.pending,
        "claim_p50_nanoseconds": backlog.claim.quantile_nanos(0.5),
        "first_page_p50_nanoseconds": backlog.page.quantile_nanos(0.5),
        "counts_p50_nanoseconds": backlog.counts.quantile_nanos(0.5),
        "filter_p50_nanoseconds": backlog.filter.quantile_nanos(0.5),
        "idle_rss_bytes": backlog.idle_rss_bytes,
        "rss_bytes": backlog.rss_bytes,
        "restarted_rss_bytes": backlog.restarted_rss_bytes,
        "start_to_healthy_seconds": backlog.healthy_after.as_secs_f64(),
    })
}

/// Judges the backlogs that have goals.
fn judge(backlogs: &[Backlog]) -> Vec<Judged> {
    let ends =
        backlogs.iter().find(|small| small.pending == SMALL).zip(backlogs.iter().find(|large| large.pending == LARGE));
    let Some((small, large)) = ends else { return Vec::new() };
    let growth = |of: fn(&Backlog) -> &Latencies| of(large).quantile_millis(0.5) / of(small).quantile_millis(0.5);
    let filtered = LARGE as f64 * 1e3 / large.filter.quantile_millis(0.5);
    let (start, restart) = (small.healthy_after.as_secs_f64(), large.healthy_after.as_secs_f64());
    vec![
        Judged::at_most(10, "claim p50, 1,000,000 pending over 1,000", growth(|of| &of.claim), 1.25, 1.05),
        Judged::at_most(10, "first page, 1,000,000 pending over 1,000", growth(|of| &of.page), 1.5, 1.1),
        Judged::at_most(10, "counts by status, 1,000,000 pending over 1,000", growth(|of| &of.counts), 1.5, 1.1),
        Judged::at_least(11, "filter on args, tasks/s per core", filtered, 500_000.0, 2_000_000.0),
        Judged::at_most(15, "RSS idle, MiB", mebibytes(small.idle_rss_bytes), 30.0, 12.0),
        Judged::at_most(15, "RSS with 1,000,000 pending, MiB", mebibytes(large.rss_bytes), 128.0, 90.0),
        Judged::at_most(16, "start to healthy, 1,000 pending, s", start, 0.1, 0.03),
        Judged::at_most(16, "start to healthy, 1,000,000 pending, s", restart, 2.0, 0.5),
    ]
}

fn render(backlogs: &[Backlog]) -> String {
    let heading = [
        "pending",
        "claim p50 ms",
        "over first",
        "first page",
        "over first",
        "counts",
        "over first",
        "RSS MiB idle",
        "filled",
        "restarted",
        "start to healthy ms",
        "filtered tasks/s",
    ];
    let rows: Vec<Vec<String>> = backlogs.iter().map(|backlog| row(backlog, backlogs.first())).collect();
    table::render(&heading, &rows, 0)
}

fn row(backlog: &Backlog, first: Option<&Backlog>) -> Vec<String> {
    let mut row = vec![backlog.pending.to_string()];
    for latency in [
        |of: &Backlog| of.claim.quantile_nanos(0.5),
        |of: &Backlog| of.page.quantile_nanos(0.5),
        |of: &Backlog| of.counts.quantile_nanos(0.5),
    ] {
        let (here, there) = (latency(backlog), first.map_or(0, latency));
        row.extend([milliseconds(here), format!("{:.2}", here as f64 / there as f64)]);
    }
    row.extend([backlog.idle_rss_bytes, backlog.rss_bytes, backlog.restarted_rss_bytes].map(mebibytes_text));
    row.push(format!("{:.0}", backlog.healthy_after.as_secs_f64() * 1000.0));
    row.push(format!("{:.0}", backlog.pending as f64 * 1e3 / backlog.filter.quantile_millis(0.5)));
    row
}
