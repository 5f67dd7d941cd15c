//! When a task may run and for how long, beyond the contract: the delay of its next attempt, the limit of its runs, the tasks
//! that it waits for (docs/decisions/0063). What becomes of a task because of that is decided in `lifecycle.rs` and
//! `dependency.rs`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::TaskId;
use crate::json::{self, ObjectWriter, Value};
use crate::limits::{
    DEPENDENCIES_MAX, RETRY_DELAY_FACTOR_DEFAULT, RETRY_DELAY_MAX_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX,
};
use crate::status::word_enum;

/// The scheduling of a task. Most tasks use nothing, and this costs them nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling(Option<Arc<Used>>);

#[derive(Debug, PartialEq, Eq)]
struct Used {
    fields: SchedulingFields,
    /// The members that are used, as the API shows them, in one JSON object. This is also how it is stored.
    text: Box<str>,
}

/// Each field of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingFields {
    pub retry_delay: Option<RetryDelay>,
    /// How long a run may be active.
    pub timeout_seconds: Option<i64>,
    pub dependencies: Dependencies,
    pub on_dependency_failure: OnDependencyFailure,
}

impl SchedulingFields {
    const UNUSED: Self = Self {
        retry_delay: None,
        timeout_seconds: None,
        dependencies: Dependencies(None),
        on_dependency_failure: OnDependencyFailure::Wait,
    };

    /// How long a run may be active; `None` for any time.
    pub fn run_limit(&self) -> Option<Duration> {
        self.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
    }

    fn to_json(&self) -> String {
        let dependencies = Some(&self.dependencies).filter(|dependencies| !dependencies.is_empty());
        let choice = Some(self.on_dependency_failure).filter(|choice| *choice != OnDependencyFailure::Wait);
        ObjectWriter::new()
            .optional(dependencies, |object, dependencies| object.field("dependencies", |out| dependencies.write(out)))
            .optional(choice, |object, choice| object.text("on_dependency_failure", choice.as_str()))
            .optional(self.retry_delay, |object, delay| object.field("retry_delay", |out| delay.write(out)))
            .optional(self.timeout_seconds, |object, seconds| object.integer("timeout_seconds", seconds))
            .into_text()
    }
}

impl From<SchedulingFields> for Scheduling {
    fn from(fields: SchedulingFields) -> Self {
        let is_used = fields != SchedulingFields::UNUSED;
        Self(is_used.then(|| Arc::new(Used { text: fields.to_json().into(), fields })))
    }
}

impl Deref for Scheduling {
    type Target = SchedulingFields;

    fn deref(&self) -> &SchedulingFields {
        static UNUSED: SchedulingFields = SchedulingFields::UNUSED;
        self.0.as_ref().map_or(&UNUSED, |used| &used.fields)
    }
}

impl Scheduling {
    /// The members that are used, as the API shows them, in one JSON object; nothing if none is. This is also how it is stored.
    pub fn as_json(&self) -> Option<&str> {
        self.0.as_ref().map(|used| &*used.text)
    }

    /// Reads what [`Scheduling::as_json`] gave.
    pub fn from_json(text: &str) -> Option<Self> {
        let Value::Object(members) = json::parse(text.as_bytes()).ok()? else { return None };
        let mut fields = SchedulingFields::default();
        for (name, value) in &members {
            match (&**name, value) {
                ("dependencies", Value::Array(ids)) => {
                    let id = |value: &Value<'_>| match value {
                        Value::Str(text) => TaskId::parse(text),
                        _ => None,
                    };
                    fields.dependencies = Dependencies::new(ids.iter().map(id).collect::<Option<Vec<_>>>()?)?;
                }
                ("on_dependency_failure", Value::Str(word)) => {
                    fields.on_dependency_failure = OnDependencyFailure::parse(word)?;
                }
                ("retry_delay", delay) => fields.retry_delay = Some(RetryDelay::from_value(delay)?),
                ("timeout_seconds", Value::Int(seconds)) => fields.timeout_seconds = run_limit(*seconds),
                _ => return None,
            }
        }
        Some(fields.into())
    }

    /// Returns what it counts towards the stored size: its members with their commas.
    pub fn stored_bytes(&self) -> usize {
        self.as_json().map_or(0, |text| text.len() - 1)
    }
}

