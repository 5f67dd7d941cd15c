//! What the progress of a task means: the part that is done, how long a step takes, the time that is left. Runs report what they
//! like, so nothing here trusts a value. How it is written for people: `words.rs`.

use crate::json::{Found, JsonObject, lookup};
use crate::time::{Timestamp, between};

/// A running task that said nothing for so long may hang, if a step takes less.
const QUIET_SECONDS: f64 = 120.0;
/// A step may take some times as long as the ones before it.
const STEPS_OF_PATIENCE: f64 = 3.0;
/// Before that a rate says nothing.
const RAN_SECONDS_MIN: f64 = 1.0;
/// Beyond this an expected end says nothing.
const LEFT_SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;
/// The members that the part that is done is computed from.
const MEASURES: [&str; 3] = ["step", "total", "percent"];

/// The reported progress of a task.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// The value that the run reported.
    pub value: &'a JsonObject,
    /// When.
    pub updated_at: Timestamp,
    /// When the run began.
    pub started_at: Option<Timestamp>,
    pub is_running: bool,
}

/// The progress of a task at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Between 0 and 1; nothing if the run does not say it, or says what cannot be.
    pub done: Option<f64>,
    /// The step and the total, where both were reported. Integers are exact.
    pub steps: Option<(String, String)>,
    /// The seconds of a step: the average since the run began.
    pub step_seconds: Option<f64>,
    /// Until the end of a running task at that rate.
    pub seconds_left: Option<u64>,
    /// Since the report.
    pub age_seconds: u64,
    /// True if a running task has said nothing for unusually long.
    pub is_old: bool,
    /// The members that say nothing more than the above.
    pub used: &'static [&'static str],
}

impl Estimate {
    pub fn of(reported: Reported<'_>, now: Timestamp) -> Self {
        let Reported { value, updated_at, started_at, is_running } = reported;
        let measure = Measure::of(value.as_str());
        let ran =
            started_at.map(|at| between(at, updated_at).as_secs_f64()).filter(|seconds| *seconds >= RAN_SECONDS_MIN);
        let age = between(updated_at, now).as_secs_f64();
        let step_seconds = measure.step.zip(ran).filter(|(step, _)| *step > 0.0).map(|(step, ran)| ran / step);
        let patience = step_seconds.map_or(QUIET_SECONDS, |step| QUIET_SECONDS.max(STEPS_OF_PATIENCE * step));
        Self {
            done: measure.done,
            seconds_left: measure.done.zip(ran).filter(|_| is_running).and_then(|(done, ran)| left(done, ran, age)),
            age_seconds: age as u64,
            is_old: is_running && age > patience,
            step_seconds,
            steps: measure.steps,
            used: measure.used,
        }
    }

    /// In whole percent; below the end never 100.
    pub fn percent(&self) -> Option<u64> {
        self.done.map(|done| (done * 100.0).floor() as u64)
    }
}

/// The part that is done, between 0 and 1, by the canonical text of a progress; nothing if the run does not say it.
pub fn part_done(progress: &str) -> Option<f64> {
    Measure::of(progress).done
}

/// The measure that the members `step`, `total` and `percent` give together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Measure {
    done: Option<f64>,
    step: Option<f64>,
    steps: Option<(String, String)>,
    used: &'static [&'static str],
}

impl Measure {
    /// A step of a total that is there counts more than a percentage; what cannot be counts nothing.
    fn of(progress: &str) -> Self {
        let [step, total, percent] = MEASURES.map(|name| number(progress, name));
        if let (Some((step, step_text)), Some((total, total_text))) = (step, total)
            && total > 0.0
            && (0.0..=total).contains(&step)
        {
            let steps = Some((step_text, total_text));
            return Self { done: Some(step / total), step: Some(step), steps, used: &MEASURES };
        }
        match percent.filter(|(percent, _)| (0.0..=100.0).contains(percent)) {
            Some((percent, _)) => Self { done: Some(percent / 100.0), used: &["percent"], ..Self::default() },
            None => Self::default(),
        }
    }
}

/// A member that is a finite number, and its text: a float is written as short as it can be (120.0 steps are 120).
fn number(progress: &str, name: &str) -> Option<(f64, String)> {
    match lookup(progress, &[name])? {
        Found::Int(int) => Some((int as f64, int.to_string())),
        Found::Float(float) if float.is_finite() => Some((float, float.to_string())),
        _ => None,
    }
}

