//! Which tasks a selection takes, and that every field of a task, of its view and of an observation is the one that filters and
//! orders ask for. Which tasks make a page is in the conformance suite of the stores.

use taskqueue_core::cursor::{OrderValue, Position};
use taskqueue_core::filter::{ObservationFilter, TaskFilter};
use taskqueue_core::fuzzy::FuzzyName;
use taskqueue_core::grouping::{WorkerDimension, dimensions};
use taskqueue_core::ids::WorkerId;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::selection::{OrderField, TaskOrder, TaskPosition, TaskSelection, worker_position};
use taskqueue_core::task::LastError;

use crate::prelude::*;
use crate::samples::idle_worker;

fn task_id(n: usize) -> TaskId {
    TaskId::parse(&format!("t_{n:012}")).unwrap()
}

/// A task whose fields all differ from each other and from what is usual.
fn task() -> Task {
    let routes = ["cpu", "gpu"].map(|route| Route::parse(route).unwrap()).to_vec();
    let lifecycle = Lifecycle {
        status: Status::Failed,
        attempt: 2,
        last_route: Route::parse("gpu"),
        updated_at: at(2),
        started_at: Some(at(3)),
        finished_at: Some(at(4)),
        finished_run: Some(FinishedRun { run_id: RunId::parse("r_run000000002").unwrap(), end: RunEnd::Fail }),
        ..Lifecycle::created(at(1), 9)
    };
    let failure = Failure { kind: "ValueError".into(), message: "bad seed".into(), traceback: Some("line 1".into()) };
    let run_id = RunId::parse("r_run000000001").unwrap();
    let value = JsonObject::from_canonical(r#"{"step":8}"#);
    Task {
        queue: QueueName::parse("q").unwrap(),
        id: task_id(1),
        definition: Definition {
            name: Some("train".into()),
            args: JsonObject::from_canonical(r#"{"a":1}"#),
            metadata: JsonObject::from_canonical(r#"{"a":2}"#),
            priority: 7,
            max_attempts: 5,
            routes: Routes::new(routes).unwrap(),
            ..Definition::default()
        },
        lifecycle,
        outcome: Outcome {
            result: JsonObject::from_canonical(r#"{"a":3}"#),
            last_error: Some(LastError { failure, occurred_at: at(5), attempt: 6, run_id: Some(run_id) }),
            last_run: Some(LastRun { attempt: 4, worker: JsonObject::from_canonical(r#"{"host":"h"}"#) }),
            progress: Some(Progress { value, updated_at: at(6), attempt: 4 }),
        },
    }
}

#[test]
fn filters_see_every_field_of_a_task_and_of_its_view() {
    let task = task();
    let true_ones = "id == 't_000000000001'; status == 'failed'; name == 'train'; last_route == 'gpu'; priority == 7; \
         attempt == 2; max_attempts == 5; created_at == '1970-01-01T00:00:01Z'; \
         updated_at == '1970-01-01T00:00:02Z'; started_at == '1970-01-01T00:00:03Z'; \
         finished_at == '1970-01-01T00:00:04Z'; 'cpu' in routes; 'gpu' in routes; 'tpu' not in routes; args.a == 1; \
         metadata.a == 2; result.a == 3; last_error.type == 'ValueError'; last_error.message == 'bad seed'; \
         last_error.traceback == 'line 1'; last_error.occurred_at == '1970-01-01T00:00:05Z'; \
         last_error.attempt == 6; last_error.run_id == 'r_run000000001'; last_run.attempt == 4; \
         last_run.run_id == 'r_run000000002'; last_run.worker.host == 'h'; progress.step == 8";
    for text in true_ones.split("; ") {
        for (text, expected) in [(text.to_owned(), true), (format!("not ({text})"), false)] {
            let filter = TaskFilter::parse(&text).unwrap();
            assert_eq!(filter.matches(&task.view()), expected, "{text}");
        }
    }
}

fn observation(on: &str, status: WorkerStatus) -> Observation {
    let report = Report { route: route(on), status, task_id: Some(task_id(1)), metadata: object(r#"{"host":"h"}"#) };
    let id = WorkerId::parse("w_000000000001").unwrap();
    let telemetry = Some(Telemetry { value: object(r#"{"cpu":4}"#), updated_at: at(3) });
    Observation { id, report, telemetry, last_seen_at: at(1), expires_at: at(2), ..idle_worker() }
}

#[test]
fn filters_see_every_field_of_an_observation() {
    let observation = observation("gpu", WorkerStatus::Busy);
    let true_ones = "id == 'w_000000000001'; queue == 'q'; route == 'gpu'; status == 'busy'; task_id == 't_000000000001'; \
         last_seen_at == '1970-01-01T00:00:01Z'; expires_at == '1970-01-01T00:00:02Z'; metadata.host == 'h'; \
         telemetry.cpu == 4; telemetry_updated_at == '1970-01-01T00:00:03Z'";
    for text in true_ones.split("; ") {
        assert!(ObservationFilter::parse(text).unwrap().matches(&observation), "{text}");
        let not = format!("not ({text})");
        assert!(!ObservationFilter::parse(&not).unwrap().matches(&observation), "{not}");
    }
}

#[test]
fn a_selection_takes_what_all_its_selectors_take() {
    let fuzzy = |text: &str| Some((text.to_owned(), FuzzyName::parse(text).unwrap()));
    let filter = |text: &str| Some(TaskFilter::parse(text).unwrap());
    // For each selector: absent, taking the task, not taking it.
    for status in [None, Some(Status::Failed), Some(Status::Pending)] {
        for name in [None, Some("train"), Some("other")] {
            for name_fuzzy in [None, fuzzy("train"), fuzzy("zzz")] {
                for filter in [None, filter("priority == 7"), filter("priority == 8")] {
                    let selection = TaskSelection {
                        status,
                        name: name.map(str::to_owned),
                        name_fuzzy: name_fuzzy.clone(),
                        filter: filter.clone(),
                        ..TaskSelection::default()
                    };
                    let refused = status == Some(Status::Pending)
                        || name == Some("other")
                        || name_fuzzy.as_ref().is_some_and(|(text, _)| text == "zzz")
                        || filter.as_ref().is_some_and(|filter| filter.text() == "priority == 8");
                    assert_eq!(selection.matches(&task().view()), !refused, "{selection:?}");
                    let by_status_only = name.is_none() && name_fuzzy.is_none() && filter.is_none();
                    assert_eq!(selection.is_by_status_only(), by_status_only, "{selection:?}");
                }
            }
        }
    }
    assert!(TaskSelection { name_fuzzy: fuzzy(""), ..TaskSelection::default() }.is_by_status_only());
}

#[test]
fn words_read_back_and_others_are_refused() {
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
    }
    for end in RunEnd::ALL {
        assert_eq!(RunEnd::parse(end.as_str()), Some(end));
    }
    for status in WorkerStatus::ALL {
        assert_eq!(WorkerStatus::parse(status.as_str()), Some(status));
    }
    let unknown = (Status::parse("Pending"), RunEnd::parse(""), WorkerStatus::parse("away"));
    assert_eq!(unknown, (None, None, None));
    let (route, status) = (WorkerDimension::Route, WorkerDimension::Status);
    let cases = [
        ("route", Some(vec![route])),
        ("status", Some(vec![status])),
        ("route,status", Some(vec![route, status])),
        ("status,route", Some(vec![status, route])),
        ("route,route", None),
        ("route, status", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(dimensions(text, WorkerDimension::parse), expected, "{text}");
    }
}

#[test]
fn positions_read_back_from_their_cursors_and_from_no_others() {
    let position = TaskPosition { value: OrderValue::Int(5), id: task_id(1) };
    assert_eq!(TaskPosition::from_position(position.clone().into_position(3)), Some(position));
    let values = |values: Vec<OrderValue<'static>>| Position { queue_key: 3, values };
    let text = |text: &'static str| OrderValue::Text(text.into());
    for foreign in
        [vec![], vec![OrderValue::Null], vec![OrderValue::Null, text("x")], vec![OrderValue::Null, OrderValue::Int(1)]]
    {
        assert_eq!(TaskPosition::from_position(values(foreign)), None);
    }
    let worker = WorkerId::parse("w_000000000001").unwrap();
    assert_eq!(worker_position(&values(vec![text("w_000000000001")])), Some(worker));
    for foreign in [vec![], vec![OrderValue::Null], vec![text("x")], vec![text("w_000000000001"), OrderValue::Null]] {
        assert_eq!(worker_position(&values(foreign)), None);
    }
}

/// The order is bound to the cursor by this text: two orders must never have the same.
#[test]
fn every_order_has_a_shape_of_its_own() {
    let orders = OrderField::ALL.map(|field| [true, false].map(|descending| TaskOrder { field, descending }));
    let mut shapes: Vec<String> = orders.into_iter().flatten().map(TaskOrder::shape).collect();
    let count = shapes.len();
    shapes.sort();
    shapes.dedup();
    assert_eq!(shapes.len(), count);
}
