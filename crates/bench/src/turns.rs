//! Those who take turns with the same load: servers with different storage, builds, or things to do beside it, the reference, pgbench.
//! The first one is what the others are compared with, round by round; who begins changes from round to round.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use taskqueue_test_postgres::{Database, program};
use tokio::time::sleep;

use crate::bench::{Bench, On};
use crate::beside::{Beside, Others};
use crate::failure::{Failure, Result};
use crate::figures::{Latencies, Report, mebibytes, median, progress};
use crate::load::{Load, Measured, WARM_UP};
use crate::perf::Perf;
use crate::request::{OTHER, Operation, QUEUE};
use crate::scenarios::Scenario;
use crate::server::{Prepared, Server};

/// Pairs per second for which tasks are prepared before the first turn shows how many there are, single and by batches.
const EXPECTED_PAIRS: [f64; 2] = [40_000.0, 80_000.0];
/// How many times the tasks that the last turn took are prepared for the next.
const HEADROOM: f64 = 1.6;
/// How often it is looked whether all is deleted that is kept no longer.
const DELETING: Duration = Duration::from_millis(100);

#[rustfmt::skip]
pub(crate) const HEADING: &[&str] = &[
    "scenario", "side", "conn", "items/s", "ratio", "p50 ms", "p90", "p99", "p999", "max", "CPU us/item", "CPU ratio",
    "storage us", "Rust in it", "items/sync", "bytes/item", "RSS MiB", "syncs/s",
];

/// One of those who take turns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The HTTP stack of the server without the server.
    Reference,
    /// PostgreSQL's own benchmark, on the cluster of the servers. A transaction counts as a whole cycle.
    Pgbench,
    /// A server; what it has beside what all sides have.
    Server(&'static str, On, Prepared, Beside),
}

/// The requests of each connection, and over how many they are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) cycle: &'static [Operation],
    pub(crate) batch: usize,
    pub(crate) connections: &'static [u16],
    /// Requests per second of each connection; none for a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) sides: &'static [Side],
    /// How many turns each side has, and their seconds.
    pub(crate) turns: (u32, f64),
}

enum Kind {
    Reference(Server),
    Pgbench(Database),
    Server(Server, Option<Others>),
}

struct Subject {
    sending: Sending,
    side: Side,
    kind: Kind,
    known: Range<u64>,
    expected_pairs: f64,
    turns: Vec<Measured>,
    /// Syncs of the disk at that moment; then what a turn with `perf` found.
    syncs_per_second: Option<f64>,
    items_per_sync: Option<f64>,
    rust_share: Option<f64>,
    /// Of those beside the load.
    figures_beside: Vec<(&'static str, f64)>,
}

/// Lets all sides take turns, at each number of connections.
pub(crate) async fn run(bench: &Bench, scenario: &Scenario, sending: Sending, report: &mut Report) -> Result<()> {
    let wanted = if bench.args.connections.is_empty() { sending.connections } else { &bench.args.connections };
    for connections in wanted.iter().map(|count| usize::from(*count)) {
        let mut subjects = Vec::new();
        for side in sending.sides {
            progress(&format!("{}: {connections} connections, preparing {side:?}", scenario.name));
            subjects.push(Subject::start(bench, scenario, sending, *side).await?);
        }
        let (rounds, seconds) = (bench.args.rounds.unwrap_or(sending.turns.0), bench.seconds(sending.turns.1));
        for round in 0..rounds as usize {
            progress(&format!("{}: {connections} connections, round {} of {rounds}", scenario.name, round + 1));
            for place in 0..subjects.len() {
                let place = (place + round) % subjects.len();
                subjects[place].fill(seconds).await?;
                let measured = subjects[place].turn(connections, seconds).await?;
                subjects[place].turns.push(measured);
            }
        }
        for subject in &mut subjects {
            subject.sample(connections, seconds).await?;
            if let Kind::Server(_, others) = &mut subject.kind {
                subject.figures_beside = others.take().map(Others::end).transpose()?.unwrap_or_default();
            }
        }
        show(scenario, connections, &subjects, bench, report);
    }
    Ok(())
}

impl Subject {
    async fn start(bench: &Bench, scenario: &Scenario, sending: Sending, side: Side) -> Result<Self> {
        let (mut known, mut syncs_per_second) = (0..0, None);
        let kind = match side {
            Side::Reference => Kind::Reference(Server::reference().await?),
            Side::Pgbench => {
                let database = bench.cluster().database();
                pgbench(&database, &["-i", "-q", "-s", "10"])?;
                Kind::Pgbench(database)
            }
            Side::Server(_, on, prepared, beside) => {
                let mut server = bench.start(on).await?;
                known = server.prepare(&bench.prepared(&scenario.prepared)).await?;
                server.prepare(&bench.prepared(&prepared)).await?;
                syncs_per_second = server.folder().map(syncs).transpose()?;
                let others = Others::start(beside, bench, &server).await?;
                Kind::Server(server, others)
            }
        };
        Ok(Self {
            sending,
            side,
            kind,
            known,
            expected_pairs: EXPECTED_PAIRS[usize::from(sending.batch > 1)],
            turns: Vec::new(),
            syncs_per_second,
            items_per_sync: None,
            rust_share: None,
            figures_beside: Vec::new(),
        })
    }

