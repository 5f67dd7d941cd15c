//! When a task may run and what it waits for: the members of a task that say so, in bodies and in answers.

use taskqueue_core::json::{Value, write_array, write_string};
use taskqueue_core::limits::{DEPENDENCIES_MAX, TIMEOUT_SECONDS_MAX};
use taskqueue_core::scheduling::{self, Dependencies, OnDependencyFailure, RetryDelay, SchedulingFields};
use taskqueue_core::{Scheduling, TaskId};
use utoipa::ToSchema;

use crate::body::{BodyErrors, Location, Members, field};
use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_values};

/// How long a task waits after an attempt that failed: `seconds` after the first one, `factor` times as long after each further
/// one, and never longer than `max_seconds`.
#[derive(ToSchema)]
#[schema(as = RetryDelay)]
#[serde(deny_unknown_fields)]
pub struct RetryDelaySchema {
    /// After the first attempt.
    #[schema(minimum = 0)]
    pub seconds: f64,
    /// How much longer each time.
    #[schema(minimum = 1, default = 2)]
    pub factor: Option<f64>,
    /// The longest delay.
    #[schema(minimum = 0, default = 86_400)]
    pub max_seconds: Option<f64>,
}

pub(crate) fn retry_delay(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<RetryDelay> {
    let mut delay = Members::of(value, *at, &["seconds", "factor", "max_seconds"], errors)?;
    let seconds = delay.required("seconds", field::number_from_0);
    let factor = delay.optional("factor", field::or_absent(factor));
    let max_seconds = delay.optional("max_seconds", field::or_absent(field::number_from_0));
    RetryDelay::new(seconds?, factor, max_seconds)
}

fn factor(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<f64> {
    let factor = field::number(value, at, errors)?;
    if factor < 1.0 { errors.refuse(at, "use a number from 1") } else { Some(factor) }
}

pub(crate) fn timeout_seconds(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<i64> {
    let seconds = scheduling::run_limit(field::integer(value, at, errors)?);
    seconds.or_else(|| errors.refuse(at, format!("use an integer from 1 to {TIMEOUT_SECONDS_MAX}")))
}

pub(crate) fn dependencies(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Dependencies> {
    let Value::Array(items) = value else { return errors.refuse(at, "use a list of task ids") };
    let read = |(index, item)| field::task_id(item, &Location::Index(at, index), errors);
    // All items are read, so that all wrong ones are reported.
    let ids: Vec<Option<TaskId>> = items.iter().enumerate().map(read).collect();
    let dependencies = Dependencies::new(ids.into_iter().collect::<Option<_>>()?);
    dependencies.or_else(|| errors.refuse(at, format!("name at most {DEPENDENCIES_MAX} different tasks")))
}

pub(crate) fn on_dependency_failure(
    value: &Value<'_>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
) -> Option<OnDependencyFailure> {
    field::parsed(value, at, errors, OnDependencyFailure::parse, "use \"wait\" or \"cancel\"")
}

/// Reads these members of a task.
pub(crate) fn read(task: &ObjectReader<'_>) -> Result<Scheduling, Unreadable> {
    let fields = SchedulingFields {
        retry_delay: task.optional("retry_delay", WireValue::read)?,
        timeout_seconds: task.optional("timeout_seconds", WireValue::read)?,
        dependencies: task.optional("dependencies", WireValue::read)?.unwrap_or_default(),
        on_dependency_failure: task.optional("on_dependency_failure", WireValue::read)?.unwrap_or_default(),
    };
    Ok(fields.into())
}

wire_values! {
    RetryDelay as Self: |delay| *delay, |out, delay| delay.write(out), |object, name| {
        let delay = object.object(name)?;
        let numbers = (delay.number("seconds")?, delay.number("factor")?, delay.number("max_seconds")?);
        Self::new(numbers.0, Some(numbers.1), Some(numbers.2)).map_or_else(|| object.wrong(name), Ok)
    };
    Dependencies as &'a Self: |dependencies| dependencies,
        |out, ids| write_array(out, ids.as_slice(), |out, id| write_string(out, id.as_str())),
        |object, name| Self::new(object.parsed_list(name, TaskId::parse)?).map_or_else(|| object.wrong(name), Ok);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_core::definition::Definition;
    use taskqueue_core::scheduling::SchedulingFields;
    use taskqueue_core::task;
    use taskqueue_core::time::Timestamp;
    use taskqueue_core::update::Update;

    use super::*;
    use crate::body::{Body, decode};
    use crate::bulk_action::BulkActionRequest;
    use crate::run::{FailRequest, UnclaimRequest};
    use crate::task::{BulkUpdateRequest, CreateTaskRequest, Creation, Task, TaskSchema, UpdateTaskRequest};
    use crate::tests::{check, is_body, new_task, read as read_task, reads_back, run_id, text, written};

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:012}")).unwrap()
    }

    /// The code of a body that is refused with the places of what is wrong, or `ok`.
    fn outcome<B: Body>(body: &str) -> String {
        let Err(invalid) = decode::<B>(body.as_bytes()) else { return "ok".into() };
        let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
        let places = details["errors"].as_array().unwrap().iter().map(|error| error["location"].to_string());
        format!("{} {}", invalid.code, places.collect::<Vec<_>>().join(" "))
    }

    fn creation(fields: SchedulingFields) -> Creation {
        Definition { scheduling: fields.into(), ..Definition::default() }.into()
    }

    fn full() -> Creation {
        let fields = SchedulingFields {
            retry_delay: RetryDelay::new(0.5, Some(3.0), Some(60.0)),
            timeout_seconds: Some(31_536_000),
            dependencies: Dependencies::new(vec![id(2), id(1), id(2)]).unwrap(),
            on_dependency_failure: OnDependencyFailure::Cancel,
        };
        Creation { not_before: Timestamp::parse("2026-01-31T12:00:00Z"), ..creation(fields) }
    }

    const FULL: &str = concat!(
        r#"{"name":null,"args":{},"metadata":{},"priority":0,"max_attempts":3,"routes":["default"],"#,
        r#""not_before":"2026-01-31T12:00:00.000000Z","retry_delay":{"factor":3,"max_seconds":60,"seconds":0.5},"#,
        r#""timeout_seconds":31536000,"dependencies":["t_000000000001","t_000000000002"],"on_dependency_failure":"cancel"}"#
    );

    /// Good and bad values of the fields that creation and update have alike. With `null` for those that an update clears.
    const VALUES: &[(&str, &str, bool)] = &[
        ("not_before", r#""2026-01-31T12:00:00Z""#, true),
        ("not_before", r#""2026-01-31T14:00:00.5+02:00""#, true),
        ("not_before", "null", true),
        ("not_before", r#""tomorrow""#, false),
        ("not_before", r#""2026-01-31""#, false),
        ("not_before", "1769860800", false),
        ("retry_delay", r#"{"seconds":0}"#, true),
        ("retry_delay", r#"{"seconds":1.5,"factor":1,"max_seconds":0}"#, true),
        ("retry_delay", r#"{"seconds":1e300,"factor":1e300,"max_seconds":1e300}"#, true),
        ("retry_delay", r#"{"seconds":-0.0}"#, true),
        ("retry_delay", r#"{"seconds":1,"factor":null,"max_seconds":null}"#, true),
        ("retry_delay", "null", true),
        ("retry_delay", "{}", false),
        ("retry_delay", "10", false),
        ("retry_delay", r#"{"seconds":null}"#, false),
        ("retry_delay", r#"{"seconds":"10"}"#, false),
        ("retry_delay", r#"{"seconds":-1}"#, false),
        ("retry_delay", r#"{"seconds":true}"#, false),
        ("retry_delay", r#"{"seconds":1e999}"#, false),
        ("retry_delay", r#"{"seconds":99999999999999999999}"#, false),
        ("retry_delay", r#"{"seconds":1,"factor":0.99}"#, false),
        ("retry_delay", r#"{"seconds":1,"max_seconds":-0.1}"#, false),
        ("retry_delay", r#"{"seconds":1,"jitter":1}"#, false),
        ("timeout_seconds", "1", true),
        ("timeout_seconds", "31536000", true),
        ("timeout_seconds", "null", true),
        ("timeout_seconds", "0", false),
        ("timeout_seconds", "31536001", false),
        ("timeout_seconds", "1.0", false),
        ("timeout_seconds", r#""1""#, false),
        ("dependencies", "[]", true),
        ("dependencies", r#"["t_abcdefghijkl","t_abcdefghijkl"]"#, true),
        ("dependencies", "null", false),
        ("dependencies", r#""t_abcdefghijkl""#, false),
        ("dependencies", "{}", false),
        ("dependencies", r#"["t_short"]"#, false),
        ("dependencies", "[null]", false),
        ("on_dependency_failure", r#""wait""#, true),
        ("on_dependency_failure", r#""cancel""#, true),
        ("on_dependency_failure", r#""fail""#, false),
        ("on_dependency_failure", "true", false),
    ];

    #[test]
    fn creations_and_updates_take_the_same_values_and_name_the_place_of_a_wrong_one() {
        for (field, value, is_good) in VALUES {
            let body = format!(r#"{{"{field}":{value}}}"#);
            let bulk = format!(r#"{{"filter":"priority == 0","changes":{body}}}"#);
            for (outcome, code, place) in [
                (outcome::<Creation>(&body), "invalid_task", r#"["body""#),
                (outcome::<Update>(&body), "invalid_update", r#"["body""#),
                (outcome::<BulkUpdateRequest>(&bulk), "invalid_update", r#"["body","changes""#),
            ] {
                let expected = format!(r#"{code} {place},"{field}""#);
                assert_eq!(outcome == "ok", *is_good, "{body}: {outcome}");
                assert!(*is_good || outcome.starts_with(&expected), "{body}: {outcome}");
            }
        }
        let two = r#"{"retry_delay":{"seconds":-1,"factor":0,"x":1},"dependencies":["t_abcdefghijkl",1]}"#;
        let places = concat!(
            r#"["body","retry_delay","x"] ["body","retry_delay","seconds"] ["body","retry_delay","factor"] "#,
            r#"["body","dependencies",1]"#
        );
        assert_eq!(outcome::<Creation>(two), format!("invalid_task {places}"));
    }

    #[test]
    fn at_most_1000_different_dependencies_are_taken_and_duplicates_do_not_count() {
        let ids = |count: usize| {
            let ids: Vec<String> = (0..count).chain(0..count).map(|n| format!("\"{}\"", id(n))).collect();
            format!(r#"{{"dependencies":[{}]}}"#, ids.join(","))
        };
        assert_eq!(outcome::<Creation>(&ids(1_000)), "ok");
        assert_eq!(outcome::<Creation>(&ids(1_001)), r#"invalid_task ["body","dependencies"]"#);
        assert_eq!(outcome::<Update>(&ids(1_001)), r#"invalid_update ["body","dependencies"]"#);
    }

    #[test]
    fn an_explicit_default_is_the_same_as_a_field_that_is_left_out() {
        let explicit = r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null,"dependencies":[],"on_dependency_failure":null}"#;
        assert_eq!(decode::<Creation>(explicit.as_bytes()), Ok(Creation::default()));
        let wait = decode::<Creation>(br#"{"on_dependency_failure":"wait"}"#);
        assert_eq!(wait, Ok(Creation::default()));
        let defaults = decode::<Creation>(br#"{"retry_delay":{"seconds":10.0,"factor":2,"max_seconds":86400}}"#);
        assert_eq!(decode::<Creation>(br#"{"retry_delay":{"seconds":10}}"#), defaults);
    }

    #[test]
    fn an_update_clears_by_null_what_may_be_cleared_and_takes_null_for_absent_elsewhere() {
        let cleared = Update {
            not_before: Some(None),
            retry_delay: Some(None),
            timeout_seconds: Some(None),
            dependencies: Some(Dependencies::default()),
            ..Update::default()
        };
        is_body::<UpdateTaskRequest, _>(
            &cleared,
            r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null,"dependencies":[]}"#,
        );
        let absent = decode::<Update>(br#"{"priority":1,"on_dependency_failure":null,"archived":null}"#);
        assert_eq!(absent, Ok(Update { priority: Some(1), ..Update::default() }));
        for nothing in [r#"{"archived":null}"#, r#"{"on_dependency_failure":null}"#, "{}"] {
            assert_eq!(outcome::<Update>(nothing), r#"invalid_update ["body"]"#, "{nothing}");
        }
        for archived in [true, false] {
            let update = Update { archived: Some(archived), ..Update::default() };
            is_body::<UpdateTaskRequest, _>(&update, &format!(r#"{{"archived":{archived}}}"#));
        }
        assert_eq!(outcome::<Update>(r#"{"archived":1}"#), r#"invalid_update ["body","archived"]"#);
        assert_eq!(outcome::<Creation>(r#"{"archived":true}"#), r#"invalid_task ["body","archived"]"#);
    }

    #[test]
    fn a_creation_is_written_with_what_it_uses_and_reads_back_as_itself() {
        is_body::<CreateTaskRequest, _>(&full(), FULL);
        let unused = text(|out| out.extend_from_slice(&crate::body::encode(&Creation::default())));
        assert!(!unused.contains("not_before") && !unused.contains("dependencies"), "an older server refuses them");
        let delayed =
            SchedulingFields { retry_delay: RetryDelay::new(1e300, None, None), ..SchedulingFields::default() };
        for creation in [full(), Creation::default(), creation(delayed)] {
            reads_back(&creation);
        }
        let update = Update {
            not_before: Some(full().not_before),
            retry_delay: Some(RetryDelay::new(1.0, None, None)),
            timeout_seconds: Some(Some(1)),
            dependencies: Dependencies::new(vec![id(7)]),
            on_dependency_failure: Some(OnDependencyFailure::Wait),
            ..Update::default()
        };
        reads_back(&update);
    }

    fn used_task() -> task::Task {
        let Creation { definition, not_before } = full();
        let mut task = task::Task { definition, ..new_task() };
        task.lifecycle.not_before = not_before;
        task.lifecycle.archived = true;
        task
    }

    #[test]
    fn what_a_task_uses_stands_behind_all_other_fields_and_reads_back() {
        let json = written(&used_task());
        let expected = concat!(
            r#""finished_at":null,"not_before":"2026-01-31T12:00:00.000000Z","#,
            r#""dependencies":["t_000000000001","t_000000000002"],"on_dependency_failure":"cancel","#,
            r#""retry_delay":{"factor":3,"max_seconds":60,"seconds":0.5},"timeout_seconds":31536000,"archived":true}"#
        );
        assert!(json.ends_with(expected), "{json}");
        check::<TaskSchema>(&json);
        let task = read_task(&json).unwrap();
        assert_eq!((&task.scheduling, task.archived), (&used_task().definition.scheduling, true));
        assert_eq!(text(|out| Task::write(out, &task.view())), json, "the client writes the same");
        for (good, wrong) in [
            (r#""seconds":0.5"#, r#""seconds":-1"#),
            (r#""on_dependency_failure":"cancel""#, r#""on_dependency_failure":"fail""#),
            (r#""t_000000000001""#, r#""x""#),
            (r#""archived":true"#, r#""archived":1"#),
        ] {
            assert!(read_task(&json.replace(good, wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_says_how_long_its_task_waits_by_a_number_from_0() {
        let fail = |more: &str| {
            format!(r#"{{"run_id":"r_abcdefghijkl","error":{{"type":"E","message":"m","traceback":null}}{more}}}"#)
        };
        let unclaim = |more: &str| format!(r#"{{"run_id":"r_abcdefghijkl"{more}}}"#);
        let values = [
            ("0", Some(Some(Duration::ZERO))),
            ("90", Some(Some(Duration::from_secs(90)))),
            ("0.5", Some(Some(Duration::from_millis(500)))),
            ("1e300", Some(Some(Duration::MAX))),
            ("null", Some(None)),
            ("-1", None),
            ("1e999", None),
            (r#""90""#, None),
            ("true", None),
            ("[]", None),
        ];
        for (value, expected) in values {
            let failed = decode::<FailRequest>(fail(&format!(r#","retry_after_seconds":{value}"#)).as_bytes());
            assert_eq!(failed.ok().map(|fail| fail.retry_after_seconds), expected, "{value}");
            let unclaimed = decode::<UnclaimRequest>(unclaim(&format!(r#","delay_seconds":{value}"#)).as_bytes());
            assert_eq!(unclaimed.ok().map(|unclaim| unclaim.delay_seconds), expected, "{value}");
        }
        let seconds = Some(Duration::from_millis(1_500));
        let body = UnclaimRequest { run_id: run_id(), delay_seconds: seconds };
        is_body::<UnclaimRequest, _>(&body, &unclaim(r#","delay_seconds":1.5"#));
        let error = task::Failure { kind: "E".into(), message: "m".into(), traceback: None };
        let body = FailRequest { run_id: run_id(), error, retry: true, retry_after_seconds: seconds };
        is_body::<FailRequest, _>(&body, &fail(r#","retry_after_seconds":1.5"#));
        reads_back(&UnclaimRequest { run_id: run_id(), delay_seconds: Some(Duration::MAX) });
    }

    #[test]
    fn bulk_requests_say_whether_archived_tasks_are_meant() {
        let flags =
            [("", Ok(false)), (",\"include_archived\":null", Ok(false)), (",\"include_archived\":true", Ok(true))];
        for (given, expected) in flags.into_iter().chain([(",\"include_archived\":\"true\"", Err(()))]) {
            let update = format!(r#"{{"filter":"archived == true","changes":{{"priority":1}}{given}}}"#);
            let update = decode::<BulkUpdateRequest>(update.as_bytes()).map(|bulk| bulk.include_archived);
            assert_eq!(update.map_err(drop), expected, "{given}");
            let act = format!(r#"{{"filter":"archived == true"{given}}}"#);
            let act = decode::<BulkActionRequest>(act.as_bytes()).map(|act| act.include_archived);
            assert_eq!(act.map_err(drop), expected, "{given}");
        }
    }
}
