//! Figures: latencies, medians, the goals that they must reach, and the tables and JSON in which they are shown.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value;

/// How far a figure may miss a must before it counts: shared machines are noisy.
const NOISE_MARGIN: f64 = 0.2;
/// The margin where two do the same in turns, and the must itself is a matter of percents.
const SMALL_MARGIN: f64 = 0.03;

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

    pub(crate) fn merged<'l>(all: impl Iterator<Item = &'l Self>) -> Self {
        let mut merged = Self::default();
        all.for_each(|latencies| merged.merge(latencies));
        merged
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
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// In which direction a figure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    AtLeast,
    AtMost,
    /// At least, with little room for noise: two do the same in turns.
    Keeps,
    /// At most, with as little.
    NoMore,
}

/// A bound that a figure of a scenario must reach, and one that it aims at; its row in the list of goals (docs/performance.md).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) row: u8,
    pub(crate) figure: &'static str,
    pub(crate) bound: Bound,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

impl Goal {
    /// NaN (nothing was measured) misses everything.
    fn verdict(&self, measured: f64) -> &'static str {
        let reaches = |bound: f64, margin: f64| match self.bound {
            Bound::AtLeast | Bound::Keeps => measured >= bound * (1.0 - margin),
            Bound::AtMost | Bound::NoMore => measured <= bound * (1.0 + margin),
        };
        let noise = if matches!(self.bound, Bound::Keeps | Bound::NoMore) { SMALL_MARGIN } else { NOISE_MARGIN };
        match () {
            () if reaches(self.aim, 0.0) => "aim reached",
            () if reaches(self.must, 0.0) => "ok",
            () if reaches(self.must, noise) => "within noise",
            () => MISSED,
        }
    }
}

const MISSED: &str = "MISSED";

/// Aligned columns of text, of which the first ones stand to the left.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) heading: &'static [&'static str],
    pub(crate) left: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    fn text(&self) -> String {
        let heading: Vec<String> = self.heading.iter().map(|text| (*text).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&heading).chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        let cell = |(column, text): (usize, &String)| match column < self.left {
            true => format!("{text:<width$}", width = widths[column]),
            false => format!("{text:>width$}", width = widths[column]),
        };
        let line =
            |row: &Vec<String>| row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned();
        rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// An object for each row. What is a number in the table is one here.
    fn json(&self) -> Value {
        let value = |text: &String| text.parse::<f64>().map_or_else(|_| text.as_str().into(), Value::from);
        let member = |(name, text): (&&str, &String)| ((*name).to_owned(), value(text));
        self.rows.iter().map(|row| self.heading.iter().zip(row).map(member).collect::<Value>()).collect()
    }
}

/// Everything that was found: a table of those who took turns, and all other figures with their verdicts.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) turns: Table,
    /// Errors, and tasks handed out twice, in all turns.
    pub(crate) faults: [u64; 2],
    figures: Table,
}

impl Report {
    pub(crate) fn new(turns: &'static [&'static str]) -> Self {
        let heading = &["scenario", "figure", "verdict", "measured", "must", "aim", "row"];
        let figures = Table { heading, left: 3, rows: Vec::new() };
        Self { turns: Table { heading: turns, left: 2, rows: Vec::new() }, faults: [0; 2], figures }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.rows.is_empty() && self.figures.rows.is_empty()
    }

    /// Adds a figure with its goals, if it has any and is to be judged.
    pub(crate) fn add(&mut self, scenario: &str, name: &str, measured: f64, goals: &[Goal]) {
        let mut of_figure: Vec<Option<&Goal>> = goals.iter().filter(|goal| goal.figure == name).map(Some).collect();
        if of_figure.is_empty() {
            of_figure.push(None);
        }
        for goal in of_figure {
            let verdict = goal.map_or("", |goal| goal.verdict(measured));
            let bounds = goal.map_or([const { String::new() }; 3], |goal| {
                [goal.must, goal.aim, goal.row.into()].map(|number: f64| number.to_string())
            });
            let cells = [scenario.to_owned(), name.to_owned(), verdict.to_owned(), format!("{measured:.3}")];
            self.figures.rows.push(cells.into_iter().chain(bounds).collect());
        }
    }

    /// Shows everything, and names what is missed; returns true if no must is.
    pub(crate) fn show(&self, as_json: bool) -> bool {
        let tables = [("turns", &self.turns), ("figures", &self.figures)];
        let tables = tables.into_iter().filter(|(_, table)| !table.rows.is_empty());
        line(&match as_json {
            true => format!("{:#}", tables.map(|(name, table)| (name.to_owned(), table.json())).collect::<Value>()),
            false => tables.map(|(_, table)| table.text()).collect::<Vec<_>>().join("\n\n"),
        });
        let missed: Vec<&Vec<String>> = self.figures.rows.iter().filter(|row| row[2] == MISSED).collect();
        for row in &missed {
            progress(&format!("missed: {}, {}: must {}, is {} (row {})", row[0], row[1], row[4], row[3], row[6]));
        }
        missed.is_empty()
    }
}

/// Where the figures of a scenario go.
pub(crate) struct Found<'r> {
    pub(crate) report: &'r mut Report,
    pub(crate) scenario: &'static str,
    pub(crate) goals: &'static [Goal],
}

impl Found<'_> {
    pub(crate) fn add(&mut self, name: &str, measured: f64) {
        self.report.add(self.scenario, name, measured, self.goals);
    }

    pub(crate) fn latencies(&mut self, name: &str, latencies: &Latencies) {
        for (what, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.add(&format!("{name}, {what} ms"), latencies.millis(share));
        }
    }
}

/// Prints one or more lines of a result.
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
            let goal = Goal { row: 1, figure: "", bound, must, aim };
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
        assert_eq!(
            [median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])].map(f64::to_bits),
            [2.0, 2.5].map(f64::to_bits)
        );
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_figure_stands_beside_each_of_its_goals() {
        let goal = |row, must| Goal { row, figure: "ratio", bound: Bound::AtLeast, must, aim: 1.0 };
        let mut report = Report::new(&["scenario"]);
        report.add("list", "ratio", 0.3, &[goal(4, 0.38), goal(28, 0.25)]);
        report.add("list", "other", 2.0, &[goal(4, 0.38)]);
        let verdicts: Vec<&str> = report.figures.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(verdicts, [MISSED, "ok", ""]);
        assert!(!report.show(true));
        assert_eq!(report.figures.json()[1]["must"], 0.25);
        let table = Table { heading: &["phase", "n"], left: 1, rows: vec![vec!["create".to_owned(), "7".to_owned()]] };
        assert_eq!(table.text(), "phase   n\ncreate  7");
    }
}
