//! What is drawn of numbers, as SVG that holds numbers and our own words only: the states of tasks as one bar, how much of something is
//! used, and what happened in each of the last minutes.

use std::fmt::{self, Write as _};

use askama::Template;
use askama::filters::HtmlSafe;
use taskqueue_core::Status;
use taskqueue_core::words::number;
use taskqueue_core::words::telemetry::Measure;

/// The width that all parts share. The picture is stretched to its place.
const BAR_WIDTH: u64 = 1_000;
/// A state that some task has is at least so wide, so that one failed task of a million is seen.
const LEAST_PART_WIDTH: u64 = 8;
const PART_GAP: u64 = 3;
/// From left to right: what is over, what goes on, what waits, what went wrong.
const PART_ORDER: [Status; 5] =
    [Status::Succeeded, Status::Running, Status::Pending, Status::Failed, Status::Cancelled];

/// How many tasks have each state, in the order of [`Status::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(path = "bar.html")]
pub(crate) struct Bar([u64; 5]);

impl Bar {
    pub(crate) fn new(tasks: impl Fn(Status) -> u64) -> Self {
        Self(Status::ALL.map(tasks))
    }

    /// The parts from left to right: state, where it begins, how wide it is.
    fn parts(self) -> Vec<(Status, u64, u64)> {
        let of = |status: Status| self.0[status as usize];
        let present: Vec<Status> = PART_ORDER.into_iter().filter(|status| of(*status) > 0).collect();
        let all: u128 = present.iter().map(|status| u128::from(of(*status))).sum();
        let places = present.len() as u64;
        let shared = BAR_WIDTH - LEAST_PART_WIDTH * places - PART_GAP * places.saturating_sub(1);
        let mut left = 0;
        let mut part = |status: Status| {
            // The number of tasks is a part of all, so the width is a part of what is shared.
            let share = u128::from(shared) * u128::from(of(status)) / all;
            let width = LEAST_PART_WIDTH + u64::try_from(share).unwrap_or(shared);
            let part = (status, left, width);
            left += width + PART_GAP;
            part
        };
        present.into_iter().map(&mut part).collect()
    }

    /// The same in words.
    fn label(self) -> String {
        let counts = Status::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0);
        let words: Vec<String> =
            counts.map(|(status, count)| format!("{} {}", number(count), status.as_str())).collect();
        if words.is_empty() { "no task".to_owned() } else { words.join(", ") }
    }
}

impl HtmlSafe for Bar {}

const METER_WIDTH: f64 = 100.0;
/// From this part on a limit is near.
const NEAR_LIMIT: f64 = 0.9;

/// A used part, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Template)]
#[template(path = "meter.html")]
pub(crate) struct Meter {
    part: f64,
    /// Whether it is bad if everything is used. It is not of processors and workers.
    is_limit: bool,
}

impl Meter {
    /// A part of what may well be used as a whole. Nothing if there is no whole that something could be a part of.
    pub(crate) fn new(used: f64, whole: f64) -> Option<Self> {
        let part = used / whole;
        (whole > 0.0 && part.is_finite() && part >= 0.0).then_some(Self { part: part.min(1.0), is_limit: false })
    }

    pub(crate) fn of(measure: &Measure) -> Option<Self> {
        Self::new(measure.used, measure.whole?).map(|meter| Self { is_limit: measure.is_limit, ..meter })
    }

    /// A part of what must not be used as a whole.
    pub(crate) fn of_limit(used: f64, whole: f64) -> Option<Self> {
        Self::new(used, whole).map(|meter| Self { is_limit: true, ..meter })
    }

    fn width(&self) -> f64 {
        (self.part * METER_WIDTH).round()
    }
}

impl HtmlSafe for Meter {}

const MINUTE_DISTANCE: u64 = 10;
const MINUTE_WIDTH: u64 = 8;
const SPARK_HEIGHT: u64 = 40;
/// A minute in which something happened is at least so high.
const LEAST_MINUTE_HEIGHT: u64 = 2;

/// What ended in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Minute {
    pub(crate) ended: u64,
    /// Of these.
    pub(crate) failed: u64,
}

/// Columns for minutes, the latest on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spark(pub(crate) Vec<Minute>);

impl Spark {
    /// How high the part that did not fail and the part that failed are.
    fn heights(minute: Minute, most: u64) -> (u64, u64) {
        let height = |count: u64| {
            let share = u128::from(SPARK_HEIGHT) * u128::from(count) / u128::from(most.max(1));
            let least = if count == 0 { 0 } else { LEAST_MINUTE_HEIGHT };
            u64::try_from(share).unwrap_or(SPARK_HEIGHT).clamp(least, SPARK_HEIGHT)
        };
        let failed = height(minute.failed.min(minute.ended));
        let whole = height(minute.ended).max(failed);
        let has_others = minute.ended > minute.failed;
        let others = if has_others { (whole - failed).max(LEAST_MINUTE_HEIGHT) } else { 0 };
        (others, failed.min(SPARK_HEIGHT - others))
    }
}

impl HtmlSafe for Spark {}

