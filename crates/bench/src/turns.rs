//! Those who take turns with the same load: servers with different storage, builds, or things to do beside it, the reference, pgbench.
//! The first one is what the others are compared with, round by round; who begins changes from round to round.

use std::process::Command;
use std::time::{Duration, Instant};

use taskqueue_test_postgres::{Database, program};
use tokio::time::sleep;

use crate::Result;
use crate::beside::{Beside, Others};
use crate::figures::{Latencies, line, median, progress};
use crate::load::{Load, Measured, WARM_UP};
use crate::request::{Operation, PAIRS};
use crate::server::{Bench, On, Pile, Server};
use crate::usage::printed;

/// Pairs per second for which there are tasks at the begin of a turn, single and by batches: more than any server has done so far. What a
/// turn leaves is there for the next one.
const MOST_PAIRS: [f64; 2] = [40_000.0, 80_000.0];
/// For how long memory is watched after a start: a server may prepare something in the background.
const WATCHING: Duration = Duration::from_secs(10);
/// Longer than the text of metrics is given again.
const SCRAPE_PAUSE: Duration = Duration::from_millis(1_050);
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

/// What each connection sends, over and over; if there are several, one after the other on the same servers, with their names.
pub(crate) type Cycles = &'static [(&'static str, &'static [Operation])];

/// The requests of each connection, and over how many they are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) cycles: Cycles,
    pub(crate) batch: usize,
    pub(crate) connections: &'static [u16],
    /// Requests per second of each connection; none for a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) sides: &'static [Side],
    /// How many turns each side has, and their seconds.
    pub(crate) turns: (u32, f64),
    /// Servers are started again when they are filled, and their memory and their start are figures, too.
    pub(crate) is_started_again: bool,
}

/// Who does the work of a side.
enum Doer {
    Server(Server),
    Pgbench(Database),
}

