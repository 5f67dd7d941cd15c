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
use crate::beside::{Beside, Others};
use crate::figures::{Latencies, cell, median, progress};
use crate::load::{Load, Measured, WARM_UP};
use crate::request::{OTHER, Operation, PAIRS, QUEUE};
use crate::server::{Bench, On, Pile, Server};
use crate::usage::{Perf, printed};

/// Pairs per second for which tasks are prepared before the first turn shows how many there are, single and by batches.
const EXPECTED_PAIRS: [f64; 2] = [40_000.0, 80_000.0];
/// How many times the tasks that the last turn took are prepared for the next.
const HEADROOM: f64 = 1.6;
/// How often it is looked whether all is deleted that is kept no longer.
const DELETING: Duration = Duration::from_millis(100);

/// One of those who take turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// None for PostgreSQL's own benchmark, on the cluster of the servers. A transaction counts as a whole cycle.
    pub(crate) on: Option<On>,
    /// What it has beside what all sides have.
    pub(crate) piles: &'static [Pile],
    pub(crate) beside: Beside,
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

struct Subject {
    sending: Sending,
    side: Side,
    /// One of both.
    server: Option<Server>,
    pgbench: Option<Database>,
    others: Option<Others>,
    known: Range<u64>,
    expected_pairs: f64,
    turns: Vec<Measured>,
    /// Syncs of the disk per second at that moment; then what a turn with `perf` found; NaN where there is none.
    syncs_per_second: f64,
    items_per_sync: f64,
}

/// Lets all sides take turns, at each number of connections.
pub(crate) async fn run(bench: &mut Bench, sending: Sending) -> Result<()> {
    let (name, is_compared) = (bench.scenario, bench.args.baseline.is_some());
    if is_compared && sending.batch > 1 && !bench.start(On::Baseline).await?.has_batches().await? {
        progress(&format!("{name}: left out, because the other build has no batches"));
        return Ok(());
    }
    let (rounds, seconds) = (bench.args.rounds.unwrap_or(sending.turns.0), bench.seconds(sending.turns.1));
    for connections in bench.connections(sending.connections) {
        let mut subjects = Vec::new();
        for side in sending.sides {
            progress(&format!("{name}: {connections} connections, preparing {}", side.name));
            subjects.push(Subject::start(bench, sending, *side).await?);
        }
        for round in 0..rounds as usize {
            progress(&format!("{name}: {connections} connections, round {} of {rounds}", round + 1));
            for place in 0..subjects.len() {
                let place = (place + round) % subjects.len();
                subjects[place].fill(seconds).await?;
                let measured = subjects[place].turn(connections, seconds).await?;
                subjects[place].turns.push(measured);
            }
        }
        // Those that are compared with the reference.
        let is_bare = sending.sides[0].on == Some(On::Reference);
        for subject in subjects.iter_mut().filter(|subject| is_bare && subject.server().is_some()) {
            subject.sample(connections, seconds).await?;
        }
        subjects.iter().for_each(|subject| subject.show(&subjects[0], connections, bench));
    }
    Ok(())
}

impl Subject {
    async fn start(bench: &Bench, sending: Sending, side: Side) -> Result<Self> {
        let mut subject = Self {
            sending,
            side,
            server: None,
            pgbench: None,
            others: None,
            known: 0..0,
            expected_pairs: EXPECTED_PAIRS[usize::from(sending.batch > 1)],
            turns: Vec::new(),
            syncs_per_second: f64::NAN,
            items_per_sync: f64::NAN,
        };
        let Some(on) = side.on else {
            let database = bench.cluster().database();
            pgbench(&database, &["-i", "-q", "-s", "10"])?;
            return Ok(Self { pgbench: Some(database), ..subject });
        };
        let server = bench.start(on).await?;
        if on != On::Reference {
            subject.known = server.prepare(bench, bench.piles).await?;
            server.prepare(bench, side.piles).await?;
            subject.syncs_per_second = server.folder().map(syncs).transpose()?.unwrap_or(f64::NAN);
            subject.others = Others::start(side.beside, bench, &server).await?;
        }
        Ok(Self { server: Some(server), ..subject })
    }

    /// The server, if it does the work and is not the reference.
    fn server(&self) -> Option<&Server> {
        self.server.as_ref().filter(|_| self.side.on != Some(On::Reference))
    }

    /// Creates what the next turn may take, if it takes tasks away.
    async fn fill(&self, seconds: f64) -> Result<()> {
        match self.server() {
            Some(server) if self.sending.cycle == PAIRS => {
                server.top_up((self.expected_pairs * (WARM_UP.as_secs_f64() + seconds)) as u64).await
            }
            _ => Ok(()),
        }
    }

