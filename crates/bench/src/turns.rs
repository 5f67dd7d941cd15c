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

use crate::Result;
use crate::bench::{Bench, On};
use crate::beside::{Beside, Others};
use crate::figures::{Found, Latencies, median, progress};
use crate::load::{Load, Measured, WARM_UP};
use crate::perf::Perf;
use crate::request::{OTHER, Operation, PAIRS, QUEUE};
use crate::server::{Pile, Server};

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
    /// PostgreSQL's own benchmark, on the cluster of the servers. A transaction counts as a whole cycle.
    Pgbench,
    /// A server; what it has beside what all sides have.
    Server(&'static str, On, &'static [Pile], Beside),
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
    /// Syncs of the disk per second at that moment; then what a turn with `perf` found; NaN where there is none.
    syncs_per_second: f64,
    items_per_sync: f64,
    rust_share: f64,
    /// Of those beside the load.
    figures_beside: Vec<(&'static str, f64)>,
}

/// Lets all sides take turns, at each number of connections.
pub(crate) async fn run(bench: &Bench, prepared: &[Pile], sending: Sending, found: &mut Found<'_>) -> Result<()> {
    let wanted = if bench.args.connections.is_empty() { sending.connections } else { &bench.args.connections };
    for connections in wanted.iter().map(|count| usize::from(*count)) {
        let (name, mut subjects) = (found.scenario, Vec::new());
        for side in sending.sides {
            progress(&format!("{name}: {connections} connections, preparing {side:?}"));
            let subject = Subject::start(bench, prepared, sending, *side).await?;
            if let (Kind::Server(server, _), Side::Server(_, On::Baseline, ..)) = (&subject.kind, side)
                && sending.batch > 1
                && !server.has_batches().await?
            {
                progress(&format!("{name}: left out, because the other build has no batches"));
                return Ok(());
            }
            subjects.push(subject);
        }
        let (rounds, seconds) = (bench.args.rounds.unwrap_or(sending.turns.0), bench.seconds(sending.turns.1));
        for round in 0..rounds as usize {
            progress(&format!("{name}: {connections} connections, round {} of {rounds}", round + 1));
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
        show(connections, &subjects, bench.args.baseline.is_some(), found);
    }
    Ok(())
}

impl Subject {
    async fn start(bench: &Bench, prepared: &[Pile], sending: Sending, side: Side) -> Result<Self> {
        let (mut known, mut syncs_per_second) = (0..0, f64::NAN);
        let kind = match side {
            Side::Pgbench => {
                let database = bench.cluster().database();
                pgbench(&database, &["-i", "-q", "-s", "10"])?;
                Kind::Pgbench(database)
            }
            Side::Server(_, On::Reference, ..) => Kind::Server(bench.start(On::Reference).await?, None),
            Side::Server(_, on, piles, beside) => {
                let mut server = bench.start(on).await?;
                known = server.prepare(prepared, bench.args.scale).await?;
                server.prepare(piles, bench.args.scale).await?;
                syncs_per_second = server.folder().map(syncs).transpose()?.unwrap_or(f64::NAN);
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
            items_per_sync: f64::NAN,
            rust_share: f64::NAN,
            figures_beside: Vec::new(),
        })
    }

    /// Creates what the next turn may take, if it takes tasks away.
    async fn fill(&self, seconds: f64) -> Result<()> {
        match (&self.kind, self.side) {
            (Kind::Pgbench(_), _) | (_, Side::Server(_, On::Reference, ..)) => Ok(()),
            _ if self.sending.cycle != PAIRS => Ok(()),
            (Kind::Server(server, _), _) => {
                server.top_up((self.expected_pairs * (WARM_UP.as_secs_f64() + seconds)) as u64).await
            }
        }
    }

    async fn turn(&mut self, connections: usize, seconds: f64) -> Result<Measured> {
        let Sending { cycle, batch, rate, .. } = self.sending;
        let (server, others) = match &self.kind {
            Kind::Server(server, others) => (server, others),
            Kind::Pgbench(database) => {
                let (clients, length) = (connections.to_string(), seconds.ceil().to_string());
                let threads = if connections == 1 { "1" } else { "2" };
                let rate = pgbench(database, &["-N", "-c", &clients, "-j", threads, "-M", "prepared", "-T", &length])?;
                let requests = if batch > 1 { 1.0 } else { cycle.len() as f64 };
                return Ok(Measured { items: (rate * requests * seconds) as u64, seconds, ..Measured::default() });
            }
        };
        let Side::Server(_, on, piles, _) = self.side else { return Err("pgbench has no server".into()) };
        // The reference knows no batches: it is asked the same by single requests.
        let batch = if on == On::Reference { 1 } else { batch };
        let queue = if *cycle == [Operation::Poll] { OTHER } else { QUEUE };
        let load =
            Load { queue, batch, rate, known: self.known.clone(), ..Load::new(server, cycle, connections, seconds) };
        if let Some(others) = others {
            others.begin().await;
        }
        let measured = load.run().await?;
        if let Some(others) = others {
            others.pause().await?;
        }
        // What is deleted now is no burden on the turns of others.
        while piles.contains(&Pile::Retention) && server.count("succeeded").await? > 0 {
            sleep(DELETING).await;
        }
        if cycle == PAIRS {
            self.expected_pairs = measured.rate() * HEADROOM / if batch > 1 { 1.0 } else { 2.0 };
        }
        Ok(measured)
    }

    /// One more turn in which `perf` looks, if the side is compared with the reference. `perf` slows a server a little, so nothing else of
    /// this turn is used.
    async fn sample(&mut self, connections: usize, seconds: f64) -> Result<()> {
        let Kind::Server(server, _) = &self.kind else { return Ok(()) };
        let Side::Server(_, On::Reference, ..) = self.sending.sides[0] else { return Ok(()) };
        let Some(folder) = server.folder() else { return Ok(()) };
        self.fill(seconds).await?;
        let (syncs, samples) = (Perf::count_syncs(server.pid(), folder), Perf::sample(server.pid(), folder));
        let measured = self.turn(connections, seconds).await?.without_errors()?;
        let syncs = syncs.and_then(Perf::syncs).filter(|syncs| *syncs > 0);
        self.items_per_sync = syncs.map_or(f64::NAN, |syncs| measured.answered as f64 / syncs as f64);
        self.rust_share = samples.and_then(Perf::share_of_ours).unwrap_or(f64::NAN);
        Ok(())
    }

    fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().map(of))
    }

    /// A figure over that of the first side, round by round.
    fn over(&self, first: &Self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().zip(&first.turns).map(|(ours, first)| of(ours) / of(first)))
    }
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pgbench => "pgbench -N",
            Self::Server(name, ..) => name,
        }
    }
}