    /// Returns true if each turn takes tasks away.
    fn drains(&self) -> bool {
        *self.sending.cycle == [Operation::Claim, Operation::Complete]
    }

    /// Creates what the next turn may take.
    async fn fill(&self, seconds: f64) -> Result<()> {
        match &self.kind {
            Kind::Server(server, _) if self.drains() => {
                server.top_up((self.expected_pairs * (WARM_UP.as_secs_f64() + seconds)) as u64).await
            }
            _ => Ok(()),
        }
    }

    async fn turn(&mut self, connections: usize, seconds: f64) -> Result<Measured> {
        let Sending { cycle, batch, rate, .. } = self.sending;
        let (server, batch) = match &self.kind {
            // It knows no batches: it is asked the same by single requests.
            Kind::Reference(server) => (server, 1),
            Kind::Server(server, _) => (server, batch),
            Kind::Pgbench(database) => {
                let (clients, length) = (connections.to_string(), seconds.ceil().to_string());
                let threads = if connections == 1 { "1" } else { "2" };
                let rate = pgbench(database, &["-N", "-c", &clients, "-j", threads, "-M", "prepared", "-T", &length])?;
                let requests = if batch > 1 { 1.0 } else { cycle.len() as f64 };
                return Ok(Measured { items: (rate * requests * seconds) as u64, seconds, ..Measured::default() });
            }
        };
        let load = Load {
            queue: if *cycle == [Operation::Poll] { OTHER } else { QUEUE },
            batch,
            rate: rate.map(|rate| rate * connections as f64),
            known: self.known.clone(),
            ..Load::new(server, cycle, connections, seconds)
        };
        if let Kind::Server(_, Some(others)) = &self.kind {
            others.begin().await;
        }
        let measured = load.run().await?;
        if let Kind::Server(_, Some(others)) = &self.kind {
            others.pause().await?;
        }
        if let Side::Server(_, _, Prepared { retention: true, .. }, _) = self.side {
            // What is deleted now is no burden on the turns of others.
            while server.count("succeeded").await? > 0 {
                sleep(DELETING).await;
            }
        }
        if self.drains() {
            self.expected_pairs = measured.rate() * HEADROOM / if batch > 1 { 1.0 } else { 2.0 };
        }
        Ok(measured)
    }

    /// One more turn in which `perf` looks, if the side is compared with the reference. `perf` slows a server a little, so nothing else of
    /// this turn is used.
    async fn sample(&mut self, connections: usize, seconds: f64) -> Result<()> {
        let Kind::Server(server, _) = &self.kind else { return Ok(()) };
        let (Some(folder), Side::Reference) = (server.folder(), self.sending.sides[0]) else { return Ok(()) };
        self.fill(seconds).await?;
        let (syncs, samples) = (Perf::count_syncs(server.pid(), folder), Perf::sample(server.pid(), folder));
        let measured = self.turn(connections, seconds).await?.without_errors()?;
        let syncs = syncs.and_then(Perf::syncs).filter(|syncs| *syncs > 0);
        self.items_per_sync = syncs.map(|syncs| measured.answered as f64 / syncs as f64);
        self.rust_share = samples.and_then(Perf::share_of_ours);
        Ok(())
    }

    fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().map(of))
    }

    /// A figure over that of the first side, round by round.
    fn over(&self, first: &Self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().zip(&first.turns).map(|(ours, first)| of(ours) / of(first)))
    }

    fn merged(&self, of: impl Fn(&Measured) -> &Latencies) -> Latencies {
        let mut all = Latencies::default();
        self.turns.iter().for_each(|turn| all.merge(of(turn)));
        all
    }
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Pgbench => "pgbench -N",
            Self::Server(name, ..) => name,
        }
    }
}