    async fn turn(&mut self, connections: usize, seconds: f64) -> Result<Measured> {
        let Sending { cycle, batch, rate, .. } = self.sending;
        if let Some(database) = &self.pgbench {
            let (clients, length) = (connections.to_string(), seconds.ceil().to_string());
            let threads = if connections == 1 { "1" } else { "2" };
            let rate = pgbench(database, &["-N", "-c", &clients, "-j", threads, "-M", "prepared", "-T", &length])?;
            let requests = if batch > 1 { 1.0 } else { cycle.len() as f64 };
            return Ok(Measured { items: (rate * requests * seconds) as u64, seconds, ..Measured::default() });
        }
        let server = self.server.as_ref().ok_or("there is no server")?;
        // The reference knows no batches: it is asked the same by single requests.
        let batch = if self.side.on == Some(On::Reference) { 1 } else { batch };
        let queue = if *cycle == [Operation::Poll] { OTHER } else { QUEUE };
        let mut load = Load::new(server, cycle, connections, seconds);
        (load.queue, load.batch, load.rate, load.known) = (queue, batch, rate, self.known.clone());
        if let Some(others) = &mut self.others {
            others.begin().await;
        }
        let measured = load.run().await?;
        if let Some(others) = &mut self.others {
            others.pause().await?;
        }
        // What is deleted now is no burden on the turns of others.
        while self.side.piles.contains(&Pile::Retention) && server.count("succeeded").await? > 0 {
            sleep(DELETING).await;
        }
        if cycle == PAIRS {
            self.expected_pairs = measured.rate() * HEADROOM / if batch > 1 { 1.0 } else { 2.0 };
        }
        Ok(measured)
    }

    /// One more turn, in which `perf` looks. It slows a server a little, so nothing else of this turn is used.
    async fn sample(&mut self, connections: usize, seconds: f64) -> Result<()> {
        self.fill(seconds).await?;
        let perf = self.server().and_then(|server| Perf::start(server.pid(), server.folder()?));
        let measured = self.turn(connections, seconds).await?.without_errors()?;
        let syncs = perf.and_then(Perf::syncs).filter(|syncs| *syncs > 0);
        self.items_per_sync = syncs.map_or(f64::NAN, |syncs| measured.answered as f64 / syncs as f64);
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
        let mut merged = Latencies::default();
        self.turns.iter().for_each(|turn| merged.merge(of(turn)));
        merged
    }

    /// Adds its row and its figures, which are compared with those of the first side.
    fn show(&self, first: &Self, connections: usize, bench: &mut Bench) {
        let (goals, report, side) = (bench.goals, &mut bench.report, self.side.name);
        let is_compared = bench.args.baseline.is_some();
        let label = format!("{} {connections}", bench.scenario);
        let (ratio, cpu_ratio) = (self.over(first, Measured::rate), self.over(first, Measured::cpu_micros));
        let (latency, claims) = (self.merged(|turn| &turn.latency), self.merged(|turn| &turn.claims));
        let per_item = |of: fn(&Measured) -> f64| self.median(|turn| of(turn) / turn.items as f64);
        let quantiles = [("p50 ms", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
        let mut row =
            vec![("scenario", bench.scenario.to_owned()), ("side", side.to_owned()), ("conn", connections.to_string())];
        row.extend([("items/s", cell(0, self.median(Measured::rate))), ("ratio", cell(3, ratio))]);
        row.extend(quantiles.map(|(name, share)| (name, cell(3, latency.millis(share)))));
        row.extend([
            ("CPU us/item", cell(1, self.median(Measured::cpu_micros))),
            ("CPU ratio", cell(3, cpu_ratio)),
            ("storage us", cell(1, per_item(|turn| turn.usage.storage_seconds * 1e6))),
            ("items/sync", cell(1, self.items_per_sync)),
            ("bytes/item", cell(0, per_item(|turn| turn.body_bytes as f64))),
            ("RSS MiB", cell(0, self.turns.iter().map(|turn| turn.usage.rss_mebibytes()).fold(0.0, f64::max))),
            ("syncs/s", cell(0, self.syncs_per_second)),
        ]);
        report.turns.push(row);
        let judged = [
            // A rate that is given shows nothing about the server.
            ("ratio", ratio, self.sending.rate.is_none()),
            ("CPU ratio", cpu_ratio, true),
            ("claim p99 over p50", claims.millis(0.99) / claims.millis(0.5), true),
            ("share of a core", self.median(|turn| turn.usage.cpu_seconds / turn.seconds), true),
            ("items/sync", self.items_per_sync, self.items_per_sync.is_finite()),
        ];
        for (figure, measured, _) in judged.into_iter().filter(|(.., is_known)| *is_known) {
            let name = if is_compared { figure.to_owned() } else { format!("{connections} {side} {figure}") };
            if goals.iter().any(|goal| goal.figure == name) && !std::ptr::eq(self, first) {
                report.add(&label, &name, measured, goals);
            }
        }
        for (code, count) in self.turns.iter().flat_map(|turn| &turn.errors) {
            report.add(&label, &format!("{side}, errors: {code}"), *count as f64, &[]);
            report.faults[0] += count;
        }
        // The reference always hands out the same task.
        report.faults[1] += self.server().map_or(0, |server| server.numbers.double_claims());
        if let Some(others) = &self.others {
            others.figures().into_iter().for_each(|(figure, measured)| report.add(&label, figure, measured, goals));
        }
    }
}

/// Runs pgbench; its transactions per second, if it has run any.
fn pgbench(database: &Database, arguments: &[&str]) -> Result<f64> {
    Ok(tps(&printed(Command::new(program("pgbench")).args(arguments).arg(database.url()))?))
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
