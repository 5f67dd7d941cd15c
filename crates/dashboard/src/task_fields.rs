//! What a task is told to be, as fields of a form: name, args (but those of a sweep), metadata, routes, priority, attempts; when it runs, for how long, and what it
//! waits for. What is left empty is the default. The form of a new task, that of a sweep, and the one that edits a task have the same ones.

use taskqueue_core::fields::TimeComparison;
use taskqueue_core::json::JsonObject;
use taskqueue_core::limits::{
    DEPENDENCIES_MAX, RETRY_DELAY_FACTOR_DEFAULT, RETRY_DELAY_MAX_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX,
};
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay, SchedulingFields};
use taskqueue_core::{Definition, Scheduling, TaskId, Timestamp};

use crate::address::Query;
use crate::field::{self, Field};
use crate::{json_field, show};

/// Declares fields of a form that go by their own names, and perhaps others behind them.
macro_rules! form_fields {
    ($(#[$about:meta])* $fields:ident { $($name:ident),+ } $($others:ident: $kind:ty)?) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $fields {
            $(pub(crate) $name: Field,)+
            $(pub(crate) $others: $kind,)?
        }

        impl $fields {
            /// Returns each field with its name in a form.
            pub(crate) fn all(&mut self) -> impl Iterator<Item = (&'static str, &mut Field)> {
                let own = [$((stringify!($name), &mut self.$name)),+].into_iter();
                own$(.chain(self.$others.all()))?
            }
        }
    };
}

form_fields! {
    /// The fields of a task.
    TaskFields { name, args, metadata, routes, priority, max_attempts } waiting: WaitingFields
}

form_fields! {
    /// When a task runs, for how long, and what it waits for.
    WaitingFields {
        not_before, timeout, retry_seconds, retry_factor, retry_max_seconds, dependencies, on_dependency_failure
    }
}

impl TaskFields {
    /// Returns what a form or an address has.
    pub(crate) fn of(form: &Query) -> Self {
        let mut fields = Self::default();
        fields.all().for_each(|(name, field)| *field = Field::of(form, name));
        fields
    }

    /// The values of a definition, and before when its task is not claimed.
    pub(crate) fn with(definition: &Definition, not_before: Option<Timestamp>) -> Self {
        Self {
            name: Field::with(definition.name.as_deref().unwrap_or_default()),
            args: Field::with(json_field::write(&definition.args)),
            metadata: Field::with(json_field::write(&definition.metadata)),
            routes: Field::with(definition.routes.iter().collect::<Vec<_>>().join(", ")),
            priority: Field::with(definition.priority.to_string()),
            max_attempts: Field::with(definition.max_attempts.to_string()),
            waiting: WaitingFields::with(&definition.scheduling, not_before),
        }
    }

    /// The fields that give this definition; what it has by default is left empty.
    pub(crate) fn from_definition(definition: &Definition) -> Self {
        let (mut fields, mut default) = (Self::with(definition, None), Self::with(&Definition::default(), None));
        let by_default = fields.all().zip(default.all()).filter(|((_, field), (_, default))| field == default);
        by_default.for_each(|((_, field), _)| *field = Field::default());
        fields
    }

    /// The definition without name and args; none if a field is wrong, which then says so.
    pub(crate) fn definition(&mut self) -> Option<Definition> {
        let default = Definition::default();
        let metadata = self.metadata.read(json_field::read);
        let routes = self.routes.read_filled(field::routes);
        let priority = self.priority.read_filled(|text| field::integer(text, i64::MIN));
        let max_attempts = self.max_attempts.read_filled(|text| field::integer(text, 1));
        let scheduling = self.waiting.scheduling();
        Some(Definition {
            name: None,
            args: JsonObject::empty(),
            metadata: metadata?,
            routes: routes?.unwrap_or(default.routes),
            priority: priority?.unwrap_or(default.priority),
            max_attempts: max_attempts?.unwrap_or(default.max_attempts),
            scheduling: scheduling?,
        })
    }

    /// The definition of a single task.
    pub(crate) fn whole_definition(&mut self) -> Option<Definition> {
        let (args, name) = (self.args.read(json_field::read), self.name.read(field::name));
        let rest = self.definition();
        Some(Definition { args: args?, name: name?, ..rest? })
    }

