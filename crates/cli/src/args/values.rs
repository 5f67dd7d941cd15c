//! Parsers of single values on the command line, with their error messages.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use taskqueue_client::{OrderField, QueueName, Route, Status, TaskId, Timestamp, Unit};
use taskqueue_core::access::{QueuePattern, Scope, is_token_name};
use taskqueue_core::definition::task_name;
use taskqueue_core::grouping::{TaskDimension, WorkerDimension, dimensions};
use taskqueue_core::scheduling::{self, OnDependencyFailure};

/// Declares parsers, each with the form that it asks for instead of a text that it refuses.
macro_rules! parsers {
    ($($visibility:vis $name:ident: $type:ty = $parse:expr, $form:literal;)*) => {
        $($visibility fn $name(text: &str) -> Result<$type, &'static str> {
            Some(text).and_then($parse).ok_or($form)
        })*
    };
}

parsers! {
    pub(crate) queue_name: QueueName = QueueName::parse,
        "a queue name has 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or digit";
    pub(super) route: Route = Route::parse,
        "a route has 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or digit";
    pub(super) task_id: TaskId = TaskId::parse, "a task id is t_ and 12 of A-Z a-z 0-9 _ -";
    pub(super) token_name: String = |text: &str| is_token_name(text).then(|| text.to_owned()),
        "the name of a token has 1 to 64 of A-Z a-z 0-9 - _ . : / + @";
    pub(super) scope: Scope = Scope::parse, "use read, submit, work or admin";
    pub(super) queue_pattern: QueuePattern = QueuePattern::parse,
        "use a queue name, with * for any characters, such as 'exp-*'";
    pub(super) batch_label: String = label, "use 1 to 256 characters without control characters";
    pub(super) status: Status = Status::parse, "use pending, running, succeeded, failed or cancelled";
    pub(super) unit: Unit = Unit::parse, "use minute or hour";
    pub(super) time: Timestamp = Timestamp::parse, "write a time with its zone, such as 2027-01-31T00:00:00Z";
    pub(super) task_dimensions: Box<[TaskDimension]> = |text| dimensions(text, TaskDimension::parse).map(Vec::into_boxed_slice),
        "use status, routes, or both with a comma";
    pub(super) worker_dimensions: Box<[WorkerDimension]> = |text| dimensions(text, WorkerDimension::parse).map(Vec::into_boxed_slice),
        "use status, route, or both with a comma";
    pub(super) duration: Duration = seconds_with_unit, "write a duration as 30s, 5m, 2h or 7d";
    pub(super) nonzero_duration: Duration = |text| seconds_with_unit(text).filter(|time| !time.is_zero()),
        "write a duration of at least 1 second as 30s, 5m, 2h or 7d";
    pub(super) run_limit: i64 = |text| scheduling::run_limit(i64::try_from(seconds_with_unit(text)?.as_secs()).ok()?),
        "write a duration from 1s to 365d, such as 30s, 5m or 2h";
    pub(super) on_dependency_failure: OnDependencyFailure = OnDependencyFailure::parse, "use wait or cancel";
    pub(super) interval: Duration =
        |text| text.parse().ok().filter(|seconds| (0.2..=3600.0).contains(seconds)).map(Duration::from_secs_f64),
        "write seconds from 0.2 to 3600, such as 2 or 0.5";
    pub(super) time_limit: OrNone<Duration> = |text| or_none(text, "never", seconds_with_unit),
        "write a duration as 30, 30s, 5m or 2h, or never";
    pub(super) number_limit: OrNone<u32> = |text| or_none(text, "never", |text| text.parse().ok().filter(|number| *number > 0)),
        "write a number of at least 1, or never";
    pub(super) count_or_none: OrNone<u64> =
        |text| or_none(text, "none", |text| text.parse().ok().filter(|count: &u64| i64::try_from(*count).is_ok())),
        "write a number from 0, or none";
    pub(super) duration_or_none: OrNone<u64> =
        |text| or_none(text, "none", |text| seconds_with_unit(text).map(|time| time.as_secs())),
        "write a duration as 30m, 12h or 7d, or none";
}

