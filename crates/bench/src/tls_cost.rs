//! `taskqueue-bench tls`: claim-complete with TLS and without, in turns, over connections that are kept (row 34 of the
//! goals). Both servers are the same build with fresh databases; who begins changes from round to round.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::TlsArgs;
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

const PHASE: Phase = Phase::ClaimComplete;
/// The goal is about this many connections.
const JUDGED_CONNECTIONS: usize = 64;
const MUST: f64 = 0.8;
const AIM: f64 = 0.9;
/// Pairs per second for which tasks are prepared before the first round shows how many there are, and how many times those.
const EXPECTED_PAIRS: f64 = 40_000.0;
const HEADROOM: f64 = 1.6;

/// One of the two servers.
struct Side {
    server: Server,
    numbers: Rc<Numbers>,
    expected_pairs: f64,
    rounds: Vec<Measured>,
    // Removed after the server has ended.
    _folder: TempDir,
}

/// What was found at one number of connections.
struct Compared {
    connections: usize,
    encrypted: Vec<Measured>,
    plain: Vec<Measured>,
}

pub(crate) async fn run(args: &TlsArgs) -> Result<Results> {
    let mut compared = Vec::new();
    for connections in args.connections.iter().copied().map(usize::from) {
        output::progress(&format!("{} with TLS and without, {connections} connections", PHASE.name()));
        compared.push(compare(args, connections).await?);
    }
    let rows: Vec<Vec<String>> = compared.iter().map(Compared::row).collect();
    let heading = ["conn", "TLS req/s", "plain", "ratio", "CPU us/req", "plain", "ratio"];
    Ok(Results {
        text: table::render(&heading, &rows, 0),
        figures: compared.iter().map(Compared::json).collect::<Vec<_>>().into(),
        judged: compared.iter().filter_map(Compared::judge).collect(),
    })
}

async fn compare(args: &TlsArgs, connections: usize) -> Result<Compared> {
    let (mut encrypted, mut plain) = (Side::start(args, true)?, Side::start(args, false)?);
    for round in 0..args.rounds {
        let (first, second) = if round % 2 == 0 { (&mut encrypted, &mut plain) } else { (&mut plain, &mut encrypted) };
        first.turn(args, connections).await?;
        second.turn(args, connections).await?;
    }
    Ok(Compared { connections, encrypted: encrypted.rounds, plain: plain.rounds })
}

impl Side {
    fn start(args: &TlsArgs, is_encrypted: bool) -> Result<Self> {
        let folder = scratch(&args.server.database_dir)?;
        let start = if is_encrypted { Server::with_tls } else { Server::on_sqlite };
        let server = start(&args.server.binary, folder.path())?;
        Ok(Self { server, numbers: Rc::default(), expected_pairs: EXPECTED_PAIRS, rounds: Vec::new(), _folder: folder })
    }

    async fn turn(&mut self, args: &TlsArgs, connections: usize) -> Result<()> {
        let wanted = self.expected_pairs * (WARM_UP.as_secs_f64() + args.seconds);
        fill::top_up(self.server.endpoint(), PHASE.queue(), wanted as u64, self.numbers.clone()).await?;
        let check: Rc<RefCell<DoubleClaimCheck>> = Rc::default();
        let load = Load::new(&self.server, PHASE, connections, args.seconds);
        let measured = load::run(load, self.numbers.clone(), check).await?.require_no_errors()?;
        self.expected_pairs = measured.pairs_rate() * HEADROOM;
        self.rounds.push(measured);
        Ok(())
    }
}

impl Compared {
    fn medians(&self, of: fn(&Measured) -> f64) -> [f64; 2] {
        [&self.encrypted, &self.plain].map(|rounds| median(rounds.iter().map(of).collect()))
    }

    /// The median with TLS over that without.
    fn ratio(&self) -> f64 {
        let [encrypted, plain] = self.medians(Measured::rate);
        encrypted / plain
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.connections.to_string()];
        let [encrypted, plain] = self.medians(Measured::rate);
        row.extend([format!("{encrypted:.0}"), format!("{plain:.0}"), format!("{:.3}", encrypted / plain)]);
        let [encrypted, plain] = self.medians(Measured::cpu_micros);
        row.extend([format!("{encrypted:.1}"), format!("{plain:.1}"), format!("{:.3}", encrypted / plain)]);
        row
    }

    fn judge(&self) -> Option<Judged> {
        let what =
            format!("{}, {} connections: requests/s with TLS over those without", PHASE.name(), self.connections);
        let judged = || Judged::over_baseline(34, &what, self.ratio(), MUST, AIM);
        (self.connections == JUDGED_CONNECTIONS).then(judged)
    }

    fn json(&self) -> Value {
        let rates = |rounds: &[Measured]| rounds.iter().map(Measured::rate).collect::<Vec<_>>();
        let [cpu, plain_cpu] = self.medians(Measured::cpu_micros);
        json!({
            "connections": self.connections,
            "ratio": self.ratio(),
            "tls_requests_per_second": rates(&self.encrypted),
            "plain_requests_per_second": rates(&self.plain),
            "tls_cpu_microseconds_per_request": cpu,
            "plain_cpu_microseconds_per_request": plain_cpu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::Verdict;
    use crate::measurement::tests::measured;

    #[test]
    fn medians_are_compared_and_the_goal_is_about_many_connections() {
        let rounds = |rates: &[u64]| rates.iter().map(|rate| measured(*rate, 0.5)).collect();
        let compared =
            |connections| Compared { connections, encrypted: rounds(&[85, 10, 300]), plain: rounds(&[100, 50, 200]) };
        assert_eq!(compared(64).row()[..4], ["64", "85", "100", "0.850"]);
        assert_eq!(compared(64).judge().map(|judged| judged.verdict), Some(Verdict::Must));
        assert_eq!(compared(16).judge(), None);
    }
}
