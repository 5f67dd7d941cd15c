//! `taskqueue-bench postgres`: the server on PostgreSQL, against PostgreSQL's own benchmark on the same cluster in the
//! same minute; what a claim costs as pending tasks pile up; and whether claims slow down while rows die.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use taskqueue_test_postgres::{Cluster, Database, program};

use crate::args::PostgresArgs;
use crate::backlog::claims;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::load::{self, Load, Measured};
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::Server;
use crate::results::Results;
use crate::{fill, output, pickup, run_output, table};

const CONNECTIONS: usize = 64;
/// Where batches are measured.
const BATCH_CONNECTIONS: usize = 16;
const WARM_UP: Duration = Duration::from_millis(300);
/// Windows of the long run, of which the first is compared with the last.
const WINDOWS: u32 = 6;
/// Turns and claims in each, where backlogs are compared.
const TURNS: usize = 10;
const SAMPLES: usize = 50;
/// The backlog that others are compared with.
const FEW: u64 = 1_000;
/// Tasks that are picked up across servers.
const PICKUPS: u32 = 500;
/// Tasks that are followed across servers, and for how long.
const FOLLOWED: usize = 16;
const FOLLOWING: Duration = Duration::from_secs(20);
/// How long tasks are completed at a time, until enough are.
const COMPLETING_SECONDS: f64 = 10.0;

/// A server on a database of its own.
struct MeasuredServer {
    server: Server,
    numbers: Rc<Numbers>,
    // Dropped after the server that uses it.
    database: Database,
}

/// Measures everything that was asked for; tables of it, and how it stands to the goals.
pub(crate) async fn run(args: &PostgresArgs) -> Result<Results> {
    let cluster = Cluster::private();
    let mut results = throughput(args, &cluster).await?;
    results.add("pickup_nanoseconds", across_servers(args, &cluster).await?);
    if let Some(followed) = followed_across_servers(args, &cluster).await? {
        results.add("follow_nanoseconds", followed);
    }
    if args.long_seconds > 0.0 {
        results.add("long_run", long_run(args, &cluster).await?);
    }
    if args.pending > 0 || args.completed > 0 {
        results.add("backlog", backlog(args, &cluster).await?);
    }
    Ok(results)
}

impl Results {
    /// Adds what another part of the measurement found.
    fn add(&mut self, name: &str, part: Self) {
        self.text.push_str(&format!("\n\n{}", part.text));
        self.figures[name] = part.figures;
        self.judged.extend(part.judged);
    }
}

/// Rates of one number of connections, all rounds.
#[derive(Default)]
struct Rates {
    transactions: Vec<f64>,
    created: Vec<f64>,
    pairs: Vec<f64>,
    /// By batches, at one number of connections and only if the server has them.
    batch_created: Vec<f64>,
    batch_pairs: Vec<f64>,
}

impl Rates {
    /// In the order of the rows; NaN of what was not measured.
    fn medians(self) -> [f64; 5] {
        [self.transactions, self.created, self.pairs, self.batch_created, self.batch_pairs].map(median)
    }
}

/// Creations and pairs of claim and complete against `pgbench -N`, in turns, with many clients and with one.
async fn throughput(args: &PostgresArgs, cluster: &Cluster) -> Result<Results> {
    let yardstick = cluster.database();
    pgbench(&yardstick, &["-i", "-q", "-s", "10"])?;
    let subject = MeasuredServer::start(args, cluster)?;
    let batches = fill::has_batches(subject.server.address).await?;
    let mut rates = [(CONNECTIONS, Rates::default()), (BATCH_CONNECTIONS, Rates::default()), (1, Rates::default())];
    for round in 1..=args.rounds {
        output::progress(&format!("round {round} of {}: pgbench -N, creations, claim+complete", args.rounds));
        for (connections, rates) in &mut rates {
            let (seconds, clients) = (args.seconds.ceil().to_string(), connections.to_string());
            let threads = if *connections == 1 { "1" } else { "2" };
            let stdout = pgbench(&yardstick, &["-N", "-c", &clients, "-j", threads, "-M", "prepared", "-T", &seconds])?;
            rates.transactions.push(tps(&stdout).ok_or_else(|| Failure::new(format!("pgbench printed: {stdout}")))?);
            rates.created.push(subject.load(Phase::Create, *connections, args.seconds).await?.rate());
            subject.prepare(rates.pairs.iter().copied().fold(10_000.0, f64::max) * (args.seconds + 1.0)).await?;
            rates.pairs.push(subject.load(Phase::ClaimComplete, *connections, args.seconds).await?.pairs_rate());
            if batches && *connections == BATCH_CONNECTIONS {
                rates.batch_created.push(subject.load(Phase::BatchCreate, *connections, args.seconds).await?.rate());
                subject
                    .prepare(rates.batch_pairs.iter().copied().fold(30_000.0, f64::max) * (args.seconds + 1.0))
                    .await?;
                let pairs = subject.load(Phase::BatchClaimComplete, *connections, args.seconds).await?.pairs_rate();
                rates.batch_pairs.push(pairs);
            }
        }
    }
    let [many, some, one] = rates.map(|(connections, rates)| (connections, rates.medians()));
    let mut judged = vec![
        over(many.1, 2, "pairs at 64 connections over pgbench -N with 64 clients", 0.5, 1.2),
        over(many.1, 1, "creations at 64 connections over pgbench -N with 64 clients", 0.8, 2.0),
        over(one.1, 2, "pairs at 1 connection over pgbench -N with 1 client", 0.3, 0.5),
    ];
    if batches {
        let what = "PostgreSQL: pairs by batches of 100 at 16 connections over pgbench -N with 16 clients";
        judged.push(Judged::at_least(22, what, some.1[4] / some.1[0], 1.6, 2.5));
    }
    let rows: Vec<Vec<String>> = [many, some, one].into_iter().flat_map(rows).collect();
    let figures = json!({ "throughput": ([many, some, one].map(throughput_json)) });
    let heading = ["what", "connections", "per second", "over pgbench -N"];
    Ok(Results { text: table::render(&heading, &rows, 1), figures, judged })
}

