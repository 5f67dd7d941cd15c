//! Figures: latencies, medians, the goals that they must reach, and the tables and JSON in which they are shown.

use std::io::{self, Write};
use std::time::{Duration, Instant};

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

    /// Records how long something takes, and returns what it returns.
    pub(crate) async fn time<T>(&mut self, work: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let done = work.await;
        self.record(begin.elapsed());
        done
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
        let (sign, noise) = match self.bound {
            Bound::AtLeast => (1.0, NOISE_MARGIN),
            Bound::AtMost => (-1.0, NOISE_MARGIN),
            Bound::Keeps => (1.0, SMALL_MARGIN),
            Bound::NoMore => (-1.0, SMALL_MARGIN),
        };
        let reaches = |bound: f64, margin: f64| sign * measured >= sign * bound - margin * bound;
        match () {
            () if reaches(self.aim, 0.0) => "aim reached",
            () if reaches(self.must, 0.0) => "ok",
            () if reaches(self.must, noise) => "within noise",
            () => MISSED,
        }
    }
}

const MISSED: &str = "MISSED";

/// A figure with so many digits; a dash for what was not measured.
pub(crate) fn cell(digits: usize, value: f64) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

/// Rows of the same columns, each cell with the name of its column.
pub(crate) type Table = Vec<Vec<(&'static str, String)>>;

/// Aligned columns below their names: numbers stand to the right, texts to the left.
fn text(table: &Table) -> String {
    let names: Vec<&str> = table[0].iter().map(|(name, _)| *name).collect();
    let rows = table.iter().map(|row| row.iter().map(|(_, text)| text.as_str()).collect());
    let rows: Vec<Vec<&str>> = std::iter::once(names).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let is_number = |column: usize| rows.iter().any(|row| row[column].parse::<f64>().is_ok());
    let columns: Vec<(usize, bool)> = (0..rows[0].len()).map(|column| (width(column), is_number(column))).collect();
    let cell = |(text, (width, is_number)): (&&str, &(usize, bool))| match is_number {
        true => format!("{text:>width$}"),
        false => format!("{text:<width$}"),
    };
    let cells = |row: &Vec<&str>| row.iter().zip(&columns).map(cell).collect::<Vec<_>>();
    rows.iter().map(|row| cells(row).join("  ").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// An object for each row. What is a number in the table is one here.
fn json(table: &Table) -> Value {
    let value = |text: &String| text.parse::<f64>().map_or_else(|_| text.as_str().into(), Value::from);
    let object = |row: &Vec<(&str, String)>| row.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect();
    table.iter().map(object).collect::<Vec<Value>>().into()
}

/// Everything that was found: a table of those who took turns, and all other figures with their verdicts.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) turns: Table,
    figures: Table,
    /// Errors, and tasks handed out twice, in all turns.
    pub(crate) faults: [u64; 2],
}

impl Report {
    /// The tables in which there is something.
    fn tables(&self) -> Vec<(&str, &Table)> {
        let tables = [("turns", &self.turns), ("figures", &self.figures)];
        tables.into_iter().filter(|(_, table)| !table.is_empty()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables().is_empty()
    }

    /// Adds a figure with its goals, if it has any and is to be judged.
    pub(crate) fn add(&mut self, scenario: &str, name: &str, measured: f64, goals: &[Goal]) {
        let mut add = |verdict: &str, bounds: [String; 3]| {
            let cells = [("scenario", scenario), ("figure", name), ("verdict", verdict)];
            let mut row: Vec<_> = cells.map(|(column, text)| (column, text.to_owned())).into();
            row.push(("measured", cell(3, measured)));
            row.extend(["must", "aim", "row"].into_iter().zip(bounds));
            self.figures.push(row);
        };
        let of_figure: Vec<&Goal> = goals.iter().filter(|goal| goal.figure == name).collect();
        if of_figure.is_empty() {
            add("", Default::default());
        }
        for goal in of_figure {
            add(goal.verdict(measured), [goal.must, goal.aim, goal.row.into()].map(|number: f64| number.to_string()));
        }
    }

    /// Shows everything, and names what is missed; returns true if no must is.
    pub(crate) fn show(&self, as_json: bool) -> bool {
        let tables = self.tables().into_iter();
        line(&match as_json {
            true => format!("{:#}", tables.map(|(name, table)| (name.to_owned(), json(table))).collect::<Value>()),
            false => tables.map(|(_, table)| text(table)).collect::<Vec<_>>().join("\n\n"),
        });
        let rows = self.figures.iter().map(|row| row.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>());
        let missed: Vec<Vec<&str>> = rows.filter(|row| row[2] == MISSED).collect();
        for row in &missed {
            progress(&format!("missed: {}, {}: must {}, is {} (row {})", row[0], row[1], row[4], row[3], row[6]));
        }
        missed.is_empty()
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
        let expected = [2.0, 2.5].map(f64::to_bits);
        assert_eq!([median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])].map(f64::to_bits), expected);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_figure_stands_beside_each_of_its_goals() {
        let goal = |row, must| Goal { row, figure: "ratio", bound: Bound::AtLeast, must, aim: 1.0 };
        let mut report = Report::default();
        report.add("list", "ratio", 0.3, &[goal(4, 0.38), goal(28, 0.25)]);
        report.add("list", "other", 2.0, &[goal(4, 0.38)]);
        let verdicts: Vec<&str> = report.figures.iter().map(|row| row[2].1.as_str()).collect();
        assert_eq!(verdicts, [MISSED, "ok", ""]);
        assert!(!report.show(true));
        assert_eq!(json(&report.figures)[1]["must"], 0.25);
        let table = vec![vec![("phase", "create".to_owned()), ("n", cell(0, 7.0))]];
        assert_eq!(text(&table), "phase   n\ncreate  7");
    }
}