fn show(scenario: &Scenario, connections: usize, subjects: &[Subject], bench: &Bench, report: &mut Report) {
    let first = &subjects[0];
    let is_compared = bench.args.baseline.is_some();
    let label = format!("{} {connections}", scenario.name);
    let goals = bench.goals(scenario);
    for subject in subjects {
        let (ratio, cpu_ratio) = (subject.over(first, Measured::rate), subject.over(first, Measured::cpu_micros));
        let latency = subject.merged(|turn| &turn.latency);
        let storage = subject.median(|turn| turn.storage_seconds * 1e6 / turn.items as f64);
        let claims = subject.merged(|turn| &turn.claims);
        let mut row = vec![scenario.name.to_owned(), subject.side.name().to_owned(), connections.to_string()];
        let mut cell = |digits: usize, value: f64| {
            row.push(if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() });
        };
        cell(0, subject.median(Measured::rate));
        cell(3, ratio);
        [0.5, 0.9, 0.99, 0.999, 1.0].into_iter().for_each(|share| cell(3, latency.millis(share)));
        cell(1, subject.median(Measured::cpu_micros));
        cell(3, cpu_ratio);
        cell(1, storage);
        cell(2, subject.rust_share.unwrap_or(f64::NAN));
        cell(1, subject.items_per_sync.unwrap_or(f64::NAN));
        cell(0, subject.median(|turn| turn.body_bytes as f64 / turn.items as f64));
        cell(0, mebibytes(subject.turns.iter().map(|turn| turn.rss_bytes).max().unwrap_or(0)));
        cell(0, subject.syncs_per_second.unwrap_or(f64::NAN));
        report.turns.rows.push(row);
        let core_share = subject.median(|turn| turn.cpu_seconds / turn.seconds);
        let mut judge = |figure: &str, measured: f64| {
            let name =
                if is_compared { figure.to_owned() } else { format!("{connections} {} {figure}", subject.side.name()) };
            if goals.iter().any(|goal| goal.figure == name) && !std::ptr::eq(subject, first) {
                report.add(&label, &name, measured, goals);
            }
        };
        // A rate that is given shows nothing about the server.
        if subject.sending.rate.is_none() {
            judge("ratio", ratio);
        }
        judge("CPU ratio", cpu_ratio);
        judge("claim p99 over p50", claims.millis(0.99) / claims.millis(0.5));
        judge("share of a core", core_share);
        if let Some(items) = subject.items_per_sync {
            judge("items/sync", items);
        }
        for (code, count) in subject.turns.iter().flat_map(|turn| &turn.errors) {
            report.add(&label, &format!("{}, errors: {code}", subject.side.name()), *count as f64, &[]);
            report.faults[0] += count;
        }
        if let Kind::Server(server, _) = &subject.kind {
            report.faults[1] += server.numbers.double_claims();
            subject.figures_beside.iter().for_each(|(figure, measured)| report.add(&label, figure, *measured, goals));
        }
    }
}

/// Runs pgbench; its transactions per second, if it has run any.
fn pgbench(database: &Database, arguments: &[&str]) -> Result<f64> {
    let output = Command::new(program("pgbench")).args(arguments).arg(database.url()).output()?;
    match output.status.success() {
        true => Ok(tps(&String::from_utf8_lossy(&output.stdout))),
        false => Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The transactions per second in what pgbench says; NaN without any.
fn tps(stdout: &str) -> f64 {
    let tps = stdout.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.unwrap_or(f64::NAN)
}

/// How often per second the disk makes an append durable, about as long as one of a write-ahead log; for half a second.
fn syncs(folder: &Path) -> io::Result<f64> {
    let path = folder.join("sync-probe");
    let (mut file, begin, mut syncs) = (File::create(&path)?, Instant::now(), 0_u32);
    while begin.elapsed() < Duration::from_millis(500) {
        file.write_all(&[b'x'; 4096])?;
        file.sync_data()?;
        syncs += 1;
    }
    fs::remove_file(path)?;
    Ok(f64::from(syncs) / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_pgbench_says() {
        let stdout = "latency average = 7.1 ms\ninitial connection time = 90 ms\ntps = 9012.345678 (without initial connection time)\n";
        assert_eq!(tps(stdout).to_bits(), 9012.345678_f64.to_bits());
        assert!(tps("pgbench: error").is_nan());
    }
}
