//! A measurement: one phase at one number of connections, several rounds of reference and server, and what they come to.

use std::collections::BTreeMap;

use crate::latencies::Latencies;
use crate::load::Measured;
use crate::operation::Phase;

/// Where the database of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Disk,
    Tmpfs,
}

impl Storage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Tmpfs => "tmpfs",
        }
    }
}

/// The reference, and directly after it the server.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) reference: Measured,
    pub(crate) server: Measured,
}

/// One phase at one number of connections.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) storage: Storage,
    pub(crate) phase: Phase,
    pub(crate) connections: usize,
    /// Requests per second of an open loop; none for a closed loop.
    pub(crate) rate_wanted: Option<f64>,
    pub(crate) rounds: Vec<Round>,
    /// How often per second the disk synced an append just before.
    pub(crate) syncs_per_second: f64,
    /// How many requests shared one sync of the database, where that was counted.
    pub(crate) requests_per_sync: Option<f64>,
    /// Tasks handed out twice.
    pub(crate) double_claims: u64,
}

impl Measurement {
    pub(crate) fn rate(&self) -> f64 {
        self.median(|round| round.server.rate())
    }

    pub(crate) fn reference_rate(&self) -> f64 {
        self.median(|round| round.reference.rate())
    }

    /// The server over the reference of the same round.
    pub(crate) fn ratio(&self) -> f64 {
        self.median(|round| round.server.rate() / round.reference.rate())
    }

    /// CPU time of the server for one request or item, in microseconds.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.median(|round| round.server.cpu_micros())
    }

    /// The same over the reference's.
    pub(crate) fn cpu_ratio(&self) -> f64 {
        self.median(|round| round.server.cpu_micros() / round.reference.cpu_micros())
    }

    pub(crate) fn core_share(&self) -> f64 {
        self.median(|round| round.server.cpu_seconds / round.server.seconds)
    }

    /// The 99th percentile of claims over their median.
    pub(crate) fn claim_tail(&self) -> f64 {
        self.median(|round| round.server.claim_tail())
    }

    /// Body bytes per request or item: the reference's over the server's. Far from 1, the comparison is not fair; batches have
    /// no counterpart, and are compared with single requests all the same.
    pub(crate) fn body_ratio(&self) -> f64 {
        let bytes = |measured: &Measured| measured.body_bytes as f64 / measured.items() as f64;
        self.median(|round| bytes(&round.reference) / bytes(&round.server))
    }

    pub(crate) fn latency(&self) -> Latencies {
        let mut all = Latencies::default();
        self.rounds.iter().for_each(|round| all.merge(&round.server.latency()));
        all
    }

    /// The memory of the server at its largest.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.rounds.iter().map(|round| round.server.rss_bytes).max().unwrap_or(0)
    }

    /// Errors of all rounds by code. Those of the reference count too: they spoil the comparison.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = BTreeMap::new();
        for round in &self.rounds {
            let named = round.reference.errors.iter().map(|(code, count)| (format!("reference: {code}"), count));
            for (code, count) in named.chain(round.server.errors.iter().map(|(code, count)| (code.clone(), count))) {
                *errors.entry(code).or_default() += count;
            }
        }
        errors
    }

    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value).collect())
    }
}

/// The middle value; of an even number the mean of the two in the middle; NaN of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operation::{OPERATIONS, Operation};

    /// Something measured in one second.
    pub(crate) fn measured(requests: u64, cpu_seconds: f64) -> Measured {
        let mut latencies = vec![Latencies::default(); OPERATIONS];
        (0..requests).for_each(|_| latencies[Operation::Claim as usize].record(Duration::from_nanos(1000)));
        let errors = BTreeMap::new();
        Measured {
            seconds: 1.0,
            latencies,
            errors,
            cpu_seconds,
            rss_bytes: 1,
            body_bytes: requests,
            batch_items: None,
            answered: requests,
        }
    }

    /// A measurement with these requests per second of reference and server.
    pub(crate) fn measurement(phase: Phase, connections: usize, rates: &[(u64, u64)]) -> Measurement {
        let round = |(reference, server): &(u64, u64)| Round {
            reference: measured(*reference, 0.5),
            server: measured(*server, 0.5),
        };
        let rounds = rates.iter().map(round).collect();
        Measurement {
            storage: Storage::Disk,
            phase,
            connections,
            rate_wanted: None,
            rounds,
            syncs_per_second: 1000.0,
            requests_per_sync: None,
            double_claims: 0,
        }
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let measurement = measurement(Phase::ClaimComplete, 16, &[(1000, 500), (100, 60), (2000, 400)]);
        assert!((measurement.ratio() - 0.5).abs() < 1e-9, "{}", measurement.ratio());
        assert!((measurement.rate() - 400.0).abs() < 1e-9);
        assert!((measurement.reference_rate() - 1000.0).abs() < 1e-9);
        assert!((measurement.cpu_ratio() - 2.0).abs() < 1e-9, "{}", measurement.cpu_ratio());
        assert!((measurement.body_ratio() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_batch_counts_by_its_items() {
        let mut measurement = measurement(Phase::BatchCreate, 16, &[(1000, 10)]);
        measurement.rounds[0].server.batch_items = Some(800);
        assert!((measurement.ratio() - 0.8).abs() < 1e-9, "{}", measurement.ratio());
        assert!((measurement.cpu_ratio() - 1.25).abs() < 1e-9, "{}", measurement.cpu_ratio());
        assert_eq!(measurement.latency().count(), 10);
    }

    #[test]
    fn errors_of_both_servers_are_told_apart() {
        let mut measurement = measurement(Phase::Create, 1, &[(1, 1), (1, 1)]);
        for round in &mut measurement.rounds {
            round.server.errors.insert("stale_run".to_owned(), 2);
            round.reference.errors.insert("400".to_owned(), 1);
        }
        let errors: Vec<(String, u64)> = measurement.errors().into_iter().collect();
        assert_eq!(errors, [("reference: 400".to_owned(), 2), ("stale_run".to_owned(), 4)]);
    }
}
