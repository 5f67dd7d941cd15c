//! When a task runs, for how long, and what it waits for, as fields of a form. What is left empty is not used. The form of a new task
//! and the one that edits a task have the same ones.

use taskqueue_core::fields::TimeComparison;
use taskqueue_core::ids::TaskId;
use taskqueue_core::limits::{
    DEPENDENCIES_MAX, RETRY_DELAY_FACTOR_DEFAULT, RETRY_DELAY_MAX_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX,
};
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay, Scheduling, SchedulingFields};
use taskqueue_core::time::Timestamp;

use crate::address::Query;
use crate::field::Field;
use crate::{show, time_field};

/// Characters of a wrong word that a message shows.
const WORD_CHARS: usize = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingFields {
    pub(crate) not_before: Field,
    pub(crate) timeout: Field,
    pub(crate) retry_seconds: Field,
    pub(crate) retry_factor: Field,
    pub(crate) retry_max_seconds: Field,
    pub(crate) dependencies: Field,
    pub(crate) on_dependency_failure: Field,
}

impl WaitingFields {
    pub(crate) fn of(form: &Query) -> Self {
        let mut fields = Self::default();
        for (name, field) in fields.all() {
            *field = Field::of(form, name);
        }
        fields
    }

    /// The fields that give these values.
    pub(crate) fn with(scheduling: &Scheduling, not_before: Option<Timestamp>) -> Self {
        let seconds = |seconds: f64| Field::with(time_field::written(seconds));
        let delay = scheduling.retry_delay;
        let unless = |value: f64, default: f64| Some(value).filter(|value| *value != default);
        let ids: Vec<&str> = scheduling.dependencies.as_slice().iter().map(TaskId::as_str).collect();
        let choice = scheduling.on_dependency_failure;
        Self {
            not_before: not_before.map(|at| Field::with(at.to_string())).unwrap_or_default(),
            timeout: scheduling.timeout_seconds.map(|limit| seconds(limit as f64)).unwrap_or_default(),
            retry_seconds: delay.map(|delay| seconds(delay.seconds())).unwrap_or_default(),
            retry_factor: delay
                .and_then(|delay| unless(delay.factor(), RETRY_DELAY_FACTOR_DEFAULT))
                .map(|factor| Field::with(factor.to_string()))
                .unwrap_or_default(),
            retry_max_seconds: delay
                .and_then(|delay| unless(delay.max_seconds(), RETRY_DELAY_MAX_SECONDS_DEFAULT))
                .map(seconds)
                .unwrap_or_default(),
            dependencies: Field::with(ids.join("\n")),
            on_dependency_failure: Field::with(if choice == OnDependencyFailure::Wait { "" } else { choice.as_str() }),
        }
    }