fn over(rates: [f64; 5], of: usize, what: &str, must: f64, aim: f64) -> Judged {
    Judged::at_least(12, &format!("PostgreSQL: {what}"), rates[of] / rates[0], must, aim)
}

fn rows((connections, rates): (usize, [f64; 5])) -> Vec<Vec<String>> {
    let row = |(what, rate): (&str, f64)| {
        vec![what.to_owned(), connections.to_string(), format!("{rate:.0}"), format!("{:.2}", rate / rates[0])]
    };
    let what = ["pgbench -N", "creations", "claim+complete pairs", "creations by batches", "pairs by batches"];
    // Batches are not measured everywhere.
    what.into_iter().zip(rates).filter(|(_, rate)| !rate.is_nan()).map(row).collect()
}

fn throughput_json((connections, rates): (usize, [f64; 5])) -> Value {
    let [transactions, created, pairs, batch_created, batch_pairs] = rates;
    json!({
        "connections": connections,
        "pgbench_transactions_per_second": transactions,
        "creations_per_second": created,
        "pairs_per_second": pairs,
        "batch_creations_per_second": batch_created,
        "batch_pairs_per_second": batch_pairs,
    })
}

/// Tasks that one server creates for claims that wait at another.
async fn across_servers(args: &PostgresArgs, cluster: &Cluster) -> Result<Results> {
    let subject = MeasuredServer::start(args, cluster)?;
    let other = Server::taskqueue(&args.server, subject.database.url().as_ref())?;
    let latency = pickup::pickups((subject.server.address, other.address), PICKUPS, &subject.numbers).await?;
    let judged = vec![pickup::judge(&latency, "PostgreSQL: picked up at another server, p99 ms", 50.0)];
    let text = format!("across two servers: {}", pickup::text(&latency));
    Ok(Results { text, figures: pickup::json(&latency), judged })
}

/// What runs send to one server and others follow at another; nothing if the servers keep no output.
async fn followed_across_servers(args: &PostgresArgs, cluster: &Cluster) -> Result<Option<Results>> {
    let MeasuredServer { server, numbers, database } = MeasuredServer::start(args, cluster)?;
    let other = Server::taskqueue(&args.server, database.url().as_ref())?;
    if !run_output::missing_features(&server).await?.is_empty() {
        return Ok(None);
    }
    output::progress(&format!("{FOLLOWED} tasks that are followed at another server"));
    let printers = run_output::running_tasks(&server, FOLLOWED, run_output::PIECE_BYTES, &numbers).await?;
    let latency = run_output::followed((server.address, other.address), printers, FOLLOWING).await?;
    // The worker may hold a line back for a second, and the follower is to have it after 3.
    let what = "PostgreSQL: a follower at another server has what was sent, p99 ms";
    let judged = vec![Judged::at_most(32, what, latency.quantile_millis(0.99), 2_000.0, 1_500.0)];
    let text = format!("across two servers: {}", run_output::follow_text(&latency));
    Ok(Some(Results { text, figures: pickup::json(&latency), judged }))
}

