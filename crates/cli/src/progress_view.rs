//! What the progress of a task says to people: the part that is done, the rate, the time that is left, and everything else
//! that the run reported. Pure: time is an argument. Runs report what they like, so nothing here trusts a value.

use taskqueue_client::{Status, Task, Timestamp};
use taskqueue_core::json::{Found, JsonObject, Value, lookup, parse, write_value};

use crate::output::span;

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

/// The progress of a task at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgressView {
    /// Between 0 and 1; nothing if the run does not say it, or says what cannot be.
    pub(crate) done: Option<f64>,
    /// `420/1000`, where both were reported.
    pub(crate) steps: Option<String>,
    /// `3.5/s` or `12s/step`: the average since the run began.
    pub(crate) rate: Option<String>,
    /// Until the end of a running task at that rate.
    pub(crate) seconds_left: Option<u64>,
    /// Since the report.
    pub(crate) age_seconds: u64,
    /// Whether a running task has said nothing for unusually long.
    pub(crate) is_old: bool,
    /// The other members with their values.
    pub(crate) others: Vec<(String, String)>,
}

impl ProgressView {
    /// Nothing if the task has no progress.
    pub(crate) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let (progress, updated_at) = (task.progress.as_ref()?, task.progress_updated_at?);
        let measure = Measure::of(progress);
        let is_running = task.status == Status::Running;
        let ran =
            task.started_at.map(|at| seconds_between(at, updated_at)).filter(|seconds| *seconds >= RAN_SECONDS_MIN);
        let age = seconds_between(updated_at, now);
        let step_seconds = measure.step.zip(ran).filter(|(step, _)| *step > 0.0).map(|(step, ran)| ran / step);
        let patience = step_seconds.map_or(QUIET_SECONDS, |step| QUIET_SECONDS.max(STEPS_OF_PATIENCE * step));
        Some(Self {
            done: measure.done,
            steps: measure.steps.clone(),
            rate: step_seconds.and_then(rate),
            seconds_left: measure.done.zip(ran).filter(|_| is_running).and_then(|(done, ran)| left(done, ran, age)),
            age_seconds: age as u64,
            is_old: is_running && age > patience,
            others: others(progress, &measure),
        })
    }

    /// `42 %`; below the end never 100.
    pub(crate) fn percent(&self) -> Option<String> {
        self.done.map(|done| format!("{} %", (done * 100.0).floor() as u64))
    }

    /// `[=====>    ]` with so many characters between the brackets.
    pub(crate) fn bar(&self, width: usize) -> Option<String> {
        let filled = ((self.done? * width as f64).floor() as usize).min(width);
        let mut bar: String = "=".repeat(filled);
        if filled < width {
            bar.push('>');
        }
        Some(format!("[{bar:<width$}]"))
    }

    /// For a narrow column: `42 % (ETA 3m)`, or what the run said where there is no percentage.
    pub(crate) fn short(&self) -> String {
        match (self.percent(), self.eta()) {
            (Some(percent), Some(eta)) => format!("{percent} ({eta})"),
            (Some(percent), None) => percent,
            (None, _) => self.said(),
        }
    }

    /// `42 %  420/1000  3.5/s  ETA 3m`: what is known of it.
    pub(crate) fn measures(&self) -> String {
        let parts = [self.percent(), self.steps.clone(), self.rate.clone(), self.eta()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
    }

    /// `loss=0.31 epoch=3`.
    pub(crate) fn said(&self) -> String {
        self.others.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn eta(&self) -> Option<String> {
        self.seconds_left.map(|seconds| format!("ETA {}", span(seconds)))
    }
}

/// What the members `step`, `total` and `percent` say together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Measure {
    done: Option<f64>,
    step: Option<f64>,
    steps: Option<String>,
    /// Which members were of use.
    used: &'static [&'static str],
}

impl Measure {
    /// A step of a total that is there counts more than a percentage; what cannot be counts nothing.
    fn of(progress: &JsonObject) -> Self {
        let [step, total, percent] = MEASURES.map(|name| number(progress, name));
        if let (Some(step), Some(total)) = (step, total)
            && total.value > 0.0
            && (0.0..=total.value).contains(&step.value)
        {
            let steps = Some(format!("{step}/{total}", step = step.text(), total = total.text()));
            return Self { done: Some(step.value / total.value), step: Some(step.value), steps, used: &MEASURES };
        }
        match percent.filter(|percent| (0.0..=100.0).contains(&percent.value)) {
            Some(percent) => Self { done: Some(percent.value / 100.0), used: &["percent"], ..Self::default() },
            None => Self::default(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Number {
    value: f64,
    is_integer: bool,
}

impl Number {
    fn text(self) -> String {
        // A float is shown as short as it can be: 120.0 steps are 120.
        if self.is_integer { format!("{:.0}", self.value) } else { format!("{}", self.value) }
    }
}

fn number(progress: &JsonObject, name: &str) -> Option<Number> {
    let number = match lookup(progress.as_str(), &[name])? {
        Found::Int(int) => Number { value: int as f64, is_integer: true },
        Found::Float(float) => Number { value: float, is_integer: false },
        _ => return None,
    };
    number.value.is_finite().then_some(number)
}

/// The members besides those that are already shown as a measure.
fn others(progress: &JsonObject, measure: &Measure) -> Vec<(String, String)> {
    let Ok(Value::Object(members)) = parse(progress.as_str().as_bytes()) else { return Vec::new() };
    let shown = members.iter().filter(|(key, _)| !measure.used.contains(&key.as_ref()));
    let text = |value: &Value<'_>| match value {
        Value::Str(text) => text.to_string(),
        other => {
            let mut out = Vec::new();
            write_value(&mut out, other);
            // JSON is UTF-8.
            String::from_utf8(out).unwrap_or_default()
        }
    };
    shown.map(|(key, value)| (key.to_string(), text(value))).collect()
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.as_micros().saturating_sub(from.as_micros()).max(0) as f64 / 1_000_000.0
}

/// Steps per second, or seconds per step where that is the larger number.
fn rate(step_seconds: f64) -> Option<String> {
    let per_second = 1.0 / step_seconds;
    match per_second {
        _ if !per_second.is_finite() || !step_seconds.is_finite() || step_seconds > LEFT_SECONDS_MAX => None,
        100.0.. => Some(format!("{per_second:.0}/s")),
        1.0.. => Some(format!("{}/s", short_decimal(per_second))),
        _ if step_seconds < 10.0 => Some(format!("{}s/step", short_decimal(step_seconds))),
        _ => Some(format!("{}/step", span(step_seconds.round() as u64))),
    }
}

/// With one decimal, unless that is a zero.
fn short_decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// The seconds until the end, counted from now. Nothing if nothing is done yet, if all is, or if the end should have come
/// already: then the rate is no longer true.
fn left(done: f64, ran: f64, age: f64) -> Option<u64> {
    let left = ran / done * (1.0 - done) - age;
    (done > 0.0 && done < 1.0 && left > 0.0 && left <= LEFT_SECONDS_MAX).then(|| left.ceil() as u64)
}

#[cfg(test)]
mod tests;
