//! What the table says of each field, and what follows from it: values, words, filters, the menu, the comparison of definitions.

use super::*;
use crate::definition::Definition;
use crate::filter::{LastErrorFields, LastRunFields, TaskFilter};
use crate::ids::TaskId;
use crate::samples::at;
use crate::scheduling::Scheduling;

const ID: &str = "t_exampletask0";
const EVERYTHING: &str = r#"{"dependencies":["t_000000000000","t_000000000001"],"on_dependency_failure":"cancel","retry_delay":{"factor":2,"max_seconds":3600,"seconds":10},"timeout_seconds":7200}"#;

fn planned(definition: &Definition, not_before: Option<Timestamp>) -> TaskView<'_> {
    TaskView::planned(TaskId::parse(ID).unwrap(), definition, not_before)
}

fn scheduled_by(text: &str) -> Definition {
    Definition { scheduling: Scheduling::from_json(text).unwrap(), ..Definition::default() }
}

#[test]
fn values_are_written_as_they_are_stored() {
    let (definition, error) = (scheduled_by(EVERYTHING), "CUDA out of memory");
    let task = TaskView {
        status: Status::Failed,
        priority: -5,
        attempt: 2,
        routes: r#"["cpu","gpu"]"#,
        result: r#"{"loss":0.5}"#,
        last_error: Some(LastErrorFields {
            kind: "OutOfMemory",
            message: error,
            traceback: None,
            occurred_at: at(1),
            attempt: 2,
            run_id: Some("r_exampletask0"),
        }),
        last_run: Some(LastRunFields { attempt: 2, worker: r#"{"host":"gpu-1"}"#, run_id: None }),
        archived: true,
        ..planned(&definition, Some(at(2)))
    };
    let cases = [
        ("id", Some(ID)),
        ("status", Some("failed")),
        ("name", None),
        ("priority", Some("-5")),
        ("routes", Some("cpu,gpu")),
        ("finished_at", None),
        ("args", Some("{}")),
        ("result", Some(r#"{"loss":0.5}"#)),
        ("progress", None),
        ("last_error.type", Some("OutOfMemory")),
        ("last_error.message", Some(error)),
        ("last_error.traceback", None),
        ("last_error.run_id", Some("r_exampletask0")),
        ("last_error.occurred_at", Some("1970-01-01T00:00:01.000000Z")),
        ("last_run.attempt", Some("2")),
        ("last_run.run_id", None),
        ("last_run.worker", Some(r#"{"host":"gpu-1"}"#)),
        ("not_before", Some("1970-01-01T00:00:02.000000Z")),
        ("timeout_seconds", Some("7200")),
        ("retry_delay", Some(r#"{"factor":2,"max_seconds":3600,"seconds":10}"#)),
        ("dependencies", Some(r#"["t_000000000000","t_000000000001"]"#)),
        ("on_dependency_failure", Some("cancel")),
        ("archived", Some("true")),
    ];
    for (path, expected) in cases {
        let value = TaskField::find(path).unwrap().value(&task);
        assert_eq!(value.as_ref().map(Value::text).as_deref(), expected, "{path}");
    }
}

#[test]
fn people_read_times_and_durations_in_words() {
    let words = |definition: &Definition, not_before| -> Vec<(&str, String)> {
        let task = planned(definition, not_before);
        let optional =
            FIELDS.iter().filter(|field| field.path == "not_before" || scheduled(&task, field.path).is_some());
        optional.filter_map(|field| Some((field.path, field.value(&task)?.words(field.kind, at(0))))).collect()
    };
    let expected = [
        ("not_before", "1970-01-01T00:10:00.000000Z (in 10m)"),
        ("retry_delay", "10s, 2 times as long each time, at most 1h"),
        ("timeout_seconds", "7200 (2h)"),
        ("dependencies", "t_000000000000, t_000000000001"),
        ("on_dependency_failure", "cancel"),
    ];
    let shown = words(&scheduled_by(EVERYTHING), Some(at(600)));
    assert_eq!(shown, expected.map(|(name, words)| (name, words.to_owned())));
    assert_eq!(words(&Definition::default(), None), []);
    let constant = scheduled_by(r#"{"retry_delay":{"factor":1,"max_seconds":86400,"seconds":10},"timeout_seconds":7}"#);
    let expected = [("retry_delay", "10s"), ("timeout_seconds", "7s")];
    assert_eq!(words(&constant, None), expected.map(|(name, words)| (name, words.to_owned())));
}

#[test]
fn filters_can_ask_exactly_for_what_is_filterable() {
    for field in FIELDS {
        let path = if field.kind == Kind::Document { format!("{}.x", field.path) } else { field.path.to_owned() };
        assert_eq!(TaskFilter::parse(&format!("exists({path})")).is_ok(), field.is_filterable, "{path}");
    }
}

#[test]
fn each_place_of_the_menu_is_taken_once() {
    let places: Vec<u8> = menu_fields().into_iter().filter_map(|field| field.menu_place).collect();
    assert_eq!(places, (1..=19).collect::<Vec<u8>>());
}

#[test]
fn each_field_of_a_definition_that_differs_is_named() {
    let wanted = Definition::default();
    let object = JsonObject::from_canonical(r#"{"a":1}"#);
    let present = Definition {
        name: Some("n".into()),
        args: object.clone(),
        metadata: object,
        priority: 5,
        max_attempts: 1,
        routes: crate::definition::Routes::from_json(r#"["gpu"]"#),
        ..scheduled_by(EVERYTHING)
    };
    let different = different_fields(&planned(&present, Some(at(5))), &planned(&wanted, None), TimeComparison::Exact);
    assert_eq!(different, defined_fields().map(|field| field.path).collect::<Vec<_>>());
    let task = planned(&wanted, None);
    assert!(different_fields(&task, &task, TimeComparison::Exact).is_empty());
}

#[test]
fn the_time_of_a_task_is_compared_until_a_claim_has_cleared_it() {
    let definition = Definition::default();
    let task = |not_before| planned(&definition, not_before);
    let claimed = TaskView { started_at: Some(at(3)), ..task(None) };
    let ended = TaskView { status: Status::Cancelled, ..task(None) };
    use TimeComparison::{Exact, Presence};
    let cases = [
        (task(Some(at(5))), Some(at(5)), Exact, true),
        (task(Some(at(5))), Some(at(6)), Exact, false),
        (task(Some(at(5))), None, Exact, false),
        (task(None), Some(at(5)), Exact, false),
        (task(Some(at(5))), Some(at(6)), Presence, true),
        (task(None), Some(at(6)), Presence, false),
        (claimed, Some(at(5)), Exact, true),
        (ended, Some(at(5)), Presence, true),
    ];
    for (present, not_before, times, is_same) in cases {
        let different = different_fields(&present, &task(not_before), times);
        assert_eq!(different, if is_same { vec![] } else { vec!["not_before"] }, "{present:?} {not_before:?}");
    }
}
