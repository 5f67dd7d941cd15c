//! `taskqueue-bench postgres`: the server on PostgreSQL, against PostgreSQL's own benchmark on the same cluster in the
//! same minute; what a claim costs as pending tasks pile up; and whether claims slow down while rows die.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use taskqueue_test_postgres::{Cluster, Database, program};

use crate::args::PostgresArgs;
use crate::backlog::claims;
use crate::failure::{Failure, Outcome};
use crate::figure::median;
use crate::goals::Judged;
use crate::histogram::Histogram;
use crate::load::{self, Load, Measured};
use crate::number::Numbers;
use crate::operation::Phase;
use crate::process::Server;
use crate::{fill, output, table};

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(300);
/// Windows of the long run, of which the first is compared with the last.
const WINDOWS: u32 = 6;
/// Turns and claims in each, where backlogs are compared.
const TURNS: usize = 10;
const SAMPLES: usize = 50;

/// A server on a database of its own.
struct Subject {
    server: Server,
    numbers: Rc<Numbers>,
    // Dropped after the server that uses it.
    _database: Database,
}

/// Measures everything that was asked for; tables of it, and how it stands to the goals.
pub(crate) async fn run(args: &PostgresArgs) -> Outcome<(String, Vec<Judged>)> {
    let cluster = Cluster::private();
    let (mut text, mut judged) = throughput(args, &cluster).await?;
    if args.long_seconds > 0.0 {
        let (table, verdict) = long_run(args, &cluster).await?;
        text.push_str(&format!("\n\n{table}"));
        judged.push(verdict);
    }
    if args.pending > 0 {
        let (table, verdict) = backlog(args, &cluster).await?;
        text.push_str(&format!("\n\n{table}"));
        judged.push(verdict);
    }
    Ok((text, judged))
}

/// Creations and claim-complete against `pgbench -N`, in turns.
async fn throughput(args: &PostgresArgs, cluster: &Cluster) -> Outcome<(String, Vec<Judged>)> {
    let yardstick = cluster.database();
    pgbench(&yardstick, &["-i", "-q", "-s", "10"])?;
    let subject = Subject::start(args, cluster)?;
    let (mut transactions, mut created, mut claimed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        output::progress(&format!("round {round} of {}: pgbench -N, creations, claim+complete", args.rounds));
        let seconds = args.seconds.ceil().to_string();
        let clients = CONNECTIONS.to_string();
        let said = pgbench(&yardstick, &["-N", "-c", &clients, "-j", "2", "-M", "prepared", "-T", &seconds])?;
        transactions.push(tps(&said).ok_or_else(|| Failure::new(format!("pgbench said: {said}")))?);
        created.push(subject.load(Phase::Create, args.seconds).await?.rate());
        subject.prepare(claimed.iter().copied().fold(10_000.0, f64::max) * (args.seconds + 1.0)).await?;
        claimed.push(subject.load(Phase::ClaimComplete, args.seconds).await?.rate());
    }
    let (transactions, created, claimed) = (median(transactions), median(created), median(claimed));
    let row =
        |what: &str, rate: f64| vec![what.to_owned(), format!("{rate:.0}"), format!("{:.2}", rate / transactions)];
    let rows = [row("pgbench -N", transactions), row("create", created), row("claim+complete", claimed)];
    let over = |what: &str, rate: f64| Judged::at_least(12, what, rate / transactions, 1.0, 2.0);
    let judged = vec![
        over("creations on PostgreSQL over pgbench -N, 64 connections", created),
        over("claim+complete requests on PostgreSQL over pgbench -N, 64 connections", claimed),
    ];
    Ok((table::render(&["64 connections", "per second", "over pgbench -N"], &rows, 1), judged))
}