/// A limit of the runs of a task, if it is one.
pub fn run_limit(seconds: i64) -> Option<i64> {
    (1..=TIMEOUT_SECONDS_MAX).contains(&seconds).then_some(seconds)
}

/// How long a task waits after an attempt that failed: longer each time, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryDelay {
    seconds: f64,
    factor: f64,
    max_seconds: f64,
}

impl RetryDelay {
    /// Nothing if a number is negative or the factor is less than 1.
    pub fn new(seconds: f64, factor: Option<f64>, max_seconds: Option<f64>) -> Option<Self> {
        let factor = factor.unwrap_or(RETRY_DELAY_FACTOR_DEFAULT);
        let max_seconds = max_seconds.unwrap_or(RETRY_DELAY_MAX_SECONDS_DEFAULT);
        let is_valid = seconds >= 0.0 && factor >= 1.0 && max_seconds >= 0.0;
        let are_finite = [seconds, factor, max_seconds].into_iter().all(f64::is_finite);
        // Minus zero is zero.
        (is_valid && are_finite).then_some(Self { seconds: seconds + 0.0, factor, max_seconds: max_seconds + 0.0 })
    }

    /// Reads what [`RetryDelay::write`] wrote.
    pub fn from_json(text: &str) -> Option<Self> {
        Self::from_value(&json::parse(text.as_bytes()).ok()?)
    }

    fn from_value(value: &Value<'_>) -> Option<Self> {
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        Self::new(number("seconds")?, number("factor"), number("max_seconds"))
    }

    /// The delay behind this attempt, which failed. The first one is 1.
    pub fn after_attempt(&self, attempt: i64) -> Duration {
        // Beyond this many steps any factor above 1 has reached every limit, and 1 stays 1.
        let steps = i32::try_from(attempt.saturating_sub(1).max(0)).unwrap_or(i32::MAX);
        let grown = if self.seconds == 0.0 { 0.0 } else { self.seconds * self.factor.powi(steps) };
        seconds_as_duration(grown.min(self.max_seconds))
    }

    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    pub fn factor(&self) -> f64 {
        self.factor
    }

    pub fn max_seconds(&self) -> f64 {
        self.max_seconds
    }

    /// Appends it as a JSON object with all three members.
    pub fn write(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .field("factor", |out| write_number(out, self.factor))
            .field("max_seconds", |out| write_number(out, self.max_seconds))
            .field("seconds", |out| write_number(out, self.seconds))
            .end();
    }
}

/// Its numbers are finite.
impl Eq for RetryDelay {}

/// Whole numbers without a fraction: `10` and `10.0` are the same delay.
fn write_number(out: &mut Vec<u8>, number: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = if number.fract() == 0.0 && number < EXACT { Value::Int(number as i64) } else { Value::Float(number) };
    json::write_value(out, &value);
}

/// A number of seconds that a client gave, at most as long as a duration can be.
pub fn seconds_as_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// The tasks that a task waits for: distinct, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies(Option<Arc<[TaskId]>>);

impl Dependencies {
    /// Nothing if there are more than [`DEPENDENCIES_MAX`] different ones.
    pub fn new(mut ids: Vec<TaskId>) -> Option<Self> {
        ids.sort_unstable();
        ids.dedup();
        match ids.len() {
            0 => Some(Self(None)),
            count => (count <= DEPENDENCIES_MAX).then(|| Self(Some(ids.into()))),
        }
    }

