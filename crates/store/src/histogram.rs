//! A histogram that many threads add to, for metrics: fixed bounds, and two relaxed atomic additions for each value. Which values
//! are counted is decided by those who own one.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values by `N` upper bounds, and of those above all of them.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// The counts of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramValues {
    /// Upper bound and how many values are in this bucket, and in no lower one. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    pub sum: f64,
}

impl HistogramValues {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl<const N: usize> Histogram<N> {
    /// An empty one. A value that equals a bound is in the bucket below it.
    pub fn new(bounds: &'static [u64; N]) -> Self {
        let counts = array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, counts, above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    pub fn add(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(bucket).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns what was counted so far; `scale` is how many of the counted units make one of the unit that is shown.
    pub fn read(&self, scale: f64) -> HistogramValues {
        let finite = self.bounds.iter().zip(&self.counts).map(|(bound, count)| (*bound as f64 / scale, count));
        let buckets = finite.chain([(f64::INFINITY, &self.above)]);
        HistogramValues {
            buckets: buckets.map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.add(value);
        }
        let values = histogram.read(10.0);
        assert_eq!(values.buckets, [(1.0, 2), (2.0, 2), (f64::INFINITY, 2)]);
        assert_eq!((values.sum, values.count()), (106.2, 6));
    }
}