    /// The address parameters that bring these fields back.
    pub(crate) fn parameters(&self, query: Query) -> Query {
        let mut fields = self.clone();
        let filled = fields.all().filter(|(_, field)| !field.value.is_empty());
        filled.fold(query, |query, (name, field)| query.and(name, &field.value))
    }

    /// Returns whether nothing was filled in.
    pub(crate) fn is_empty(&self) -> bool {
        self.args.filled().is_none() && Self { args: Field::default(), ..self.clone() } == Self::default()
    }
}

impl WaitingFields {
    /// The fields that give these values.
    fn with(scheduling: &Scheduling, not_before: Option<Timestamp>) -> Self {
        let text = |text: Option<String>| Field::with(text.unwrap_or_default());
        let seconds = |seconds: Option<f64>| text(seconds.map(field::seconds_text));
        let delay = scheduling.retry_delay;
        let unless = |value: f64, default: f64| Some(value).filter(|value| *value != default);
        let factor = delay.and_then(|delay| unless(delay.factor(), RETRY_DELAY_FACTOR_DEFAULT));
        let longest = delay.and_then(|delay| unless(delay.max_seconds(), RETRY_DELAY_MAX_SECONDS_DEFAULT));
        let ids: Vec<&str> = scheduling.dependencies.as_slice().iter().map(TaskId::as_str).collect();
        let choice = scheduling.on_dependency_failure;
        Self {
            not_before: text(not_before.map(|at| at.to_string())),
            timeout: seconds(scheduling.timeout_seconds.map(|limit| limit as f64)),
            retry_seconds: seconds(delay.map(|delay| delay.seconds())),
            retry_factor: text(factor.map(|factor| factor.to_string())),
            retry_max_seconds: seconds(longest),
            dependencies: Field::with(ids.join("\n")),
            on_dependency_failure: Field::with(if choice == OnDependencyFailure::Wait { "" } else { choice.as_str() }),
        }
    }