    /// Each with its name in a form.
    pub(crate) fn all(&mut self) -> [(&'static str, &mut Field); 7] {
        [
            ("not_before", &mut self.not_before),
            ("timeout", &mut self.timeout),
            ("retry_seconds", &mut self.retry_seconds),
            ("retry_factor", &mut self.retry_factor),
            ("retry_max_seconds", &mut self.retry_max_seconds),
            ("dependencies", &mut self.dependencies),
            ("on_dependency_failure", &mut self.on_dependency_failure),
        ]
    }

    /// Whether anything stands in them.
    pub(crate) fn is_used(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a pending task is cancelled when a task that it waits for fails, for the choice in the form.
    pub(crate) fn cancels(&self) -> bool {
        self.on_dependency_failure.value == OnDependencyFailure::Cancel.as_str()
    }

    /// The address parameters that bring these fields back.
    pub(crate) fn parameters(&self, query: Query) -> Query {
        let mut fields = self.clone();
        let filled = fields.all().into_iter().filter(|(_, field)| !field.value.is_empty());
        filled.fold(query, |query, (name, field)| query.and(name, &field.value))
    }

    /// Before when the task is not claimed; none if that is wrong, which then is said.
    pub(crate) fn not_before(&mut self, now: Timestamp) -> Option<Option<Timestamp>> {
        let read = self.not_before.filled().map(|text| time_field::moment(text, now)).transpose();
        self.not_before.keep(read)
    }

    /// How that time is compared: one that is counted from now is another one each time.
    pub(crate) fn times(&self) -> TimeComparison {
        let is_relative = self.not_before.filled().is_some_and(time_field::is_relative);
        if is_relative { TimeComparison::Presence } else { TimeComparison::Exact }
    }

    /// All others; none if a field is wrong, which then says so.
    pub(crate) fn scheduling(&mut self) -> Option<Scheduling> {
        let most = u64::try_from(TIMEOUT_SECONDS_MAX).unwrap_or(u64::MAX);
        let timeout = self.timeout.filled().map(|text| time_field::whole_seconds(text, 1, most)).transpose();
        let timeout = self.timeout.keep(timeout);
        let delay = self.retry_delay();
        let ids = dependencies(&self.dependencies.value);
        let ids = self.dependencies.keep(ids);
        let word = self.on_dependency_failure.filled().unwrap_or(OnDependencyFailure::Wait.as_str());
        let choice = OnDependencyFailure::parse(word).ok_or_else(|| "Choose wait or cancel.".to_owned());
        let choice = self.on_dependency_failure.keep(choice);
        let fields = SchedulingFields {
            retry_delay: delay?,
            timeout_seconds: timeout?.and_then(|seconds| i64::try_from(seconds).ok()),
            dependencies: ids?,
            on_dependency_failure: choice?,
        };
        Some(fields.into())
    }

    fn retry_delay(&mut self) -> Option<Option<RetryDelay>> {
        let seconds = |field: &Field| field.filled().map(time_field::seconds).transpose();
        let first = seconds(&self.retry_seconds);
        let first = self.retry_seconds.keep(first);
        let most = seconds(&self.retry_max_seconds);
        let most = self.retry_max_seconds.keep(most);
        let factor = self.retry_factor.filled().map(factor).transpose();
        let factor = self.retry_factor.keep(factor);
        let (first, most, factor) = (first?, most?, factor?);
        let Some(first) = first else {
            if most.is_some() || factor.is_some() {
                self.retry_seconds.error = Some("Say how long the first retry waits, such as 30 s.".to_owned());
                return None;
            }
            return Some(None);
        };
        let delay = RetryDelay::new(first, factor, most).ok_or_else(|| "Write a smaller number.".to_owned());
        self.retry_seconds.keep(delay).map(Some)
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor >= 1.0);
    factor.ok_or_else(|| "Write a number that is at least 1.".to_owned())
}

/// Ids between commas or white space. Repeated ones count once.
fn dependencies(text: &str) -> Result<Dependencies, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let rule =
        |word: &str| format!("{}: an id of a task has t_ and 12 letters or digits.", show::cut(word, WORD_CHARS));
    let ids = words.map(|word| TaskId::parse(word).ok_or_else(|| rule(word))).collect::<Result<Vec<_>, _>>()?;
    let most = show::number(DEPENDENCIES_MAX as u64);
    Dependencies::new(ids).ok_or_else(|| format!("A task can wait for {most} other tasks at most."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(form: &str) -> WaitingFields {
        WaitingFields::of(&Query::parse(form))
    }

    #[test]
    fn empty_fields_use_nothing() {
        let mut empty = fields("");
        assert_eq!(
            (empty.scheduling(), empty.not_before(Timestamp::from_micros(0))),
            (Some(Scheduling::default()), Some(None))
        );
        assert!(!empty.is_used());
        assert_eq!(WaitingFields::with(&Scheduling::default(), None), empty);
    }

    #[test]
    fn what_is_typed_becomes_a_schedule_and_comes_back_from_it() {
        let mut typed = fields(
            "timeout=2+h&retry_seconds=30&retry_factor=1.5&retry_max_seconds=10+min&dependencies=t_exampletask1,%0At_exampletask0&on_dependency_failure=cancel",
        );
        let scheduling = typed.scheduling().expect("a schedule");
        assert_eq!(
            scheduling.as_json(),
            Some(
                r#"{"dependencies":["t_exampletask0","t_exampletask1"],"on_dependency_failure":"cancel","retry_delay":{"factor":1.5,"max_seconds":600,"seconds":30},"timeout_seconds":7200}"#
            )
        );
        let mut back = WaitingFields::with(&scheduling, Some(Timestamp::from_micros(0)));
        assert_eq!(back.scheduling(), Some(scheduling));
        assert_eq!(back.not_before(Timestamp::from_micros(9)), Some(Some(Timestamp::from_micros(0))));
        assert_eq!(WaitingFields::of(&back.parameters(Query::default())), back);
    }

    #[test]
    fn each_wrong_field_says_what_is_wrong() {
        let cases = [
            ("timeout=0", "timeout", "at least 1 s"),
            ("timeout=2+years", "timeout", "a number with its unit"),
            ("timeout=366+days", "timeout", "at most 365 days"),
            ("retry_seconds=-1", "retry_seconds", "a number with its unit"),
            ("retry_factor=3", "retry_seconds", "how long the first retry waits"),
            ("retry_seconds=1&retry_factor=0.5", "retry_factor", "at least 1"),
            ("retry_seconds=1&retry_max_seconds=x", "retry_max_seconds", "a number with its unit"),
            ("dependencies=t_exampletask0+x", "dependencies", "x: an id of a task"),
            ("on_dependency_failure=explode", "on_dependency_failure", "wait or cancel"),
        ];
        for (form, name, expected) in cases {
            let mut wrong = fields(form);
            assert_eq!(wrong.scheduling(), None, "{form}");
            let told: Vec<_> =
                wrong.all().into_iter().filter_map(|(name, field)| Some((name, field.error.clone()?))).collect();
            assert!(
                matches!(told.as_slice(), [(field, error)] if *field == name && error.contains(expected)),
                "{told:?}"
            );
        }
        let many: String = (0..=DEPENDENCIES_MAX).map(|n| format!("t_{n:012}+")).collect();
        let mut many = fields(&format!("dependencies={many}"));
        assert!(many.scheduling().is_none() && many.dependencies.error.is_some());
        let mut late = fields("not_before=soon");
        assert!(late.not_before(Timestamp::from_micros(0)).is_none() && late.not_before.error.is_some());
    }
}