fn show(connections: usize, subjects: &[Subject], is_compared: bool, found: &mut Found<'_>) {
    let (first, goals, report) = (&subjects[0], found.goals, &mut *found.report);
    let label = format!("{} {connections}", found.scenario);
    for subject in subjects {
        let side = subject.side.name();
        let (ratio, cpu_ratio) = (subject.over(first, Measured::rate), subject.over(first, Measured::cpu_micros));
        let latency = Latencies::merged(subject.turns.iter().map(|turn| &turn.latency));
        let claims = Latencies::merged(subject.turns.iter().map(|turn| &turn.claims));
        let shown = [
            (0, subject.median(Measured::rate)),
            (3, ratio),
            (3, latency.millis(0.5)),
            (3, latency.millis(0.9)),
            (3, latency.millis(0.99)),
            (3, latency.millis(0.999)),
            (3, latency.millis(1.0)),
            (1, subject.median(Measured::cpu_micros)),
            (3, cpu_ratio),
            (1, subject.median(|turn| turn.usage.storage_seconds * 1e6 / turn.items as f64)),
            (2, subject.rust_share),
            (1, subject.items_per_sync),
            (0, subject.median(|turn| turn.body_bytes as f64 / turn.items as f64)),
            (0, subject.turns.iter().map(|turn| turn.usage.rss_mebibytes()).fold(0.0, f64::max)),
            (0, subject.syncs_per_second),
        ];
        let cell =
            |(digits, value): (usize, f64)| if value.is_finite() { format!("{value:.digits$}") } else { "-".into() };
        let names = [found.scenario.to_owned(), side.to_owned(), connections.to_string()];
        report.turns.rows.push(names.into_iter().chain(shown.map(cell)).collect());
        let judged = [
            // A rate that is given shows nothing about the server.
            ("ratio", ratio, subject.sending.rate.is_none()),
            ("CPU ratio", cpu_ratio, true),
            ("claim p99 over p50", claims.millis(0.99) / claims.millis(0.5), true),
            ("share of a core", subject.median(|turn| turn.usage.cpu_seconds / turn.seconds), true),
            ("items/sync", subject.items_per_sync, subject.items_per_sync.is_finite()),
        ];
        for (figure, measured, _) in judged.into_iter().filter(|(.., is_known)| *is_known) {
            let name = if is_compared { figure.to_owned() } else { format!("{connections} {side} {figure}") };
            if goals.iter().any(|goal| goal.figure == name) && !std::ptr::eq(subject, first) {
                report.add(&label, &name, measured, goals);
            }
        }
        for (code, count) in subject.turns.iter().flat_map(|turn| &turn.errors) {
            report.add(&label, &format!("{side}, errors: {code}"), *count as f64, &[]);
            report.faults[0] += count;
        }
        match (&subject.kind, subject.side) {
            // It always hands out the same task.
            (_, Side::Server(_, On::Reference, ..)) | (Kind::Pgbench(_), _) => {}
            (Kind::Server(server, _), _) => report.faults[1] += server.numbers.double_claims(),
        }
        subject.figures_beside.iter().for_each(|(figure, measured)| report.add(&label, figure, *measured, goals));
    }
}

/// Runs pgbench; its transactions per second, if it has run any.
fn pgbench(database: &Database, arguments: &[&str]) -> Result<f64> {
    let output = Command::new(program("pgbench")).args(arguments).arg(database.url()).output()?;
    match output.status.success() {
        true => Ok(tps(&String::from_utf8_lossy(&output.stdout))),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
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