    /// Returns whether anything stands in them.
    pub(crate) fn is_used(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether a pending task is cancelled when a task that it waits for fails, for the choice in the form.
    pub(crate) fn cancels(&self) -> bool {
        self.on_dependency_failure.value == OnDependencyFailure::Cancel.as_str()
    }

    /// Before when the task is not claimed; none if that is wrong, which then is said.
    pub(crate) fn not_before(&mut self, now: Timestamp) -> Option<Option<Timestamp>> {
        self.not_before.read_filled(|text| field::moment(text, now))
    }

    /// How that time is compared: one that is counted from now is another one each time.
    pub(crate) fn times(&self) -> TimeComparison {
        let is_relative = self.not_before.filled().is_some_and(|text| text.starts_with(field::MOMENT_AHEAD));
        if is_relative { TimeComparison::Presence } else { TimeComparison::Exact }
    }

    /// All others; none if a field is wrong, which then says so.
    pub(crate) fn scheduling(&mut self) -> Option<Scheduling> {
        let most = u64::try_from(TIMEOUT_SECONDS_MAX).unwrap_or(u64::MAX);
        let timeout = self.timeout.read_filled(|text| field::whole_seconds(text, 1, most));
        let delay = self.retry_delay();
        let ids = self.dependencies.read(dependencies);
        let parse = |word: &str| OnDependencyFailure::parse(word).ok_or_else(|| "Choose wait or cancel.".to_owned());
        let choice = self.on_dependency_failure.read_filled(parse);
        let fields = SchedulingFields {
            retry_delay: delay?,
            timeout_seconds: timeout?.and_then(|seconds| i64::try_from(seconds).ok()),
            dependencies: ids?,
            on_dependency_failure: choice?.unwrap_or(OnDependencyFailure::Wait),
        };
        Some(fields.into())
    }

    fn retry_delay(&mut self) -> Option<Option<RetryDelay>> {
        let first = self.retry_seconds.read_filled(field::seconds);
        let most = self.retry_max_seconds.read_filled(field::seconds);
        let factor = self.retry_factor.read_filled(retry_factor);
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

fn retry_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor >= 1.0);
    factor.ok_or_else(|| "Write a number that is at least 1.".to_owned())
}

/// Ids between commas or white space. Repeated ones count once.
fn dependencies(text: &str) -> Result<Dependencies, String> {
    let rule = |word: &str| format!("{word}: an id of a task has t_ and 12 letters or digits.");
    let ids = field::words(text, TaskId::parse, rule)?;
    let most = show::number(DEPENDENCIES_MAX as u64);
    Dependencies::new(ids).ok_or_else(|| format!("A task can wait for {most} other tasks at most."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_the_defaults() {
        let mut fields = TaskFields::default();
        assert_eq!(fields.definition(), Some(Definition::default()));
        assert_eq!(fields.whole_definition(), Some(Definition::default()));
        assert_eq!(TaskFields::from_definition(&Definition::default()), TaskFields::default());
        assert!(fields.is_empty());
        for filled in ["name=a", "routes=gpu", "timeout=5+min", "metadata=%7B%7D"] {
            assert!(!TaskFields::of(&Query::parse(filled)).is_empty(), "{filled}");
        }
    }

    #[test]
    fn each_wrong_field_says_what_is_wrong_and_keeps_its_text() {
        let form = Query::parse("name=a%07b&metadata=%7B&routes=gpu,-x&priority=1e3&max_attempts=0");
        let mut fields = TaskFields::of(&form);
        assert_eq!((fields.definition(), fields.whole_definition()), (None, None));
        let errors = [&fields.name, &fields.metadata, &fields.routes, &fields.priority, &fields.max_attempts];
        let expected = ["control characters", "Line 1, column 2", "-x: a route", "64 bits", "at least 1"];
        for (field, expected) in errors.into_iter().zip(expected) {
            assert!(field.error.as_deref().is_some_and(|error| error.contains(expected)), "{field:?}");
        }
        assert_eq!(fields.priority.value, "1e3");
    }

    #[test]
    fn a_definition_comes_back_from_its_fields() {
        let definition = Definition {
            name: None,
            metadata: JsonObject::from_canonical(r#"{"m":9007199254740993}"#),
            routes: field::routes("h100, a100").unwrap(),
            priority: i64::MIN,
            max_attempts: i64::MAX,
            ..Definition::default()
        };
        assert_eq!(TaskFields::from_definition(&definition).definition(), Some(definition));
    }

    fn fields(form: &str) -> WaitingFields {
        TaskFields::of(&Query::parse(form)).waiting
    }

    #[test]
    fn empty_fields_use_nothing() {
        let mut empty = fields("");
        let expected = (Some(Scheduling::default()), Some(None));
        assert_eq!((empty.scheduling(), empty.not_before(Timestamp::from_micros(0))), expected);
        assert!(!empty.is_used());
        assert_eq!(WaitingFields::with(&Scheduling::default(), None), empty);
    }

    #[test]
    fn what_is_typed_becomes_a_schedule_and_comes_back_from_it() {
        let mut typed = fields(
            "timeout=2+h&retry_seconds=30&retry_factor=1.5&retry_max_seconds=10+min&dependencies=t_exampletask1,%0At_exampletask0&on_dependency_failure=cancel",
        );
        let scheduling = typed.scheduling().expect("a schedule");
        let expected = Some(
            r#"{"dependencies":["t_exampletask0","t_exampletask1"],"on_dependency_failure":"cancel","retry_delay":{"factor":1.5,"max_seconds":600,"seconds":30},"timeout_seconds":7200}"#,
        );
        assert_eq!(scheduling.as_json(), expected);
        let mut back = WaitingFields::with(&scheduling, Some(Timestamp::from_micros(0)));
        assert_eq!(back.scheduling(), Some(scheduling));
        assert_eq!(back.not_before(Timestamp::from_micros(9)), Some(Some(Timestamp::from_micros(0))));
        let back = TaskFields { waiting: back, ..TaskFields::default() };
        assert_eq!(TaskFields::of(&back.parameters(Query::default())), back);
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
            let told: Vec<_> = wrong.all().filter_map(|(name, field)| Some((name, field.error.clone()?))).collect();
            let [(field, error)] = told.as_slice() else { panic!("{told:?}") };
            assert!(*field == name && error.contains(expected), "{told:?}");
        }
        let many: String = (0..=DEPENDENCIES_MAX).map(|n| format!("t_{n:012}+")).collect();
        let mut many = fields(&format!("dependencies={many}"));
        assert!(many.scheduling().is_none() && many.dependencies.error.is_some());
        let mut late = fields("not_before=soon");
        assert!(late.not_before(Timestamp::from_micros(0)).is_none() && late.not_before.error.is_some());
    }
}