/// A task as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskRef {
    Id(TaskId),
    /// The beginning of its id, which has to be that of no other.
    Beginning(String),
}

/// So few characters are soon the beginning of several ids.
const BEGINNING_MIN: usize = 6;

pub(super) fn task_ref(text: &str) -> Result<TaskRef, &'static str> {
    const FORM: &str =
        "a task id is t_ and 12 of A-Z a-z 0-9 _ -; its first 6 characters or more are enough if no other begins so";
    if let Some(id) = TaskId::parse(text) {
        return Ok(TaskRef::Id(id));
    }
    let is_beginning = text.len() >= BEGINNING_MIN && TaskId::is_beginning(text);
    if is_beginning { Ok(TaskRef::Beginning(text.to_owned())) } else { Err(FORM) }
}

/// Returns the label of a batch: what may be a name, but not empty.
fn label(text: &str) -> Option<String> {
    task_name(text).ok().filter(|label| !label.is_empty()).map(|label| label.to_string())
}

pub(super) fn order_field(text: &str) -> Result<OrderField, String> {
    OrderField::parse(text).ok_or_else(|| {
        let fields: Vec<&str> = OrderField::ALL.iter().map(|field| field.as_str()).collect();
        format!("use one of {}", fields.join(", "))
    })
}

/// Reads a duration such as `30`, `30s`, `5m` or `2h`; a bare number means seconds.
fn seconds_with_unit(text: &str) -> Option<Duration> {
    let with_unit = UNITS.iter().find_map(|(unit, seconds, _)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, unit_seconds) = with_unit.unwrap_or((text, 1));
    Some(Duration::from_secs(u64::from(number.parse::<u32>().ok()?) * unit_seconds))
}

/// Reads the numbers of a worker's slots. As many slots as `--jobs` allows, with numbers that no machine has more GPUs than.
pub(super) fn slot_numbers(text: &str) -> Result<Box<[usize]>, String> {
    const MOST: usize = 1024;
    const FORM: &str = "write the numbers of the slots with commas, such as 2,3,5";
    let mut numbers: Vec<usize> = Vec::new();
    for word in text.split(',') {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse::<u16>().ok().filter(|_| is_number).ok_or(FORM)?;
        if numbers.contains(&number.into()) {
            return Err(format!("slot {number} is named twice"));
        }
        numbers.push(number.into());
    }
    if numbers.len() > MOST { Err(format!("a worker has at most {MOST} slots")) } else { Ok(numbers.into()) }
}

/// A value, or a word that says that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

fn or_none<T>(text: &str, none: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<OrNone<T>> {
    if text == none { Some(OrNone(None)) } else { read(text).map(|value| OrNone(Some(value))) }
}

/// Reads `gpu=4` or `gpu=none`.
pub(super) fn route_limit(text: &str) -> Result<(Route, OrNone<u64>), String> {
    let (name, limit) = text.split_once('=').ok_or("write ROUTE=COUNT, such as gpu=4, or gpu=none")?;
    Ok((route(name)?, count_or_none(limit)?))
}

/// The units of durations, with their seconds and what else people call them.
const UNITS: [(&str, u64, &[&str]); 4] = [
    ("s", 1, &["s", "sec", "secs", "second", "seconds"]),
    ("m", 60, &["m", "min", "mins", "minute", "minutes"]),
    ("h", 3600, &["h", "hr", "hrs", "hour", "hours"]),
    ("d", 86_400, &["d", "day", "days"]),
];

/// Returns how to write a duration that was written as two words, such as `--timeout 5 minutes`: the second word is no part of the flag, so
/// the parser complains about it.
pub(super) fn duration_hint(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let kinds = [ContextKind::InvalidValue, ContextKind::InvalidArg];
    kinds.into_iter().find_map(|kind| one_word(context_text(error, kind)?, arguments))
}

/// Returns what an error names, such as the argument that it is about.
pub(super) fn context_text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    if let Some(ContextValue::String(text)) = error.get(kind) { Some(text) } else { None }
}

