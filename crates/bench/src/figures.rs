//! Figures: latencies, medians, the goals that they must reach, and how they are printed.

use std::io::{self, Write};
use std::time::Duration;

/// Latencies of many requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The milliseconds that this share (0 to 1) of all requests does not exceed; 0 when there are none.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        let (mut sorted, place) = (self.0.clone(), (share * self.0.len() as f64).ceil() as usize);
        sorted.sort_unstable();
        sorted.get(place.saturating_sub(1)).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
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

/// A bound that a figure of a scenario must reach, and one that it aims at; the figure by the last words of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) figure: &'static str,
    /// In which direction the figure is good.
    pub(crate) is_least: bool,
    /// How far it may miss the must before it counts.
    pub(crate) noise: f64,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

const MISSED: &str = "MISSED";

impl Goal {
    pub(crate) fn is_of(&self, figure: &str) -> bool {
        figure.strip_suffix(self.figure).is_some_and(|before| before.is_empty() || before.ends_with(' '))
    }

    /// NaN (nothing was measured) misses everything.
    fn verdict(&self, measured: f64) -> &'static str {
        let sign = if self.is_least { 1.0 } else { -1.0 };
        let reaches = |bound: f64| sign * measured >= sign * bound;
        match () {
            () if reaches(self.aim) => "aim reached",
            () if reaches(self.must) => "ok",
            () if reaches(self.must - sign * self.noise * self.must) => "within noise",
            () => MISSED,
        }
    }
}

/// Returns the line of a figure, with its goal if it has one, and whether it misses it.
pub(crate) fn judged(scenario: &str, name: &str, measured: f64, goals: &[Goal]) -> (String, bool) {
    let figure = format!("{scenario:<30} {name:<60} {measured:>12.3}");
    match goals.iter().find(|goal| goal.is_of(name)) {
        None => (figure, false),
        Some(goal @ Goal { must, aim, .. }) => {
            let verdict = goal.verdict(measured);
            (format!("{figure}  {verdict} (must {must}, aim {aim})"), verdict == MISSED)
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
        for (is_least, noise, must, aim, cases) in [
            (true, 0.2, 0.3, 0.45, [(0.5, "aim reached"), (0.3, "ok"), (0.25, "within noise"), (0.2, MISSED)]),
            (false, 0.2, 4.0, 2.5, [(2.0, "aim reached"), (3.0, "ok"), (4.5, "within noise"), (5.0, MISSED)]),
            (true, 0.03, 0.98, 1.0, [(1.0, "aim reached"), (0.99, "ok"), (0.96, "within noise"), (0.94, MISSED)]),
            (false, 0.03, 1.0, 0.85, [(0.8, "aim reached"), (1.0, "ok"), (1.02, "within noise"), (1.04, MISSED)]),
            (false, 0.2, 0.0, 0.0, [(0.0, "aim reached"), (1.0, MISSED), (2.0, MISSED), (f64::NAN, MISSED)]),
        ] {
            let goal = Goal { figure: "", is_least, noise, must, aim };
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
        let goals = [Goal { figure: "ratio", is_least: true, noise: 0.2, must: 0.38, aim: 1.0 }];
        let (line, is_missed) = judged("list", "16 disk ratio", 0.3, &goals);
        assert!(line.starts_with("list ") && line.ends_with("0.300  MISSED (must 0.38, aim 1)") && is_missed, "{line}");
        for (name, measured) in [("16 disk ratio", 0.5), ("other", 0.1), ("16 disk CPUratio", 0.1)] {
            assert!(!judged("list", name, measured, &goals).1, "{name}");
        }
    }
}