impl fmt::Display for Spark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.0.iter().map(|minute| minute.ended).max().unwrap_or(0);
        let (mut others, mut failed) = (String::new(), String::new());
        for (place, minute) in self.0.iter().enumerate() {
            let (left, (other_height, failed_height)) = (place as u64 * MINUTE_DISTANCE, Self::heights(*minute, most));
            if other_height > 0 {
                write!(others, "M{left} {SPARK_HEIGHT}h{MINUTE_WIDTH}v-{other_height}h-{MINUTE_WIDTH}z")?;
            }
            if failed_height > 0 {
                let bottom = SPARK_HEIGHT - other_height;
                write!(failed, "M{left} {bottom}h{MINUTE_WIDTH}v-{failed_height}h-{MINUTE_WIDTH}z")?;
            }
        }
        let (minutes, width) = (self.0.len(), (self.0.len() as u64 * MINUTE_DISTANCE).max(1));
        let failures: u64 = self.0.iter().map(|minute| minute.failed).sum();
        let (most, failures) = (number(most), number(failures));
        write!(
            f,
            r#"<svg class="minutes" viewBox="0 0 {width} {SPARK_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Runs that ended in each of the last {minutes} minutes: at most {most} in one; {failures} failed in all"><path class="ended" d="{others}"/><path class="failed" d="{failed}"/></svg>"#,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_that_occurs_has_its_part_and_none_is_too_narrow_to_be_seen() {
        type Case = ([u64; 5], &'static [(Status, u64, u64)]);
        let cases: [Case; 4] = [
            ([0; 5], &[]),
            ([0, 0, 7, 0, 0], &[(Status::Succeeded, 0, 1_000)]),
            ([1, 0, 1, 0, 0], &[(Status::Succeeded, 0, 498), (Status::Pending, 501, 498)]),
            ([0, 0, 999_999, 1, 0], &[(Status::Succeeded, 0, 988), (Status::Failed, 991, 8)]),
        ];
        for (tasks, parts) in cases {
            assert_eq!(Bar(tasks).parts(), parts, "{tasks:?}");
        }
        let widest = Bar([u64::MAX; 5]).parts();
        assert!(widest.last().is_some_and(|(_, left, width)| left + width <= BAR_WIDTH), "{widest:?}");
    }

    #[test]
    fn it_says_in_words_what_it_shows() {
        let text = Bar::new(|status| if status == Status::Failed { 1_200 } else { 0 }).to_string();
        assert!(text.contains(r#"aria-label="1,200 failed""#), "{text}");
        assert!(Bar([0; 5]).to_string().contains("no task"));
    }

    #[test]
    fn a_meter_shows_a_part_of_a_whole_and_nothing_else() {
        let cases =
            [(1.0, 4.0, Some(0.25)), (8.0, 4.0, Some(1.0)), (0.0, 4.0, Some(0.0)), (1.0, 0.0, None), (-1.0, 4.0, None)];
        for (used, whole, part) in cases {
            assert_eq!(Meter::new(used, whole).map(|meter| meter.part), part, "{used} {whole}");
        }
        assert_eq!((Meter::new(f64::NAN, 1.0), Meter::new(f64::INFINITY, 1.0)), (None, None));
        let class = |meter: Option<Meter>| meter.map(|meter| meter.to_string().contains("full"));
        assert!(Meter::new(1.0, 4.0).is_some_and(|meter| meter.to_string().contains(r#"class="used" width="25""#)));
        assert_eq!((class(Meter::new(95.0, 100.0)), class(Meter::of_limit(95.0, 100.0))), (Some(false), Some(true)));
        assert_eq!(class(Meter::of_limit(89.0, 100.0)), Some(false));
        let measure = |is_limit| Measure { text: String::new(), used: 95.0, whole: Some(100.0), is_limit };
        assert_eq!([false, true].map(|is_limit| class(Meter::of(&measure(is_limit)))), [Some(false), Some(true)]);
    }

    #[test]
    fn heights_are_in_proportion_and_what_happened_is_never_invisible() {
        let cases = [
            ((0, 0), 100, (0, 0)),
            ((100, 0), 100, (40, 0)),
            ((100, 100), 100, (0, 40)),
            ((100, 25), 100, (30, 10)),
            ((50, 25), 100, (10, 10)),
            ((1, 0), 1_000_000, (2, 0)),
            ((1, 1), 1_000_000, (0, 2)),
            ((1_000_000, 1), 1_000_000, (38, 2)),
            ((1_000_000, 999_999), 1_000_000, (2, 38)),
        ];
        for ((ended, failed), most, heights) in cases {
            assert_eq!(Spark::heights(Minute { ended, failed }, most), heights, "{ended} {failed} {most}");
        }
    }

    #[test]
    fn the_latest_minute_is_on_the_right_and_the_sum_is_said_in_words() {
        let text = Spark(vec![Minute::default(), Minute { ended: 4, failed: 1 }]).to_string();
        assert!(text.contains(r#"d="M10 40h8v-30h-8z""#) && text.contains(r#"d="M10 10h8v-10h-8z""#), "{text}");
        assert!(text.contains("last 2 minutes: at most 4 in one; 1 failed in all"), "{text}");
        assert!(Spark(Vec::new()).to_string().contains(r#"viewBox="0 0 1 40""#));
    }
}
