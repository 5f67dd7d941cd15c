//! Figures: latencies, medians, the goals that they must reach, and how they are printed.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies of many requests, to three significant digits.
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

    /// The milliseconds that this share (0 to 1) of all requests does not exceed; 0 when there are none.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e6
    }
}

/// The middle value; of an even number the mean of the two in the middle; NaN of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(lower), Some(upper)) => f64::midpoint(*lower, *upper),
        _ => f64::NAN,
    }
}

/// In which direction a figure is good, and how far it may miss a must before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// With a fifth for noise, because machines are shared.
    AtLeast,
    AtMost,
    /// At least, with 3 % for noise: two do the same in turns.
    Keeps,
    /// At most, with as little.
    NoMore,
}

/// A bound that a figure of a scenario must reach, and one that it aims at; the figure by the end of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) figure: &'static str,
    pub(crate) bound: Bound,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

const MISSED: &str = "MISSED";

impl Goal {
    pub(crate) fn is_of(&self, figure: &str) -> bool {
        figure.ends_with(self.figure)
    }

    /// NaN (nothing was measured) misses everything.
    fn verdict(&self, measured: f64) -> &'static str {
        let (sign, noise) = match self.bound {
            Bound::AtLeast => (1.0, 0.2),
            Bound::AtMost => (-1.0, 0.2),
            Bound::Keeps => (1.0, 0.03),
            Bound::NoMore => (-1.0, 0.03),
        };
        let reaches = |bound: f64| sign * measured >= sign * bound;
        match () {
            () if reaches(self.aim) => "aim reached",
            () if reaches(self.must) => "ok",
            () if reaches(self.must - sign * noise * self.must) => "within noise",
            () => MISSED,
        }
    }
}

/// What was found so far. Each figure is printed as soon as it is there.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) figures: usize,
    /// The figures that miss a must.
    pub(crate) missed: Vec<String>,
}

impl Report {
    /// Adds a figure, which is judged if it has a goal.
    pub(crate) fn add(&mut self, scenario: &str, name: &str, measured: f64, goals: &[Goal]) {
        self.figures += 1;
        let figure = format!("{scenario:<30} {name:<60} {measured:>12.3}");
        match goals.iter().find(|goal| goal.is_of(name)) {
            None => line(&figure),
            Some(goal @ Goal { must, aim, .. }) => {
                let judged = format!("{figure}  {} (must {must}, aim {aim})", goal.verdict(measured));
                line(&judged);
                self.missed.extend((goal.verdict(measured) == MISSED).then_some(judged));
            }
        }
    }
}

/// Prints one line of a result.
pub(crate) fn line(text: &str) {
    let mut stdout = io::stdout().lock();
    // A reader that went away is no reason to stop.
    drop(writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
}

/// Prints one line about what happens.
pub(crate) fn progress(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_a_margin_for_noise_and_nothing_measured_misses() {
        for (bound, must, aim, cases) in [
            (Bound::AtLeast, 0.3, 0.45, [(0.5, "aim reached"), (0.3, "ok"), (0.25, "within noise"), (0.2, MISSED)]),
            (Bound::AtMost, 4.0, 2.5, [(2.0, "aim reached"), (3.0, "ok"), (4.5, "within noise"), (5.0, MISSED)]),
            (Bound::Keeps, 0.98, 1.0, [(1.0, "aim reached"), (0.99, "ok"), (0.96, "within noise"), (0.94, MISSED)]),
            (Bound::NoMore, 1.0, 0.85, [(0.8, "aim reached"), (1.0, "ok"), (1.02, "within noise"), (1.04, MISSED)]),
            (Bound::AtMost, 0.0, 0.0, [(0.0, "aim reached"), (1.0, MISSED), (2.0, MISSED), (f64::NAN, MISSED)]),
        ] {
            let goal = Goal { figure: "", bound, must, aim };
            for (measured, verdict) in cases {
                assert_eq!(goal.verdict(measured), verdict, "{goal:?} {measured}");
            }
            assert_eq!(goal.verdict(f64::NAN), MISSED);
        }
    }

    #[test]
    fn quantiles_and_medians() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        for (share, exact) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
            assert!((latencies.millis(share) / exact - 1.0).abs() < 0.001, "{}", latencies.millis(share));
        }
        assert_eq!(Latencies::default().millis(0.99).to_bits(), 0);
        let expected = [2.0, 2.5].map(f64::to_bits);
        assert_eq!([median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])].map(f64::to_bits), expected);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_figure_is_judged_by_the_goal_of_its_name_only() {
        let goals = [Goal { figure: "ratio", bound: Bound::AtLeast, must: 0.38, aim: 1.0 }];
        let mut report = Report::default();
        report.add("list", "ratio", 0.3, &goals);
        report.add("list", "ratio", 0.5, &goals);
        report.add("list", "other", 0.1, &goals);
        assert_eq!((report.figures, report.missed.len()), (3, 1));
        assert!(
            report.missed[0].starts_with("list ") && report.missed[0].ends_with("0.300  MISSED (must 0.38, aim 1)")
        );
    }
}
