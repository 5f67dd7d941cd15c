//! What the measurements must reach and aim at: those of `run`. The others judge theirs where they measure.

use crate::measurement::{Measurement, Storage};
use crate::operation::Phase;

/// How far a measurement may miss a must before it counts: shared machines are noisy.
const NOISE_MARGIN: f64 = 0.2;
/// The same where two builds do the same in turns, and the must itself is a matter of percents.
const SMALL_MARGIN: f64 = 0.03;

/// What of a measurement is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// Requests per second over the reference; more is better.
    Ratio,
    /// CPU per request over the reference's; less is better.
    CpuRatio,
    /// The 99th percentile of claims over their median; less is better.
    ClaimTail,
    /// The share of one core that the server uses; less is better.
    CoreShare,
    /// Requests that share one sync; more is better.
    RequestsPerSync,
    /// The same with one connection: more than one would mean that not every answer was synced.
    RequestsPerSyncAlone,
}

struct Goal {
    row: u8,
    storage: Storage,
    phase: Phase,
    connections: usize,
    quantity: Quantity,
    must: f64,
    aim: f64,
}

const fn goal(row: u8, storage: Storage, phase: Phase, connections: usize, must: f64, aim: f64) -> Goal {
    Goal { row, storage, phase, connections, quantity: Quantity::Ratio, must, aim }
}

/// About claim-complete on disk.
const fn of_claims(row: u8, quantity: Quantity, connections: usize, must: f64, aim: f64) -> Goal {
    Goal { row, storage: Storage::Disk, phase: Phase::ClaimComplete, connections, quantity, must, aim }
}

/// 1,000 workers that find nothing to do, once a second each.
const IDLE_WORKERS: Goal = Goal {
    row: 14,
    storage: Storage::Disk,
    phase: Phase::Poll,
    connections: 1000,
    quantity: Quantity::CoreShare,
    must: 0.05,
    aim: 0.02,
};

const GOALS: &[Goal] = &[
    goal(1, Storage::Disk, Phase::ClaimComplete, 64, 0.30, 0.45),
    goal(1, Storage::Disk, Phase::ClaimComplete, 16, 0.19, 0.28),
    goal(1, Storage::Disk, Phase::ClaimComplete, 1, 0.09, 0.14),
    goal(2, Storage::Tmpfs, Phase::ClaimComplete, 64, 0.32, 0.48),
    goal(2, Storage::Tmpfs, Phase::ClaimComplete, 16, 0.28, 0.41),
    goal(2, Storage::Tmpfs, Phase::ClaimComplete, 1, 0.19, 0.30),
    goal(3, Storage::Disk, Phase::Create, 64, 0.23, 0.40),
    goal(3, Storage::Disk, Phase::Create, 16, 0.17, 0.30),
    goal(4, Storage::Disk, Phase::Get, 16, 0.45, 0.70),
    goal(4, Storage::Disk, Phase::Count, 16, 0.45, 0.70),
    goal(4, Storage::Disk, Phase::List, 16, 0.38, 0.80),
    goal(4, Storage::Disk, Phase::Mixed, 16, 0.22, 0.35),
    of_claims(5, Quantity::CpuRatio, 64, 4.0, 2.5),
    of_claims(6, Quantity::RequestsPerSyncAlone, 1, 1.05, 1.05),
    of_claims(6, Quantity::RequestsPerSync, 16, 5.0, 8.0),
    of_claims(6, Quantity::RequestsPerSync, 64, 12.0, 20.0),
    of_claims(9, Quantity::ClaimTail, 16, 8.0, 4.0),
    IDLE_WORKERS,
    goal(20, Storage::Disk, Phase::BatchCreate, 16, 0.40, 0.65),
    goal(21, Storage::Disk, Phase::BatchClaimComplete, 16, 0.42, 0.65),
    goal(28, Storage::Disk, Phase::List, 16, 0.25, 0.38),
    goal(29, Storage::Disk, Phase::CreateAmongMany, 64, 0.25, 0.40),
    goal(29, Storage::Disk, Phase::CreateAmongMany, 16, 0.22, 0.30),
    goal(30, Storage::Disk, Phase::Get, 16, 0.50, 0.70),
];

