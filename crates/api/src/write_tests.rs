//! Holds the exact text of answers, and that the schemas read all of it.

use taskqueue_core::definition::Definition;
use taskqueue_core::grouping::Group;
use taskqueue_core::ids::{Route, TaskId, WorkerId};
use taskqueue_core::json::{self, JsonObject};
use taskqueue_core::observation::{Report, WorkerStatus};
use taskqueue_core::task::{Failure, LastError, Lifecycle, Outcome, Status};

use super::*;
use crate::schema;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn new_task() -> Task {
    Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse("t_abcdefghijkl").unwrap(),
        definition: Definition::default(),
        lifecycle: Lifecycle::created(Timestamp::from_micros(0), 1),
        outcome: Outcome::empty(),
    }
}

fn used_task() -> Task {
    let object = |text: &str| JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap();
    let at = Timestamp::from_micros;
    let failure = Failure { kind: "E\"".into(), message: "é\n".into(), traceback: Some("t".into()) };
    let run_id = RunId::parse("r_abcdefghijkl").unwrap();
    let mut task = new_task();
    task.definition.name = Some("n\"ä".into());
    task.definition.args = object(r#"{"b":1.0,"a":"\u0000"}"#);
    task.definition.priority = i64::MIN;
    task.lifecycle.status = Status::Failed;
    task.lifecycle.last_route = Route::parse("gpu");
    task.lifecycle.started_at = Some(at(1));
    task.lifecycle.finished_at = Some(at(2));
    task.outcome.last_error = Some(LastError { failure, occurred_at: at(2), attempt: 3, run_id });
    task
}

#[test]
fn a_task_has_exactly_the_17_fields_in_the_order_of_the_contract() {
    let expected = concat!(
        r#"{"id":"t_abcdefghijkl","queue":"q","status":"pending","name":null,"args":{},"metadata":{},"priority":0,"#,
        r#""attempt":0,"max_attempts":3,"routes":["default"],"result":{},"last_error":null,"last_route":null,"#,
        r#""created_at":"1970-01-01T00:00:00.000000Z","updated_at":"1970-01-01T00:00:00.000000Z","#,
        r#""started_at":null,"finished_at":null}"#
    );
    assert_eq!(text(|out| task(out, &new_task().view())), expected);
}

#[test]
fn a_task_that_was_used_shows_everything_escaped() {
    let json = text(|out| task(out, &used_task().view()));
    let expected = concat!(
        r#""name":"n\"ä","args":{"a":"\u0000","b":1.0},"metadata":{},"priority":-9223372036854775808,"attempt":0,"#,
        r#""max_attempts":3,"routes":["default"],"result":{},"last_error":{"type":"E\"","message":"é\n","#,
        r#""traceback":"t","occurred_at":"1970-01-01T00:00:00.000002Z","attempt":3,"run_id":"r_abcdefghijkl"},"#,
        r#""last_route":"gpu","#
    );
    assert!(json.contains(expected), "{json}");
}

#[test]
fn the_schemas_read_every_answer_and_write_it_back_alike() {
    fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(json: &str) {
        let read: T = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
        let back: serde_json::Value = serde_json::to_value(&read).unwrap();
        assert_eq!(back, serde_json::from_str::<serde_json::Value>(json).unwrap());
    }
    let run_id = RunId::parse("r_abcdefghijkl").unwrap();
    let at = Timestamp::from_micros(7);
    for one in [new_task(), used_task()] {
        round_trip::<schema::Task>(&text(|out| task(out, &one.view())));
        round_trip::<schema::Claimed>(&text(|out| claimed(out, &one, run_id, at)));
        for tasks in 1..3 {
            let page = text(|out| {
                (0..tasks).for_each(|_| next_task(out, &one.view()));
                end_of_tasks(out, Some("c"));
            });
            round_trip::<schema::TaskPage>(&page);
        }
    }
    round_trip::<schema::TaskPage>(&text(|out| end_of_tasks(out, None)));
    round_trip::<schema::Lease>(&text(|out| lease(out, at)));
    round_trip::<schema::Count>(&text(|out| count(out, 7)));
    round_trip::<schema::CountAnswer>(&text(|out| count(out, 7)));
    round_trip::<schema::Updated>(&text(|out| updated(out, 2, 1)));
    let queue_name = QueueName::parse("q").unwrap();
    round_trip::<schema::Queue>(&text(|out| queue(out, &queue_name)));
    round_trip::<Vec<schema::Queue>>(&text(|out| queues(out, &[queue_name.clone(), queue_name.clone()])));
    round_trip::<schema::ErrorEnvelope>(&text(|out| {
        error(out, ErrorCode::QueueNotFound, "no \"q\"", &Details::none().text("queue", "q"));
    }));
    round_trip::<schema::Health>(schema::Health::OK);
    round_trip::<schema::Unhealthy>(schema::Unhealthy::ERROR);
    for task_id in [None, TaskId::parse("t_abcdefghijkl")] {
        let metadata = match task_id {
            Some(_) => JsonObject::from_canonical(r#"{"gpu":1}"#),
            None => JsonObject::empty(),
        };
        let report = Report { route: Route::parse("gpu").unwrap(), status: WorkerStatus::Busy, task_id, metadata };
        let id = WorkerId::parse("w_abcdefghijkl").unwrap();
        let one = Observation { id, queue: queue_name.clone(), report, last_seen_at: at, expires_at: at };
        round_trip::<schema::Observation>(&text(|out| observation(out, &one)));
        round_trip::<schema::ObservationPage>(&text(|out| page(out, &[one], None, observation)));
    }
}

#[test]
fn groups_carry_their_dimensions_in_the_order_asked_for() {
    let group = |key: [&str; 2], count| Group { key: key.map(str::to_owned).to_vec(), count };
    let page = GroupPage { count: 3, groups: vec![group(["a", "failed"], 1), group(["b", "failed"], 2)], next: None };
    let json = text(|out| groups(out, &["routes", "status"], &page, Some("c")));
    let expected = concat!(
        r#"{"group_by":["routes","status"],"count":3,"items":[{"key":{"routes":"a","status":"failed"},"count":1},"#,
        r#"{"key":{"routes":"b","status":"failed"},"count":2}],"next_cursor":"c"}"#
    );
    assert_eq!(json, expected);
    assert!(matches!(serde_json::from_str(&json).unwrap(), schema::CountAnswer::Grouped(_)));
}

#[test]
fn an_error_is_the_envelope_and_nothing_else() {
    let details = Details::none().integer("max_bytes", 1);
    let json = text(|out| error(out, ErrorCode::RequestTooLarge, "send less", &details));
    assert_eq!(json, r#"{"error":{"code":"request_too_large","message":"send less","details":{"max_bytes":1}}}"#);
}
