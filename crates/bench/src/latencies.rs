//! Latencies of many requests, to three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new(3).unwrap_or_else(|error| unreachable!("three digits are supported: {error}")))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        // The range grows with the values, so this does not fail.
        let _ = self.0.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn max_nanos(&self) -> u64 {
        self.0.max()
    }

    /// The latency that this share (0 to 1) of all requests does not exceed; 0 when there are none.
    pub(crate) fn quantile_nanos(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub(crate) fn quantile_millis(&self, share: f64) -> f64 {
        self.quantile_nanos(share) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_thousand_values() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        for (share, exact) in [(0.5, 500_000), (0.9, 900_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let value = latencies.quantile_nanos(share);
            assert!(value >= exact && value <= exact + exact / 1000, "{share}: {value}");
        }
        assert_eq!(latencies.count(), 1000);
        assert!((1_000_000..=1_001_000).contains(&latencies.max_nanos()), "{}", latencies.max_nanos());
    }

    #[test]
    fn merging_is_counting_both() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.record(Duration::from_nanos(10));
        other.record(Duration::from_nanos(20));
        other.record(Duration::from_nanos(30));
        one.merge(&other);
        assert_eq!((one.count(), one.quantile_nanos(0.5), one.max_nanos()), (3, 20, 30));
    }

    #[test]
    fn without_values_there_is_zero() {
        assert_eq!(Latencies::default().quantile_nanos(0.99), 0);
    }
}