/// A figure: its name, how many digits it is printed with behind the point, and what was measured.
type Figure = (&'static str, usize, f64);

/// A side that has started, and what was measured of it.
struct Subject {
    sending: Sending,
    side: Side,
    doer: Doer,
    others: Option<Others>,
    /// What it used before the first turn, and its start.
    of_start: Vec<Figure>,
    /// The turns of the cycle that is measured.
    turns: Vec<Measured>,
    /// Of the last turn in which syncs were counted.
    items_per_sync: f64,
}

/// Lets all sides take turns, at each number of connections.
pub(crate) async fn run(bench: &mut Bench, sending: Sending) -> Result<()> {
    let name = bench.scenario;
    if bench.args.baseline.is_some() && sending.batch > 1 && !bench.start(On::Baseline).await?.has_batches().await? {
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
        for (of_cycle, cycle) in sending.cycles {
            for round in 0..rounds as usize {
                progress(&format!("{name}: round {} of {rounds}, {connections} connections {of_cycle}", round + 1));
                for place in 0..subjects.len() {
                    let subject = &mut subjects[(place + round) % sending.sides.len()];
                    let measured = subject.turn(cycle, connections, seconds, false).await?;
                    subject.turns.push(measured);
                }
            }
            // Those that are compared with the reference.
            if sending.sides[0].on == Some(On::Reference) {
                for subject in &mut subjects[1..] {
                    subject.turn(cycle, connections, seconds, true).await?;
                }
            }
            for subject in &subjects {
                let of = format!("{connections} {} {of_cycle}", subject.side.name);
                let (of, figures) = (of.trim_end(), subject.figures(&subjects[0]));
                let cells = figures.iter().map(|(figure, digits, measured)| format!("{figure} {measured:.digits$}"));
                line(&format!("{name} {of}: {}", cells.collect::<Vec<_>>().join(", ")));
                figures.iter().for_each(|(figure, _, measured)| bench.judge(&format!("{of} {figure}"), *measured));
                let of_others = subject.others.iter().flat_map(Others::figures);
                of_others.for_each(|(figure, measured)| bench.add(figure, measured));
            }
            subjects.iter_mut().for_each(|subject| subject.turns.clear());
        }
    }
    Ok(())
}

impl Subject {
    async fn start(bench: &Bench, sending: Sending, side: Side) -> Result<Self> {
        let (mut others, mut of_start) = (None, Vec::new());
        let doer = match side.on {
            None => {
                let database = bench.cluster().database();
                printed(Command::new(program("pgbench")).args(["-i", "-q", "-s", "10"]).arg(database.url()))?;
                Doer::Pgbench(database)
            }
            Some(on) => {
                let mut server = bench.start(on).await?;
                if on != On::Reference {
                    of_start.push(("RSS MiB before", 1, server.usage()?.rss_mebibytes()));
                    server.prepare(bench, bench.piles).await?;
                    server.prepare(bench, side.piles).await?;
                    of_start.push(("RSS MiB filled", 1, server.usage()?.rss_mebibytes()));
                    if sending.is_started_again {
                        server = server.restart().await?;
                        let (begin, mut highest) = (Instant::now(), 0.0_f64);
                        while begin.elapsed() < WATCHING {
                            highest = highest.max(server.usage()?.rss_mebibytes());
                            sleep(WATCHING / 100).await;
                        }
                        of_start.push(("start to healthy ms", 1, server.healthy_after.as_secs_f64() * 1e3));
                        of_start.push(("RSS MiB after the start", 1, highest));
                    }
                    others = Others::start(side.beside, bench, &server).await?;
                }
                Doer::Server(server)
            }
        };
        Ok(Self { sending, side, doer, others, of_start, turns: Vec::new(), items_per_sync: f64::NAN })
    }

    /// Puts the load on it, and counts the syncs meanwhile if it is to.
    async fn turn(
        &mut self,
        cycle: &'static [Operation],
        connections: usize,
        seconds: f64,
        counts_syncs: bool,
    ) -> Result<Measured> {
        let Sending { mut batch, rate, .. } = self.sending;
        let server = match &self.doer {
            Doer::Pgbench(database) => {
                let rate = pgbench(database, connections, seconds)?;
                let requests = if batch > 1 { 1.0 } else { cycle.len() as f64 };
                return Ok(Measured { items: (rate * requests * seconds) as u64, seconds, ..Measured::default() });
            }
            Doer::Server(server) => server,
        };
        if self.side.on == Some(On::Reference) {
            // It knows no batches: it is asked the same by single requests.
            batch = 1;
        } else if cycle == PAIRS {
            let most = MOST_PAIRS[usize::from(batch > 1)];
            server.top_up((most * (WARM_UP.as_secs_f64() + seconds)) as u64).await?;
        }
        let mut load = Load::new(server, cycle, connections, seconds);
        (load.batch, load.rate) = (batch, rate);
        if let Some(others) = &mut self.others {
            others.begin().await;
        }
        let before = if counts_syncs { commits(server).await? } else { f64::NAN };
        let measured = load.run().await?;
        if counts_syncs {
            self.items_per_sync = measured.answered as f64 / (commits(server).await? - before);
        }
        if let Some(others) = &mut self.others {
            others.pause().await?;
        }
        // What is deleted now is no burden on the turns of others.
        while self.side.piles.contains(&Pile::Retention) && server.count("succeeded").await? > 0 {
            sleep(DELETING).await;
        }
        match measured.items {
            0 => Err(format!("{} did nothing in a turn", self.side.name).into()),
            _ => Ok(measured),
        }
    }

    fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().map(of))
    }

    /// A figure over that of the first side, round by round.
    fn over(&self, first: &Self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.turns.iter().zip(&first.turns).map(|(ours, first)| of(ours) / of(first)))
    }

    /// Returns the figures that are known, some of them over those of the first side.
    fn figures(&self, first: &Self) -> Vec<Figure> {
        let merged = |turns: &[Measured]| {
            let mut merged = Latencies::default();
            turns.iter().for_each(|turn| merged.merge(&turn.latency));
            merged
        };
        let (latency, of_first) = (merged(&self.turns), merged(&first.turns));
        let rates: Vec<f64> = self.turns.iter().map(Measured::rate).collect();
        // A rate that is given shows nothing about the server.
        let ratio = if self.sending.rate.is_some() { f64::NAN } else { self.over(first, Measured::rate) };
        let mut figures = vec![
            ("items/s", 0, median(rates.iter().copied())),
            ("ratio", 3, ratio),
            ("last over first", 3, rates[rates.len() - 1] / rates[0]),
            ("p50 ms", 3, latency.millis(0.5)),
            ("p50 over first", 3, latency.millis(0.5) / of_first.millis(0.5)),
            ("p99 ms", 3, latency.millis(0.99)),
            ("p99 over p50", 2, latency.millis(0.99) / latency.millis(0.5)),
            ("max ms", 3, latency.millis(1.0)),
            ("CPU us/item", 1, self.median(Measured::cpu_micros)),
            ("CPU ratio", 3, self.over(first, Measured::cpu_micros)),
            ("share of a core", 3, self.median(|turn| turn.usage.cpu_seconds / turn.seconds)),
            ("items/sync", 1, self.items_per_sync),
            ("RSS MiB", 0, self.turns.iter().map(|turn| turn.usage.rss_mebibytes()).fold(0.0, f64::max)),
        ];
        figures.extend(&self.of_start);
        // Of pgbench only the rate is known; the rest is 0, or something over 0.
        figures.retain(|(.., measured)| measured.is_normal());
        figures
    }
}

/// Returns how many commits a server has made so far, as its metrics say. Each syncs the log on SQLite.
async fn commits(server: &Server) -> Result<f64> {
    sleep(SCRAPE_PAUSE).await;
    let metrics = server.client().await?.get("/metrics").await?;
    let count = |line: &str| line.strip_prefix("taskqueue_writer_commit_seconds_count ")?.parse().ok();
    Ok(metrics.text().lines().find_map(count).ok_or("the metrics do not say how many commits there were")?)
}

/// Runs pgbench; its transactions per second.
fn pgbench(database: &Database, connections: usize, seconds: f64) -> Result<f64> {
    let (clients, length) = (connections.to_string(), seconds.ceil().to_string());
    let mut command = Command::new(program("pgbench"));
    command.args(["-N", "-M", "prepared", "-c", &clients, "-T", &length]);
    command.args(["-j", if connections == 1 { "1" } else { "2" }]).arg(database.url());
    let stdout = printed(&mut command)?;
    Ok(tps(&stdout).ok_or(stdout)?)
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
        assert_eq!((tps(stdout), tps("pgbench: error")), (Some(9012.345678), None));
    }
}
