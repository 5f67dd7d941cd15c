//! Latencies in logarithmic buckets, 64 to each power of two: less than 1.6 % off, whatever the range.
//! Only whole numbers; their unit (here nanoseconds) is the caller's business.

/// Buckets for each power of two, as a power of two.
const FINE_BITS: u32 = 6;
const FINE: usize = 1 << FINE_BITS;
/// Enough for every `u64`.
const BUCKETS: usize = (64 - FINE_BITS as usize + 1) * FINE;

/// How often which value was seen.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Counts everything that another one has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The value that this share (0 to 1) of all values does not exceed; 0 when there are none.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a rank")]
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_bound(index).min(self.max);
            }
        }
        self.max
    }
}

/// The bucket of a value: its highest bits.
fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    if bits <= FINE_BITS {
        return usize::try_from(value).unwrap_or(0);
    }
    let shift = bits - FINE_BITS - 1;
    // The leading one stands for a whole row of buckets, the bits behind it for the place in the row.
    usize::try_from(value >> shift).unwrap_or(0) + shift as usize * FINE
}

/// The largest value of a bucket.
fn upper_bound(index: usize) -> u64 {
    if index < 2 * FINE {
        return index as u64;
    }
    let shift = index / FINE - 1;
    let first = (index - shift * FINE) as u64;
    (((u128::from(first) + 1) << shift) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_the_bound_is_close() {
        let values = (0..64).flat_map(|bit| [0, 1, 7].map(|more| (1_u64 << bit) + more)).chain([0, u64::MAX]);
        for value in values {
            let bound = upper_bound(bucket(value));
            assert!(bound >= value, "{value} is above {bound}");
            assert!(bound - value <= value / 64, "{value} is far from {bound}");
        }
    }

    #[test]
    fn buckets_rise_with_values() {
        let buckets: Vec<usize> = (0..10_000).map(bucket).collect();
        assert!(buckets.is_sorted());
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_of_a_thousand_values() {
        let mut histogram = Histogram::default();
        for value in 1..=1000 {
            histogram.record(value * 1000);
        }
        for (share, exact) in [(0.5, 500_000), (0.9, 900_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let value = histogram.quantile(share);
            assert!(value >= exact && value <= exact + exact / 64, "{share}: {value}");
        }
        assert_eq!((histogram.total(), histogram.max()), (1000, 1_000_000));
    }

    #[test]
    fn merging_is_counting_both() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.record(10);
        other.record(20);
        other.record(30);
        one.merge(&other);
        assert_eq!((one.total(), one.quantile(0.5), one.max()), (3, 20, 30));
    }

    #[test]
    fn an_empty_histogram_says_zero() {
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }
}