/// How a measurement stands to its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Aim,
    Must,
    /// It misses the must, but by no more than noise could explain.
    Noise,
    Missed,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aim => "aim reached",
            Self::Must => "ok",
            Self::Noise => "within noise",
            Self::Missed => "MISSED",
        }
    }
}

/// A goal and what was measured for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) row: u8,
    pub(crate) what: String,
    pub(crate) must: f64,
    pub(crate) aim: f64,
    pub(crate) measured: f64,
    pub(crate) verdict: Verdict,
}

/// Judges all measurements for which there is a goal.
pub(crate) fn judge(measurements: &[Measurement]) -> Vec<Judged> {
    let of = |goal: &Goal| goal.judge(measurements.iter().find(|measurement| goal.is_about(measurement))?);
    let mut judged: Vec<Judged> = GOALS.iter().filter_map(of).collect();
    judged.extend(faults(measurements));
    judged
}

/// Row 17: errors, and tasks handed out twice. Noise is no excuse for these.
fn faults(measurements: &[Measurement]) -> impl Iterator<Item = Judged> {
    let errors = measurements.iter().flat_map(|measurement| measurement.errors().into_values()).sum();
    let double_claims = measurements.iter().map(|measurement| measurement.double_claims).sum();
    [("errors", errors), ("tasks handed out twice", double_claims)].into_iter().map(|(what, count): (&str, u64)| {
        Judged {
            row: 17,
            what: format!("{what}, all phases"),
            must: 0.0,
            aim: 0.0,
            measured: count as f64,
            verdict: if count == 0 { Verdict::Aim } else { Verdict::Missed },
        }
    })
}

impl Judged {
    /// Judges a value that is to be small, outside of all phases.
    pub(crate) fn at_most(row: u8, what: &str, measured: f64, must: f64, aim: f64) -> Self {
        Self {
            row,
            what: what.to_owned(),
            must,
            aim,
            measured,
            verdict: verdict(measured, must, aim, false, NOISE_MARGIN),
        }
    }

    /// Judges a value that is to be large, outside of all phases.
    pub(crate) fn at_least(row: u8, what: &str, measured: f64, must: f64, aim: f64) -> Self {
        Self {
            row,
            what: what.to_owned(),
            must,
            aim,
            measured,
            verdict: verdict(measured, must, aim, true, NOISE_MARGIN),
        }
    }

    /// Judges two builds in turns, one over the other.
    pub(crate) fn over_baseline(row: u8, what: &str, measured: f64, must: f64, aim: f64) -> Self {
        Self {
            row,
            what: what.to_owned(),
            must,
            aim,
            measured,
            verdict: verdict(measured, must, aim, true, SMALL_MARGIN),
        }
    }
}

impl Goal {
    fn is_about(&self, measurement: &Measurement) -> bool {
        // The rate of an open loop is given; it shows nothing about the server.
        let open = self.quantity == Quantity::CoreShare;
        open == measurement.rate_wanted.is_some()
            && (self.storage, self.phase, self.connections)
                == (measurement.storage, measurement.phase, measurement.connections)
    }

    fn counted(&self) -> &'static str {
        match self.phase {
            Phase::BatchCreate => "tasks/s over requests/s of the reference",
            Phase::BatchClaimComplete => "pairs/s over requests/s of the reference",
            _ => "requests/s over reference",
        }
    }

    /// None when the quantity was not measured.
    fn judge(&self, measurement: &Measurement) -> Option<Judged> {
        let (measured, quantity) = match self.quantity {
            Quantity::Ratio => (measurement.ratio(), self.counted()),
            Quantity::CpuRatio => (measurement.cpu_ratio(), "CPU/request over reference"),
            Quantity::ClaimTail => (measurement.claim_tail(), "claim p99 over p50"),
            Quantity::CoreShare => (measurement.core_share(), "share of one core"),
            Quantity::RequestsPerSync | Quantity::RequestsPerSyncAlone => {
                (measurement.requests_per_sync?, "requests per sync")
            }
        };
        let more_is_better = matches!(self.quantity, Quantity::Ratio | Quantity::RequestsPerSync);
        let verdict = verdict(measured, self.must, self.aim, more_is_better, NOISE_MARGIN);
        let what =
            format!("{}, {} connections, {}: {quantity}", self.phase.name(), self.connections, self.storage.name());
        Some(Judged { row: self.row, what, must: self.must, aim: self.aim, measured, verdict })
    }
}

