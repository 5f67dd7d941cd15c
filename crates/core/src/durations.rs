//! How long things took, as counts in fixed logarithmic buckets: small to keep, and any number of them can be added up. What is
//! measured is in `activity.rs`.

use std::collections::BTreeMap;

/// The upper bound of the first bucket.
const FIRST_BOUND_MICROS: u64 = 1_000;
/// Two buckets for each doubling, from a millisecond to 24 days; the last one has no upper bound.
pub const BUCKETS: usize = 64;
/// The square root of two, in millionths.
const ROOT_OF_TWO: u64 = 1_414_214;

/// The upper bound of each bucket, in microseconds. A duration that equals a bound is in the bucket above it.
pub const BOUNDS_MICROS: [u64; BUCKETS - 1] = bounds();

const fn bounds() -> [u64; BUCKETS - 1] {
    let mut bounds = [0; BUCKETS - 1];
    let mut bucket = 0;
    while bucket < bounds.len() {
        let doubled = FIRST_BOUND_MICROS << (bucket / 2);
        bounds[bucket] = if bucket % 2 == 0 { doubled } else { doubled * ROOT_OF_TWO / 1_000_000 };
        bucket += 1;
    }
    bounds
}

/// Counted durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Bucket and count, sorted; buckets without a duration are left out. Few are in use at a time.
    buckets: Vec<(u8, u64)>,
    sum_micros: u64,
}

/// Percentiles in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

impl Durations {
    /// From what [`Durations::buckets`] and [`Durations::sum_micros`] gave. Nothing if no durations can have given that.
    pub fn from_parts(buckets: Vec<(u8, u64)>, sum_micros: u64) -> Option<Self> {
        let is_sorted = buckets.is_sorted_by(|(before, _), (after, _)| before < after);
        let is_valid = buckets.iter().all(|(bucket, count)| usize::from(*bucket) < BUCKETS && *count > 0);
        (is_sorted && is_valid).then_some(Self { buckets, sum_micros })
    }

    pub fn add(&mut self, micros: u64) {
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound <= micros);
        self.count(bucket as u8, 1);
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.count(*bucket, *count);
        }
        self.sum_micros = self.sum_micros.saturating_add(other.sum_micros);
    }

    /// Returns the durations that were added since these were `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before: BTreeMap<u8, u64> = earlier.buckets.iter().copied().collect();
        let added = |(bucket, count): &(u8, u64)| {
            (*bucket, count.saturating_sub(before.get(bucket).copied().unwrap_or_default()))
        };
        let buckets = self.buckets.iter().map(added).filter(|(_, count)| *count > 0).collect();
        Self { buckets, sum_micros: self.sum_micros.saturating_sub(earlier.sum_micros) }
    }

    fn count(&mut self, bucket: u8, by: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(by),
            Err(place) => self.buckets.insert(place, (bucket, by)),
        }
    }

    /// Bucket and count, sorted, without empty ones.
    pub fn buckets(&self) -> &[(u8, u64)] {
        &self.buckets
    }

    pub fn sum_micros(&self) -> u64 {
        self.sum_micros
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, (_, count)| total.saturating_add(*count))
    }

    /// Nothing if there is no duration.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |hundredths| self.percentile(hundredths);
        Some(Percentiles { p50: at(50)?, p90: at(90)?, p99: at(99)? })
    }

    /// The duration that so many hundredths of all do not exceed, in seconds: the durations of a bucket count as evenly spread,
    /// so it is at most one bucket off.
    fn percentile(&self, hundredths: u64) -> Option<f64> {
        let rank = self.total().saturating_mul(hundredths).div_ceil(100);
        let mut before: u64 = 0;
        for (bucket, count) in &self.buckets {
            if before.saturating_add(*count) >= rank {
                let (lower, upper) = ends(usize::from(*bucket));
                let share = ((rank - before) as f64 - 0.5) / *count as f64;
                return Some((lower + (upper - lower) * share) / 1e6);
            }
            before = before.saturating_add(*count);
        }
        None
    }
}