/// The seconds until the end, counted from now. Nothing if nothing is done yet, if all is, or if the end should have come
/// already: then the rate is no longer true.
fn left(done: f64, ran: f64, age: f64) -> Option<u64> {
    let left = ran / done * (1.0 - done) - age;
    (done > 0.0 && done < 1.0 && left > 0.0 && left <= LEFT_SECONDS_MAX).then(|| left.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    /// Of a task that was claimed 110 seconds ago and said this 10 seconds ago.
    fn estimate_after(progress: &str, seconds: i64) -> Estimate {
        let value = JsonObject::from_canonical(progress);
        let started_at = Some(NOW.plus_seconds(-110));
        let reported = Reported { value: &value, updated_at: NOW.plus_seconds(-10), started_at, is_running: true };
        Estimate::of(reported, NOW.plus_seconds(seconds))
    }

    fn estimate(progress: &str) -> Estimate {
        estimate_after(progress, 0)
    }

    #[test]
    fn a_step_of_a_total_gives_the_part_the_rate_and_the_time_that_is_left() {
        let seen = estimate(r#"{"loss":0.31,"step":200,"total":1000}"#);
        assert_eq!((seen.percent(), seen.seconds_left, seen.age_seconds), (Some(20), Some(390), 10));
        assert_eq!(seen.step_seconds, Some(0.5));
        assert_eq!(seen.steps, Some(("200".to_owned(), "1000".to_owned())));
        assert_eq!(estimate(r#"{"percent":3,"step":9,"total":10}"#).percent(), Some(90), "steps count more");
    }

    #[test]
    fn integers_are_exact_and_floats_short() {
        let steps = |progress| estimate(progress).steps.unwrap();
        let large = steps(r#"{"step":9007199254740993,"total":9223372036854775807}"#);
        assert_eq!(large, ("9007199254740993".to_owned(), "9223372036854775807".to_owned()));
        assert_eq!(steps(r#"{"step":120.0,"total":240.5}"#), ("120".to_owned(), "240.5".to_owned()));
    }

    #[test]
    fn what_cannot_be_says_nothing() {
        for nonsense in [
            r#"{"step":1,"total":0}"#,
            r#"{"step":-1,"total":10}"#,
            r#"{"step":1,"total":-10}"#,
            r#"{"step":11,"total":10}"#,
            r#"{"step":"1","total":"10"}"#,
            r#"{"step":"NaN","total":10}"#,
            r#"{"step":null,"total":10}"#,
            r#"{"step":[1],"total":{"a":1}}"#,
            r#"{"step":1}"#,
            r#"{"total":1}"#,
            r#"{"percent":-0.1}"#,
            r#"{"percent":100.1}"#,
            r#"{"percent":"50"}"#,
            r#"{"percent":true}"#,
            r#"{"percent":1e300}"#,
            "{}",
        ] {
            let seen = estimate(nonsense);
            let expected = (None, None, None, 0);
            assert_eq!((seen.done, seen.steps, seen.seconds_left, seen.used.len()), expected, "{nonsense}");
        }
    }

    #[test]
    fn extreme_numbers_neither_panic_nor_promise_an_end() {
        for extreme in [
            r#"{"step":1,"total":9223372036854775807}"#,
            r#"{"step":9223372036854775807,"total":9223372036854775807}"#,
            r#"{"step":5e-324,"total":1.7976931348623157e308}"#,
            r#"{"step":1.7976931348623157e308,"total":1.7976931348623157e308}"#,
            r#"{"percent":5e-324}"#,
            r#"{"step":0,"total":10}"#,
            r#"{"percent":100}"#,
        ] {
            let seen = estimate(extreme);
            assert!(seen.done.is_some_and(|done| (0.0..=1.0).contains(&done)), "{extreme}");
            assert_eq!(seen.seconds_left, None, "{extreme}");
        }
        assert_eq!(estimate(r#"{"step":999999,"total":1000000}"#).percent(), Some(99), "not yet the end");
    }

    #[test]
    fn a_running_task_that_said_nothing_for_long_is_old_and_promises_nothing() {
        let half = r#"{"step":50,"total":100}"#;
        assert!(!estimate_after(half, 109).is_old);
        let seen = estimate_after(half, 111);
        assert_eq!((seen.is_old, seen.seconds_left), (true, None), "the end should have come already");
        let slow = r#"{"step":1,"total":100}"#;
        assert!(!estimate_after(slow, 289).is_old, "a step took 100 seconds");
        assert!(estimate_after(slow, 291).is_old);
        let value = JsonObject::from_canonical(slow);
        let ended = Reported { value: &value, updated_at: NOW, started_at: Some(NOW), is_running: false };
        let seen = Estimate::of(ended, NOW.plus_seconds(9999));
        assert_eq!((seen.is_old, seen.seconds_left), (false, None));
    }
}