/// NaN (nothing was measured) misses everything.
fn verdict(measured: f64, must: f64, aim: f64, more_is_better: bool, noise: f64) -> Verdict {
    let reaches = |bound: f64, margin: f64| {
        if more_is_better { measured >= bound * (1.0 - margin) } else { measured <= bound * (1.0 + margin) }
    };
    match () {
        () if reaches(aim, 0.0) => Verdict::Aim,
        () if reaches(must, 0.0) => Verdict::Must,
        () if reaches(must, noise) => Verdict::Noise,
        () => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::measurement;

    #[test]
    fn a_verdict_has_a_margin_for_noise() {
        let cases = [(0.5, Verdict::Aim), (0.3, Verdict::Must), (0.25, Verdict::Noise), (0.2, Verdict::Missed)];
        for (measured, expected) in cases {
            assert_eq!(verdict(measured, 0.3, 0.45, true, NOISE_MARGIN), expected, "{measured}");
        }
        let cases = [(2.0, Verdict::Aim), (3.0, Verdict::Must), (4.5, Verdict::Noise), (5.0, Verdict::Missed)];
        for (measured, expected) in cases {
            assert_eq!(verdict(measured, 4.0, 2.5, false, NOISE_MARGIN), expected, "{measured}");
        }
        assert_eq!(Judged::over_baseline(27, "x", 0.96, 0.98, 1.0).verdict, Verdict::Noise);
        assert_eq!(Judged::over_baseline(27, "x", 0.94, 0.98, 1.0).verdict, Verdict::Missed);
        assert_eq!(verdict(f64::NAN, 0.3, 0.45, true, NOISE_MARGIN), Verdict::Missed);
        assert_eq!(verdict(f64::NAN, 4.0, 2.5, false, NOISE_MARGIN), Verdict::Missed);
    }

    #[test]
    fn only_what_was_measured_is_judged() {
        let judged = judge(&[measurement(Phase::ClaimComplete, 64, &[(1000, 400)])]);
        let rows: Vec<(u8, Verdict)> = judged.iter().map(|judged| (judged.row, judged.verdict)).collect();
        assert_eq!(rows, [(1, Verdict::Must), (5, Verdict::Aim), (17, Verdict::Aim), (17, Verdict::Aim)]);
    }

    #[test]
    fn batches_are_judged_by_items_over_single_requests() {
        let mut batches = measurement(Phase::BatchClaimComplete, 16, &[(1000, 10)]);
        batches.rounds[0].server.batch_items = Some(500);
        let judged = judge(&[batches]);
        assert_eq!((judged[0].row, judged[0].verdict), (21, Verdict::Must));
        assert!(judged[0].what.contains("pairs/s over requests/s"), "{judged:?}");
    }

    #[test]
    fn a_later_goal_stands_beside_the_earlier_one() {
        let judged = judge(&[measurement(Phase::List, 16, &[(1000, 300)])]);
        let rows: Vec<(u8, Verdict)> = judged.iter().map(|judged| (judged.row, judged.verdict)).collect();
        assert_eq!(rows[..2], [(4, Verdict::Missed), (28, Verdict::Must)]);
    }

    #[test]
    fn an_open_loop_is_not_judged_by_its_rate() {
        let mut open = measurement(Phase::ClaimComplete, 64, &[(1000, 10)]);
        open.rate_wanted = Some(10.0);
        let rows: Vec<u8> = judge(&[open]).iter().map(|judged| judged.row).collect();
        assert_eq!(rows, [17, 17]);
    }

    #[test]
    fn one_error_is_a_miss() {
        let mut measurement = measurement(Phase::Lifecycle, 64, &[(1000, 400)]);
        measurement.rounds[0].server.errors.insert("stale_run".to_owned(), 1);
        measurement.double_claims = 2;
        let measured: Vec<f64> = judge(&[measurement]).iter().map(|judged| judged.measured).collect();
        assert_eq!(measured, [1.0, 2.0]);
    }
}