    pub fn as_slice(&self) -> &[TaskId] {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn contains(&self, id: TaskId) -> bool {
        self.as_slice().binary_search(&id).is_ok()
    }

    fn write(&self, out: &mut Vec<u8>) {
        json::write_array(out, self.as_slice(), |out, id| json::write_string(out, id.as_str()));
    }
}

word_enum! {
    /// The fate of a pending task when a task that it waits for cannot succeed any more.
    #[derive(Default)]
    pub enum OnDependencyFailure {
        #[default]
        Wait = "wait",
        Cancel = "cancel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    #[test]
    fn a_retry_delay_grows_by_its_factor_up_to_its_limit() {
        let delay = |seconds, factor, max| RetryDelay::new(seconds, factor, max).unwrap();
        let cases = [
            (delay(10.0, None, None), 1, 10.0),
            (delay(10.0, None, None), 2, 20.0),
            (delay(10.0, None, None), 4, 80.0),
            (delay(10.0, None, None), 20, 86_400.0),
            (delay(10.0, None, None), i64::MAX, 86_400.0),
            (delay(10.0, Some(1.0), None), i64::MAX, 10.0),
            (delay(0.0, Some(1e300), None), 9, 0.0),
            (delay(0.5, Some(3.0), Some(4.0)), 2, 1.5),
            (delay(0.5, Some(3.0), Some(4.0)), 3, 4.0),
            (delay(10.0, None, Some(0.0)), 1, 0.0),
            // A run that was given back has no attempt.
            (delay(10.0, None, None), 0, 10.0),
        ];
        for (delay, attempt, seconds) in cases {
            assert_eq!(delay.after_attempt(attempt), Duration::from_secs_f64(seconds), "{delay:?} {attempt}");
        }
        let endless = delay(1e300, Some(1e300), Some(1e308)).after_attempt(9);
        assert_eq!(endless, Duration::MAX);
    }

    #[test]
    fn a_retry_delay_has_no_negative_number_and_no_factor_below_1() {
        let cases = [
            (0.0, Some(1.0), Some(0.0), true),
            (-0.1, None, None, false),
            (1.0, Some(0.9), None, false),
            (1.0, None, Some(-1.0), false),
            (f64::NAN, None, None, false),
            (1.0, Some(f64::INFINITY), None, false),
        ];
        for (seconds, factor, max, is_valid) in cases {
            assert_eq!(RetryDelay::new(seconds, factor, max).is_some(), is_valid, "{seconds} {factor:?} {max:?}");
        }
    }

    #[test]
    fn dependencies_are_a_sorted_set_of_at_most_1000() {
        let ids = Dependencies::new(vec![id(3), id(1), id(3), id(2)]).unwrap();
        assert_eq!(ids.as_slice(), [id(1), id(2), id(3)]);
        assert!(ids.contains(id(2)) && !ids.contains(id(4)));
        assert_eq!(Dependencies::new(vec![]), Some(Dependencies::default()));
        let many = |count: u64| (0..count).map(id).collect::<Vec<_>>();
        assert_eq!(Dependencies::new(many(1_000)).map(|ids| ids.len()), Some(1_000));
        assert_eq!(Dependencies::new(many(1_001)), None);
        assert_eq!(Dependencies::new(vec![id(1); 5_000]).map(|ids| ids.len()), Some(1), "different ones are counted");
    }

    #[test]
    fn what_is_stored_reads_back_and_shows_only_what_is_used() {
        let cases = [
            (
                SchedulingFields { timeout_seconds: Some(7_200), ..SchedulingFields::default() },
                r#"{"timeout_seconds":7200}"#,
            ),
            (
                SchedulingFields { retry_delay: RetryDelay::new(10.0, None, Some(0.5)), ..SchedulingFields::default() },
                r#"{"retry_delay":{"factor":2,"max_seconds":0.5,"seconds":10}}"#,
            ),
            (
                SchedulingFields {
                    dependencies: Dependencies::new(vec![id(2), id(1)]).unwrap(),
                    on_dependency_failure: OnDependencyFailure::Cancel,
                    ..SchedulingFields::default()
                },
                r#"{"dependencies":["t_000000000001","t_000000000002"],"on_dependency_failure":"cancel"}"#,
            ),
        ];
        for (fields, text) in cases {
            let scheduling = Scheduling::from(fields.clone());
            assert_eq!(scheduling.as_json(), Some(text));
            assert_eq!((*scheduling).clone(), fields);
            assert_eq!(Scheduling::from_json(text), Some(scheduling));
        }
        assert_eq!(Scheduling::default().as_json(), None);
        assert_eq!(Scheduling::from(SchedulingFields::default()), Scheduling::default());
        assert_eq!(Scheduling::from_json("{}"), Some(Scheduling::default()));
        for text in ["", "[]", r#"{"other":1}"#, r#"{"dependencies":["x"]}"#, r#"{"retry_delay":{}}"#] {
            assert_eq!(Scheduling::from_json(text), None, "{text}");
        }
    }
}
