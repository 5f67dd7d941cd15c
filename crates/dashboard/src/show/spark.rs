//! What happened in each of the last minutes: one narrow column for a minute, the part that failed in its own colour on top. Drawn
//! here, as SVG that holds numbers only.

use std::fmt::{self, Write as _};

use askama::filters::HtmlSafe;

const COLUMN: u64 = 10;
const COLUMN_WIDTH: u64 = 8;
const HEIGHT: u64 = 40;
/// A minute in which something happened is at least so high.
const LEAST_HEIGHT: u64 = 2;

/// What ended in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Minute {
    pub(crate) ended: u64,
    /// Of these.
    pub(crate) failed: u64,
}

/// Columns for minutes, the latest on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spark(Vec<Minute>);

impl Spark {
    pub(crate) fn new(minutes: Vec<Minute>) -> Self {
        Self(minutes)
    }

    fn most(&self) -> u64 {
        self.0.iter().map(|minute| minute.ended).max().unwrap_or(0)
    }

    /// How high the part that did not fail and the part that failed are.
    fn heights(minute: Minute, most: u64) -> (u64, u64) {
        let height = |count: u64| {
            let share = u128::from(HEIGHT) * u128::from(count) / u128::from(most.max(1));
            if count == 0 { 0 } else { u64::try_from(share).unwrap_or(HEIGHT).clamp(LEAST_HEIGHT, HEIGHT) }
        };
        let failed = height(minute.failed.min(minute.ended));
        let whole = height(minute.ended).max(failed);
        let has_others = minute.ended > minute.failed;
        let others = if has_others { (whole - failed).max(LEAST_HEIGHT) } else { 0 };
        (others, failed.min(HEIGHT - others))
    }
}

impl HtmlSafe for Spark {}

impl fmt::Display for Spark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most();
        let (mut others, mut failed) = (String::new(), String::new());
        for (place, minute) in self.0.iter().enumerate() {
            let (left, (other_height, failed_height)) = (place as u64 * COLUMN, Self::heights(*minute, most));
            if other_height > 0 {
                write!(others, "M{left} {HEIGHT}h{COLUMN_WIDTH}v-{other_height}h-{COLUMN_WIDTH}z")?;
            }
            if failed_height > 0 {
                let bottom = HEIGHT - other_height;
                write!(failed, "M{left} {bottom}h{COLUMN_WIDTH}v-{failed_height}h-{COLUMN_WIDTH}z")?;
            }
        }
        let (minutes, width) = (self.0.len(), (self.0.len() as u64 * COLUMN).max(1));
        let failures: u64 = self.0.iter().map(|minute| minute.failed).sum();
        let (most, failures) = (super::number(most), super::number(failures));
        write!(
            f,
            r#"<svg class="minutes" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Runs that ended in each of the last {minutes} minutes: at most {most} in one; {failures} failed in all"><path class="ended" d="{others}"/><path class="failed" d="{failed}"/></svg>"#,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = Spark::new(vec![Minute::default(), Minute { ended: 4, failed: 1 }]).to_string();
        assert!(text.contains(r#"d="M10 40h8v-30h-8z""#) && text.contains(r#"d="M10 10h8v-10h-8z""#), "{text}");
        assert!(text.contains("last 2 minutes: at most 4 in one; 1 failed in all"), "{text}");
        assert!(Spark::new(Vec::new()).to_string().contains(r#"viewBox="0 0 1 40""#));
    }
}
