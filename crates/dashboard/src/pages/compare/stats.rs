//! Mean and deviation of numbers, computed with floats: they are shown rounded.

/// What is known of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) count: usize,
    pub(super) mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Summary {
    /// Adds a number, without the sums that grow beyond what a float holds exactly (Welford).
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// The standard deviation of the sample (divided by n - 1); none of fewer than two numbers.
    pub(super) fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}

impl FromIterator<f64> for Summary {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut summary = Self::default();
        values.into_iter().for_each(|value| summary.add(value));
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_the_sample() {
        let summary: Summary = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().collect();
        assert_eq!((summary.count, summary.mean), (8, 5.0));
        assert!((summary.deviation().unwrap() - 2.138_089_935).abs() < 1e-9);
        assert_eq!(Summary::from_iter([3.0]).deviation(), None);
        assert_eq!(Summary::from_iter([3.0, 3.0, 3.0]).deviation(), Some(0.0));
    }

    #[test]
    fn a_large_offset_does_not_spoil_the_deviation() {
        let summary: Summary = [1e15, 1e15 + 1.0, 1e15 + 2.0].into_iter().collect();
        assert_eq!((summary.mean, summary.deviation()), (1e15 + 1.0, Some(1.0)));
    }
}