/// Claims and completions without a pause, in windows: rows die all the while.
async fn long_run(args: &PostgresArgs, cluster: &Cluster) -> Result<Results> {
    let subject = MeasuredServer::start(args, cluster)?;
    let probe = subject.prepare(20_000.0).await.map(|()| subject.load(Phase::ClaimComplete, CONNECTIONS, 1.0))?.await?;
    let wanted = probe.rate() / 2.0 * 1.5 * args.long_seconds;
    output::progress(&format!("preparing {wanted:.0} tasks for the long run"));
    subject.prepare(wanted).await?;
    let mut rates = Vec::new();
    for window in 1..=WINDOWS {
        output::progress(&format!("long run, window {window} of {WINDOWS}"));
        let seconds = args.long_seconds / f64::from(WINDOWS);
        rates.push(subject.load(Phase::ClaimComplete, CONNECTIONS, seconds).await?.rate() / 2.0);
    }
    let row = |(window, rate): (usize, &f64)| vec![(window + 1).to_string(), format!("{rate:.0}")];
    let rows: Vec<Vec<String>> = rates.iter().enumerate().map(row).collect();
    let kept = rates.last().zip(rates.first()).map_or(0.0, |(last, first)| last / first);
    // No row of the goals, but the same thought as row 13: dead rows must not slow claims down.
    let what = "PostgreSQL: pairs in the last window of the long run over the first";
    let judged = vec![Judged::at_least(13, what, kept, 0.8, 0.95)];
    let text = table::render(&["window", "claim+complete pairs per second"], &rows, 0);
    Ok(Results { text, figures: json!({ "pairs_per_second": rates }), judged })
}

/// The claim of one connection at few and at many pending tasks, and after many have been completed, in turns.
async fn backlog(args: &PostgresArgs, cluster: &Cluster) -> Result<Results> {
    let mut subjects = Vec::new();
    for (pending, completed) in [(FEW, 0), (args.pending, 0), (FEW, args.completed)] {
        let wanted = subjects.is_empty() || pending + completed > FEW;
        if !wanted {
            continue;
        }
        output::progress(&format!("preparing {pending} pending and {completed} completed tasks"));
        let subject = MeasuredServer::start(args, cluster)?;
        subject.complete(completed).await?;
        subject.prepare(pending as f64).await?;
        subjects.push((pending, completed, subject, Latencies::default()));
    }
    for turn in 0..=TURNS {
        for (_, _, subject, latency) in &mut subjects {
            if turn == 1 {
                // The first turn was the warm-up.
                *latency = Latencies::default();
            }
            claims(subject.server.address, &subject.numbers, SAMPLES, latency).await?;
        }
    }
    let millis = |latency: &Latencies| latency.quantile_millis(0.5);
    let first = millis(&subjects[0].3);
    let (mut rows, mut figures, mut judged) = (Vec::new(), Vec::new(), Vec::new());
    for (pending, completed, _, latency) in &subjects {
        let (p50, growth) = (millis(latency), millis(latency) / first);
        rows.push(vec![pending.to_string(), completed.to_string(), format!("{p50:.3}"), format!("{growth:.2}")]);
        figures.push(json!({ "pending": pending, "completed": completed, "claim_p50_milliseconds": p50 }));
        if pending + completed > FEW {
            let what = format!("PostgreSQL: claim p50, {pending} pending, {completed} completed before, over {FEW}");
            judged.push(Judged::at_most(13, &what, growth, 1.5, 1.1));
        }
    }
    let heading = ["pending", "completed before", "claim p50 ms", "over first"];
    Ok(Results { text: table::render(&heading, &rows, 0), figures: figures.into(), judged })
}

impl MeasuredServer {
    fn start(args: &PostgresArgs, cluster: &Cluster) -> Result<Self> {
        let database = cluster.database();
        let server = Server::taskqueue(&args.server, database.url().as_ref())?;
        Ok(Self { server, numbers: Rc::default(), database })
    }

    /// Makes sure that so many tasks can be claimed.
    async fn prepare(&self, wanted: f64) -> Result<()> {
        let (address, queue) = (self.server.address, Phase::ClaimComplete.queue());
        fill::top_up(address, queue, wanted as u64, self.numbers.clone()).await.map(drop)
    }

    /// Creates, claims and completes so many tasks.
    async fn complete(&self, count: u64) -> Result<()> {
        self.prepare(count as f64).await?;
        let queue = Phase::ClaimComplete.queue();
        while count > 0 && fill::pending(self.server.address, queue).await? > 0 {
            self.load(Phase::ClaimComplete, CONNECTIONS, COMPLETING_SECONDS).await?;
        }
        Ok(())
    }

    async fn load(&self, phase: Phase, connections: usize, seconds: f64) -> Result<Measured> {
        let load = Load { warm_up: WARM_UP, ..Load::new(&self.server, phase, connections, seconds) };
        load::run(load, self.numbers.clone(), Rc::default()).await?.require_no_errors()
    }
}

fn pgbench(database: &Database, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program("pgbench")).args(arguments).arg(database.url()).output()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(stdout)
    } else {
        Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// The transactions per second in what pgbench says.
fn tps(stdout: &str) -> Option<f64> {
    stdout.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_pgbench_says() {
        let stdout = "latency average = 7.1 ms\ninitial connection time = 90 ms\ntps = 9012.345678 (without initial connection time)\n";
        assert_eq!(tps(stdout), Some(9012.345678));
        assert_eq!(tps("pgbench: error"), None);
    }
}