/// Claims and completions without a pause, in windows: rows die all the while.
async fn long_run(args: &PostgresArgs, cluster: &Cluster) -> Outcome<(String, Judged)> {
    let subject = Subject::start(args, cluster)?;
    let probe = subject.prepare(20_000.0).await.map(|()| subject.load(Phase::ClaimComplete, 1.0))?.await?;
    let wanted = probe.rate() / 2.0 * 1.5 * args.long_seconds;
    output::progress(&format!("preparing {wanted:.0} tasks for the long run"));
    subject.prepare(wanted).await?;
    let mut rates = Vec::new();
    for window in 1..=WINDOWS {
        output::progress(&format!("long run, window {window} of {WINDOWS}"));
        rates.push(subject.load(Phase::ClaimComplete, args.long_seconds / f64::from(WINDOWS)).await?.rate());
    }
    let row = |(window, rate): (usize, &f64)| vec![(window + 1).to_string(), format!("{rate:.0}")];
    let rows: Vec<Vec<String>> = rates.iter().enumerate().map(row).collect();
    let kept = rates.last().zip(rates.first()).map_or(0.0, |(last, first)| last / first);
    let judged = Judged::at_least(
        12,
        "claim+complete on PostgreSQL, last window of the long run over the first",
        kept,
        0.8,
        0.95,
    );
    Ok((table::render(&["window", "claim+complete per second"], &rows, 0), judged))
}

/// The claim of one connection at few and at many pending tasks, in turns.
async fn backlog(args: &PostgresArgs, cluster: &Cluster) -> Outcome<(String, Judged)> {
    let mut subjects = Vec::new();
    for pending in [1_000, args.pending] {
        output::progress(&format!("preparing {pending} pending tasks"));
        let subject = Subject::start(args, cluster)?;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        subject.prepare(pending as f64).await?;
        subjects.push((pending, subject, Histogram::default()));
    }
    for turn in 0..=TURNS {
        for (_, subject, latency) in &mut subjects {
            if turn == 1 {
                // The first turn was the warm-up.
                *latency = Histogram::default();
            }
            claims(subject.server.address, &subject.numbers, SAMPLES, latency).await?;
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds far below 2^52")]
    let millis = |latency: &Histogram| latency.quantile(0.5) as f64 / 1e6;
    let row = |(pending, _, latency): &(u64, Subject, Histogram)| {
        vec![pending.to_string(), format!("{:.3}", millis(latency))]
    };
    let rows: Vec<Vec<String>> = subjects.iter().map(row).collect();
    let growth = millis(&subjects[1].2) / millis(&subjects[0].2);
    let judged = Judged::at_most(12, "claim p50 on PostgreSQL, many pending over 1,000", growth, 1.25, 1.05);
    Ok((table::render(&["pending", "claim p50 ms"], &rows, 0), judged))
}

impl Subject {
    fn start(args: &PostgresArgs, cluster: &Cluster) -> Outcome<Self> {
        let database = cluster.database();
        let server = Server::taskqueue(&args.server, database.url().as_ref())?;
        Ok(Self { server, numbers: Rc::default(), _database: database })
    }

    /// Makes sure that so many tasks can be claimed.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive estimate")]
    async fn prepare(&self, wanted: f64) -> Outcome<()> {
        let (address, queue) = (self.server.address, Phase::ClaimComplete.queue());
        let missing = (wanted as u64).saturating_sub(fill::pending(address, queue).await?);
        fill::fill(address, queue, missing, self.numbers.clone()).await.map(drop)
    }

    async fn load(&self, phase: Phase, seconds: f64) -> Outcome<Measured> {
        let load = Load {
            address: self.server.address,
            pid: self.server.pid(),
            phase,
            connections: CONNECTIONS,
            warm_up: WARM_UP,
            duration: Duration::from_secs_f64(seconds),
            rate: None,
            known: 0..0,
        };
        let measured = load::run(load, self.numbers.clone(), Rc::default()).await?;
        match measured.errors.iter().next() {
            None => Ok(measured),
            Some((code, count)) => Err(Failure::new(format!("{} gave {code} x {count}", phase.name()))),
        }
    }
}

fn pgbench(database: &Database, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program("pgbench")).args(arguments).arg(database.url()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// The transactions per second in what pgbench says.
fn tps(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_pgbench_says() {
        let said = "latency average = 7.1 ms\ninitial connection time = 90 ms\ntps = 9012.345678 (without initial connection time)\n";
        assert_eq!(tps(said), Some(9012.345678));
        assert_eq!(tps("pgbench: error"), None);
    }
}