fn one_word(word: &str, arguments: &[OsString]) -> Option<String> {
    let (unit, ..) = UNITS.iter().find(|(.., words)| words.contains(&word))?;
    let number = arguments.windows(2).find(|pair| pair[1] == word)?[0].to_str()?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("; write the duration as one word: {number}{unit} instead of {number} {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_its_id_or_by_the_beginning_of_it() {
        let id = "t_abcdefghijkl";
        assert_eq!(task_ref(id), Ok(TaskRef::Id(TaskId::parse(id).unwrap())));
        for text in ["t_abcd", "t_ab-_", "t_abcdefghijk"] {
            assert_eq!(task_ref(text), Ok(TaskRef::Beginning(text.to_owned())), "{text}");
        }
        for text in ["", "t_", "t_abc", "abcdefgh", "t_abcdefghijklm", "t_abc\"", "t_abcdé", "nonsense"] {
            assert!(task_ref(text).is_err(), "{text}");
        }
    }

    /// Holds that texts are read as these values, and that others are refused.
    fn check<T: std::fmt::Debug + PartialEq, E: std::fmt::Debug + PartialEq>(
        read: fn(&str) -> Result<T, E>,
        accepted: impl IntoIterator<Item = (&'static str, T)>,
        refused: &[&str],
    ) {
        for (text, expected) in accepted {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in refused {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals_are_seconds_within_reason() {
        let accepted = [("2", 2000), ("0.5", 500), ("0.2", 200), ("3600", 3_600_000)];
        let accepted = accepted.map(|(text, millis)| (text, Duration::from_millis(millis)));
        check(interval, accepted, &["", "0", "-1", "0.1", "3601", "NaN", "inf", "2s"]);
    }

    #[test]
    fn limits_may_be_never() {
        check(time_limit, [("never", OrNone(None)), ("90", OrNone(Some(Duration::from_secs(90))))], &["Never"]);
        let refused = ["", "0", "-1", "1.5", "Never"];
        check(number_limit, [("never", OrNone(None)), ("5", OrNone(Some(5)))], &refused);
    }

    #[test]
    fn slots_are_different_numbers() {
        assert_eq!(slot_numbers("2,3,5"), Ok([2, 3, 5].into()));
        assert_eq!(slot_numbers("7"), Ok([7].into()));
        for text in ["", ",", "1,", "1, 2", "+1", "-1", "a", "1-3", "1,1", "01,1", "70000"] {
            assert!(slot_numbers(text).is_err(), "{text}");
        }
        let list = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        assert!(slot_numbers(&list(1024)).is_ok() && slot_numbers(&list(1025)).is_err());
    }

    #[test]
    fn a_time_limit_of_zero_is_none() {
        check(nonzero_duration, [("30d", Duration::from_secs(30 * 86_400))], &["0", "0s", "never", ""]);
    }

    #[test]
    fn limits_are_numbers_or_none() {
        let refused = ["", "-1", "1.5", "None", "9223372036854775808", "x"];
        check(count_or_none, [("0", OrNone(Some(0))), ("none", OrNone(None))], &refused);
        let (name, limit) = route_limit("gpu=4").unwrap();
        assert_eq!((name.as_str(), limit), ("gpu", OrNone(Some(4))));
        assert_eq!(route_limit("gpu=none").unwrap().1, OrNone(None));
        for (text, expected) in [("gpu", "gpu=4"), ("=4", "a route has"), ("gpu=", "or none"), ("a b=1", "a route has")]
        {
            let error = route_limit(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        check(duration_or_none, [("7d", OrNone(Some(604_800))), ("none", OrNone(None))], &[]);
        assert!(duration_or_none("forever").unwrap_err().contains("7d"));
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        let accepted = [("30", 30), ("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("0", 0)];
        let accepted = accepted.map(|(text, seconds)| (text, Duration::from_secs(seconds)));
        check(duration, accepted, &["", "s", "-1", "1.5m", "5x", "5 m", "99999999999", "ä"]);
    }
}