/// The lower and upper end of a bucket in microseconds. The last one ends where it begins.
fn ends(bucket: usize) -> (f64, f64) {
    let lower = bucket.checked_sub(1).map_or(0, |below| BOUNDS_MICROS[below]);
    let upper = BOUNDS_MICROS.get(bucket).copied().unwrap_or(lower);
    (lower as f64, upper as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn durations(micros: &[u64]) -> Durations {
        let mut durations = Durations::default();
        micros.iter().for_each(|micros| durations.add(*micros));
        durations
    }

    #[test]
    fn bounds_double_with_every_second_bucket() {
        assert_eq!(BOUNDS_MICROS[..5], [1_000, 1_414, 2_000, 2_828, 4_000]);
        assert_eq!(BOUNDS_MICROS[62], 1_000 << 31);
        assert!(BOUNDS_MICROS.is_sorted_by(|before, after| before < after));
    }

    #[test]
    fn what_was_added_since_is_what_makes_the_later_durations_of_the_earlier_ones() {
        let (earlier, later) = (durations(&[500, 2_000]), durations(&[500, 2_000, 2_000, 90_000]));
        assert_eq!(later.since(&earlier), durations(&[2_000, 90_000]));
        assert_eq!(later.since(&later), Durations::default());
    }

    #[test]
    fn a_duration_is_counted_in_the_bucket_that_holds_it() {
        let cases = [
            (0, 0),
            (999, 0),
            (1_000, 1),
            (1_413, 1),
            (1_414, 2),
            (1_000_000, 20),
            ((1_000 << 31) - 1, 62),
            (1_000 << 31, 63),
            (u64::MAX, 63),
        ];
        for (micros, bucket) in cases {
            assert_eq!(durations(&[micros]).buckets(), [(bucket, 1)], "{micros}");
        }
    }

    #[test]
    fn nothing_has_no_percentiles_and_one_duration_is_all_of_them() {
        assert_eq!(durations(&[]).percentiles(), None);
        let Percentiles { p50, p90, p99 } = durations(&[1_200_000]).percentiles().unwrap();
        assert!((1.0..1.449).contains(&p50) && p50 == p90 && p90 == p99, "{p50}");
        assert_eq!(durations(&[u64::MAX]).percentiles().unwrap().p50, 2_147_483.648);
    }

    #[test]
    fn what_no_durations_can_have_given_is_refused() {
        for buckets in [vec![(64, 1)], vec![(3, 0)], vec![(4, 1), (3, 1)], vec![(3, 1), (3, 1)]] {
            assert_eq!(Durations::from_parts(buckets.clone(), 0), None, "{buckets:?}");
        }
    }

    proptest! {
        #[test]
        fn a_percentile_is_in_the_bucket_of_the_exact_one(mut micros in prop::collection::vec(0..1_u64 << 40, 1..200)) {
            let Percentiles { p50, p90, p99 } = durations(&micros).percentiles().unwrap();
            micros.sort_unstable();
            for (hundredths, seconds) in [(50, p50), (90, p90), (99, p99)] {
                let exact = micros[(micros.len() * hundredths).div_ceil(100) - 1];
                let bucket = BOUNDS_MICROS.partition_point(|bound| *bound <= exact);
                let (lower, upper) = ends(bucket);
                prop_assert!(lower <= seconds * 1e6 + 1e-3 && seconds * 1e6 <= upper + 1e-3, "{exact} {seconds}");
            }
        }

        #[test]
        fn merged_durations_are_those_of_both(
            one in prop::collection::vec(any::<u32>(), 0..50),
            two in prop::collection::vec(any::<u32>(), 0..50),
        ) {
            let of = |micros: &[u32]| durations(&micros.iter().map(|micros| u64::from(*micros)).collect::<Vec<_>>());
            let mut merged = of(&one);
            merged.merge(&of(&two));
            prop_assert_eq!(&merged, &of(&[one, two].concat()));
            prop_assert_eq!(Durations::from_parts(merged.buckets().to_vec(), merged.sum_micros()), Some(merged));
        }
    }
}
