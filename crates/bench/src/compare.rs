//! `taskqueue-bench compare`: single requests against another build of the server, in turns (row 27 of the goals). Both have
//! fresh databases and the same load; who begins changes from round to round.

use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::CompareArgs;
use crate::double_claim_check::DoubleClaimCheck;
use crate::failure::Result;
use crate::goals::Judged;
use crate::load::{self, Load, Measured, WARM_UP};
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::{fill, output, table};

const PHASES: [Phase; 4] = [Phase::ClaimComplete, Phase::Create, Phase::Get, Phase::Count];
const CONNECTIONS: [usize; 3] = [64, 16, 1];
/// Pairs per second for which tasks are prepared before the first round shows how many there are, and how many times those.
const EXPECTED_PAIRS: f64 = 40_000.0;
const HEADROOM: f64 = 1.6;

/// One of the two builds, with a database for one phase.
struct Build {
    server: Server,
    numbers: Rc<Numbers>,
    known: std::ops::Range<u64>,
    expected_pairs: f64,
    rounds: Vec<Measured>,
    // Removed after the server has ended.
    _folder: TempDir,
}

/// What was found for one phase at one number of connections.
struct Compared {
    phase: Phase,
    connections: usize,
    ours: Vec<Measured>,
    baseline: Vec<Measured>,
}

pub(crate) async fn run(args: &CompareArgs) -> Result<Results> {
    let mut compared = Vec::new();
    for phase in PHASES {
        for connections in CONNECTIONS {
            output::progress(&format!("{}, {connections} connections", phase.name()));
            compared.push(compare(args, phase, connections).await?);
        }
    }
    let rows: Vec<Vec<String>> = compared.iter().map(Compared::row).collect();
    let heading = ["phase", "conn", "req/s", "baseline", "ratio", "CPU us/req", "baseline", "ratio"];
    let figures = compared.iter().map(Compared::json).collect::<Vec<_>>().into();
    Ok(Results {
        text: table::render(&heading, &rows, 1),
        figures,
        judged: compared.iter().map(Compared::judge).collect(),
    })
}

async fn compare(args: &CompareArgs, phase: Phase, connections: usize) -> Result<Compared> {
    let mut ours = Build::start(args, &args.server.binary, phase).await?;
    let mut baseline = Build::start(args, &args.baseline, phase).await?;
    for round in 0..args.rounds {
        let (first, second) = if round % 2 == 0 { (&mut ours, &mut baseline) } else { (&mut baseline, &mut ours) };
        first.turn(args, phase, connections).await?;
        second.turn(args, phase, connections).await?;
    }
    Ok(Compared { phase, connections, ours: ours.rounds, baseline: baseline.rounds })
}

impl Build {
    async fn start(args: &CompareArgs, binary: &Path, phase: Phase) -> Result<Self> {
        let folder = scratch(&args.server.database_dir)?;
        let server = Server::on_sqlite(binary, folder.path())?;
        let numbers: Rc<Numbers> = Rc::default();
        let known = fill::fill(server.address, phase.queue(), phase.prepared_tasks(), numbers.clone()).await?;
        Ok(Self { server, numbers, known, expected_pairs: EXPECTED_PAIRS, rounds: Vec::new(), _folder: folder })
    }

    async fn turn(&mut self, args: &CompareArgs, phase: Phase, connections: usize) -> Result<()> {
        if phase.takes_prepared_tasks() {
            let wanted = self.expected_pairs * (WARM_UP.as_secs_f64() + args.seconds);
            fill::top_up(self.server.address, phase.queue(), wanted as u64, self.numbers.clone()).await?;
        }
        let load = Load::new(&self.server, phase, connections, args.seconds);
        let load = Load { known: self.known.clone(), ..load };
        let check: Rc<std::cell::RefCell<DoubleClaimCheck>> = Rc::default();
        let measured = load::run(load, self.numbers.clone(), check).await?.require_no_errors()?;
        self.expected_pairs = measured.pairs_rate() * HEADROOM;
        self.rounds.push(measured);
        Ok(())
    }
}

impl Compared {
    fn medians(&self, of: fn(&Measured) -> f64) -> [f64; 2] {
        [&self.ours, &self.baseline].map(|rounds| median(rounds.iter().map(of).collect()))
    }

    /// Our median over that of the baseline.
    fn ratio(&self) -> f64 {
        let [ours, baseline] = self.medians(Measured::rate);
        ours / baseline
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.phase.name(), self.connections.to_string()];
        let [ours, baseline] = self.medians(Measured::rate);
        row.extend([format!("{ours:.0}"), format!("{baseline:.0}"), format!("{:.3}", ours / baseline)]);
        let [ours, baseline] = self.medians(Measured::cpu_micros);
        row.extend([format!("{ours:.1}"), format!("{baseline:.1}"), format!("{:.3}", ours / baseline)]);
        row
    }

    fn judge(&self) -> Judged {
        let what = format!("{}, {} connections: requests/s over the baseline", self.phase.name(), self.connections);
        Judged::over_baseline(27, &what, self.ratio(), 0.98, 1.0)
    }

    fn json(&self) -> Value {
        let rates = |rounds: &[Measured]| rounds.iter().map(Measured::rate).collect::<Vec<_>>();
        let [cpu, baseline_cpu] = self.medians(Measured::cpu_micros);
        json!({
            "phase": self.phase.name(),
            "connections": self.connections,
            "ratio": self.ratio(),
            "requests_per_second": rates(&self.ours),
            "baseline_requests_per_second": rates(&self.baseline),
            "cpu_microseconds_per_request": cpu,
            "baseline_cpu_microseconds_per_request": baseline_cpu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::measured;

    #[test]
    fn medians_are_compared() {
        let rounds = |rates: &[u64]| rates.iter().map(|rate| measured(*rate, 0.5)).collect();
        let compared = Compared {
            phase: Phase::Get,
            connections: 16,
            ours: rounds(&[100, 98, 300]),
            baseline: rounds(&[10, 100, 200]),
        };
        assert!((compared.ratio() - 1.0).abs() < 1e-9);
        assert_eq!(compared.row()[..5], ["get", "16", "100", "100", "1.000"]);
        assert_eq!(compared.judge().verdict, crate::goals::Verdict::Aim);
    }
}
