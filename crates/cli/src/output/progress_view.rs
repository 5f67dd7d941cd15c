//! How the progress of a task is written for people: the part that is done, the rate, the time that is left, and everything else
//! that the run reported. Pure: time is an argument. What it means is decided in `core`.

use taskqueue_client::{Status, Task, Timestamp};
use taskqueue_core::json::{JsonObject, Value, parse};
use taskqueue_core::progress::{Estimate, Reported};
use taskqueue_core::words::{Units, span, step_rate};

use crate::field_path::plain_text;

/// The progress of a task at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgressView {
    pub(crate) estimate: Estimate,
    /// The members that the estimate does not use, with their values.
    others: Vec<(String, String)>,
}

impl ProgressView {
    /// Nothing if the task has no progress.
    pub(crate) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let (value, updated_at) = (task.progress.as_ref()?, task.progress_updated_at?);
        let is_running = task.status == Status::Running;
        let reported = Reported { value, updated_at, started_at: task.started_at, is_running };
        let estimate = Estimate::of(reported, now);
        Some(Self { others: others(value, estimate.used), estimate })
    }

    /// `42 %`; below the end never 100.
    pub(crate) fn percent(&self) -> Option<String> {
        self.estimate.percent().map(|percent| format!("{percent} %"))
    }

    /// `[=====>    ]` with so many characters between the brackets.
    pub(crate) fn bar(&self, width: usize) -> Option<String> {
        let filled = ((self.estimate.done? * width as f64).floor() as usize).min(width);
        let mut bar: String = "=".repeat(filled);
        if filled < width {
            bar.push('>');
        }
        Some(format!("[{bar:<width$}]"))
    }

    /// The text for a narrow column: `42 % (ETA 3m)`, or what the run said where there is no percentage.
    pub(crate) fn short(&self) -> String {
        match (self.percent(), self.eta()) {
            (Some(percent), Some(eta)) => format!("{percent} ({eta})"),
            (Some(percent), None) => percent,
            (None, _) => self.said(),
        }
    }

    /// `42 %  420/1000  3.5 steps/s  ETA 3m`: what is known of it.
    pub(crate) fn measures(&self) -> String {
        let steps = self.estimate.steps.as_ref().map(|(step, total)| format!("{step}/{total}"));
        let rate = self.estimate.step_seconds.and_then(|seconds| step_rate(seconds, Units::Typed));
        let parts = [self.percent(), steps, rate, self.eta()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }

    /// `loss=0.31 epoch=3`.
    pub(crate) fn said(&self) -> String {
        self.others.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn eta(&self) -> Option<String> {
        self.estimate.seconds_left.map(|seconds| format!("ETA {}", span(seconds)))
    }
}

/// The members besides those that are already shown as a measure.
fn others(progress: &JsonObject, used: &[&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(members)) = parse(progress.as_str().as_bytes()) else { return Vec::new() };
    let shown = members.iter().filter(|(key, _)| !used.contains(&key.as_ref()));
    shown.map(|(key, value)| (key.to_string(), plain_text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::{TEST_TIME, task};

    /// A task that was claimed 100 seconds ago and said this 10 seconds ago.
    fn running(progress: &str) -> Task {
        Task {
            status: Status::Running,
            started_at: Some(TEST_TIME.plus_seconds(-110)),
            progress: Some(JsonObject::from_canonical(progress)),
            progress_updated_at: Some(TEST_TIME.plus_seconds(-10)),
            progress_attempt: Some(1),
            ..task(1)
        }
    }

    fn view(progress: &str) -> ProgressView {
        ProgressView::of(&running(progress), TEST_TIME).unwrap()
    }

    #[test]
    fn a_step_of_a_total_gives_the_part_the_rate_and_the_time_that_is_left() {
        let seen = view(r#"{"loss":0.31,"note":"warm up","step":200,"total":1000}"#);
        assert_eq!(seen.percent().as_deref(), Some("20 %"));
        assert_eq!(
            seen.measures(),
            "20 %  200/1000  2 steps/s  ETA 6m",
            "400 seconds at this rate, of which 10 are over"
        );
        assert_eq!(seen.said(), "loss=0.31 note=warm up");
        assert_eq!(seen.short(), "20 % (ETA 6m)");
        assert_eq!(seen.bar(10).as_deref(), Some("[==>       ]"));
        assert_eq!((seen.estimate.age_seconds, seen.estimate.is_old), (10, false));
    }

    #[test]
    fn a_percentage_alone_gives_a_bar_and_a_time_but_no_rate() {
        let seen = view(r#"{"percent":50.0}"#);
        assert_eq!((seen.measures().as_str(), seen.said().as_str()), ("50 %  ETA 90s", ""));
        assert_eq!(view(r#"{"percent":100}"#).bar(10).as_deref(), Some("[==========]"));
        assert_eq!(view(r#"{"step":0,"total":10}"#).bar(10).as_deref(), Some("[>         ]"));
        assert_eq!(view(r#"{"percent":50,"step":7}"#).said(), "step=7");
        assert_eq!(view(r#"{"percent":3,"step":9,"total":10}"#).percent().as_deref(), Some("90 %"), "steps count more");
    }

    #[test]
    fn what_cannot_be_makes_no_bar_and_is_shown_as_it_is() {
        let seen = view(r#"{"step":-1,"total":10}"#);
        assert_eq!((seen.bar(10), seen.measures(), seen.said()), (None, String::new(), "step=-1 total=10".to_owned()));
    }

    #[test]
    fn times_that_do_not_fit_together_give_no_rate() {
        let mut odd = running(r#"{"step":1,"total":2}"#);
        odd.started_at = Some(TEST_TIME);
        let seen = ProgressView::of(&odd, TEST_TIME.plus_seconds(-3600)).unwrap().estimate;
        assert_eq!((seen.step_seconds, seen.seconds_left, seen.age_seconds), (None, None, 0));
        odd.started_at = None;
        assert_eq!(ProgressView::of(&odd, TEST_TIME).unwrap().measures(), "50 %  1/2");
        odd.progress_updated_at = Some(Timestamp::from_micros(i64::MIN));
        odd.started_at = Some(Timestamp::from_micros(i64::MAX));
        assert!(ProgressView::of(&odd, TEST_TIME).is_some());
        odd.progress = None;
        assert_eq!(ProgressView::of(&odd, TEST_TIME), None);
    }
}
