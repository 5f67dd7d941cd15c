//! Holds the exact text of answers, that everything written reads back as itself, and that the schemas say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde_json::json;
use taskqueue_core::definition::{Definition, Routes};
use taskqueue_core::grouping::{self, Group};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::{self, JsonObject, ObjectWriter, Value, write_array, write_string};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::scheduling::{OnDependencyFailure, SchedulingFields};
use taskqueue_core::task::{
    self, Failure, FinishedRun, LastError, LastRun, Lifecycle, Outcome, Progress, RunEnd, Status,
};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Update;
use utoipa::{PartialSchema, ToSchema};

use crate::batch::{
    ClaimTasksRequest, ClaimedTasks, CreateTasksRequest, CreatedTasks, ItemsWriter, ReportRunsRequest, ReportedRuns,
    RunAction, RunItem,
};
use crate::body::{Body, decode, encode};
use crate::bulk_action::BulkActionRequest;
use crate::capabilities::{self, Capabilities, Health, Healthy, Unhealthy};
use crate::error::{Code, Error, ErrorEnvelope};
use crate::lists::{Count, CountAnswer, GroupedCount, Page, Updated, read_groups, write_groups, write_page};
use crate::object_reader::Unreadable;
use crate::queue::Queue;
use crate::run::{Claim, ClaimRequest, CompleteRequest, FailRequest, FailureSchema, Lease, UnclaimRequest};
use crate::task::{
    BulkUpdateRequest, CreateTaskRequest, Creation, LastErrorSchema, Task, TaskPage, TaskSchema, UpdateTaskRequest,
};
use crate::worker::{ObservationPage, ObservationSchema, WorkerReport, read_observation, write_observation};
use crate::{ErrorCode, schema};

pub(crate) fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

pub(crate) fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

pub(crate) fn run_id() -> RunId {
    RunId::parse("r_abcdefghijkl").unwrap()
}

fn routes() -> Routes {
    Routes::new(vec![Route::parse("b").unwrap(), Route::parse("a").unwrap()]).unwrap()
}

pub(crate) fn new_task() -> task::Task {
    task::Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse("t_abcdefghijkl").unwrap(),
        definition: Definition::default(),
        lifecycle: Lifecycle::created(Timestamp::from_micros(0), 1),
        outcome: Outcome::empty(),
    }
}

fn used_task() -> task::Task {
    let at = Timestamp::from_micros;
    let failure = Failure { kind: "E\"".into(), message: "é\n".into(), traceback: Some("t".into()) };
    let mut task = new_task();
    task.definition.name = Some("n\"ä".into());
    task.definition.args = object(r#"{"b":1.0,"a":"\u0000"}"#);
    task.definition.priority = i64::MIN;
    task.lifecycle.status = Status::Failed;
    task.lifecycle.last_route = Route::parse("gpu");
    task.lifecycle.started_at = Some(at(1));
    task.lifecycle.finished_at = Some(at(2));
    task.outcome.last_error = Some(LastError { failure, occurred_at: at(2), attempt: 3, run_id: Some(run_id()) });
    task
}

/// A task with the largest numbers, and a failure without a traceback.
fn extreme_task() -> task::Task {
    let failure = Failure { kind: "E\"".into(), message: "\u{0}".into(), traceback: None };
    let at = Timestamp::from_micros(1_700_000_000_000_001);
    task::Task {
        definition: Definition {
            name: Some("é".into()),
            args: object(r#"{"big":9223372036854775807,"float":1.0,"minus":-0.0,"deep":[{"a":null}]}"#),
            priority: i64::MIN,
            max_attempts: i64::MAX,
            ..Definition::default()
        },
        lifecycle: Lifecycle { status: Status::Failed, started_at: Some(at), ..Lifecycle::created(at, 1) },
        outcome: Outcome {
            result: object(r#"{"x":100.0}"#),
            last_error: Some(LastError { failure, occurred_at: at, attempt: 3, run_id: Some(run_id()) }),
            last_run: None,
            progress: None,
        },
        ..new_task()
    }
}

/// A task of which is known who ran it last, while that run is active and when it is over.
fn claimed_tasks() -> [task::Task; 2] {
    let mut ended = used_task();
    ended.lifecycle.finished_run = Some(FinishedRun { run_id: run_id(), end: RunEnd::Fail });
    ended.outcome.last_run = Some(LastRun { attempt: 2, worker: object(r#"{"pid":4711,"host":"\u0000"}"#) });
    let mut running = ended.clone();
    running.lifecycle.status = Status::Running;
    [running, ended]
}

pub(crate) fn written(task: &task::Task) -> String {
    text(|out| Task::write(out, &task.view()))
}

pub(crate) fn read(text: &str) -> Result<Task, Unreadable> {
    Task::read(&json::parse(text.as_bytes()).unwrap())
}

fn schema_of<S: PartialSchema>() -> serde_json::Value {
    serde_json::to_value(S::schema()).unwrap()
}

fn names(names: &serde_json::Value) -> BTreeSet<String> {
    let keys = names.as_object().map(|members| members.keys().cloned().collect());
    let items = || names.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    keys.unwrap_or_else(items)
}

#[test]
fn a_task_has_exactly_the_17_fields_in_the_order_of_the_contract() {
    let expected = concat!(
        r#"{"id":"t_abcdefghijkl","queue":"q","status":"pending","name":null,"args":{},"metadata":{},"priority":0,"#,
        r#""attempt":0,"max_attempts":3,"routes":["default"],"result":{},"last_error":null,"last_route":null,"#,
        r#""created_at":"1970-01-01T00:00:00.000000Z","updated_at":"1970-01-01T00:00:00.000000Z","#,
        r#""started_at":null,"finished_at":null}"#
    );
    assert_eq!(written(&new_task()), expected);
}

#[test]
fn a_task_that_was_used_shows_everything_escaped() {
    let json = written(&used_task());
    let expected = concat!(
        r#""name":"n\"ä","args":{"a":"\u0000","b":1.0},"metadata":{},"priority":-9223372036854775808,"attempt":0,"#,
        r#""max_attempts":3,"routes":["default"],"result":{},"last_error":{"type":"E\"","message":"é\n","#,
        r#""traceback":"t","occurred_at":"1970-01-01T00:00:00.000002Z","attempt":3,"run_id":"r_abcdefghijkl"},"#,
        r#""last_route":"gpu","#
    );
    assert!(json.contains(expected), "{json}");
}

#[test]
fn who_ran_a_task_stands_behind_the_fields_of_the_contract_and_only_where_it_is_known() {
    let shown = |run_id: &str| {
        let run = format!(r#""attempt":2,"worker":{{"host":"\u0000","pid":4711}},"run_id":{run_id}"#);
        format!(r#""finished_at":"1970-01-01T00:00:00.000002Z","last_run":{{{run}}}}}"#)
    };
    for (task, run_id) in claimed_tasks().iter().zip(["null", "\"r_abcdefghijkl\""]) {
        let json = written(task);
        assert!(json.ends_with(&shown(run_id)), "{json}");
        let read = read(&json).unwrap();
        assert_eq!(read.last_run.as_ref().unwrap().worker.as_str(), r#"{"host":"\u0000","pid":4711}"#);
        assert_eq!(text(|out| Task::write(out, &read.view())), json, "the client writes the same");
    }
    assert_eq!(read(&written(&used_task())).unwrap().last_run, None);
    let wrong = written(&claimed_tasks()[0]).replace(r#""run_id":null"#, r#""run_id":"x""#);
    assert!(read(&wrong).is_err(), "{wrong}");
}

#[test]
fn how_far_a_run_is_stands_behind_who_runs_it_in_three_fields_or_none() {
    let [mut task, _] = claimed_tasks();
    let at = Timestamp::from_micros(3);
    task.outcome.progress = Some(Progress { value: object(r#"{"step":1}"#), updated_at: at, attempt: 2 });
    let json = written(&task);
    let expected = concat!(
        r#""run_id":null},"progress":{"step":1},"#,
        r#""progress_updated_at":"1970-01-01T00:00:00.000003Z","progress_attempt":2}"#
    );
    assert!(json.ends_with(expected), "{json}");
    check::<TaskSchema>(&json);
    let read = read(&json).unwrap();
    assert_eq!((read.progress_updated_at, read.progress_attempt), (Some(at), Some(2)));
    assert_eq!(text(|out| Task::write(out, &read.view())), json, "the client writes the same");
    assert!(Task::most_bytes(&task) >= json.len() && Task::expected_bytes(&task) >= json.len() - 200);
}

#[test]
fn a_task_reads_back_as_the_server_wrote_it_numbers_and_all() {
    let stored = extreme_task();
    let task = read(&written(&stored)).unwrap();
    assert_eq!(task.id, stored.id);
    assert_eq!(task.args, stored.definition.args);
    assert_eq!(task.result.as_str(), r#"{"x":100.0}"#);
    assert_eq!((task.priority, task.max_attempts), (i64::MIN, i64::MAX));
    assert_eq!(task.last_error, stored.outcome.last_error);
    assert_eq!((task.started_at, task.finished_at), (stored.lifecycle.started_at, None));
    for stored in [new_task(), used_task(), stored] {
        let task = read(&written(&stored)).unwrap();
        assert_eq!(text(|out| Task::write(out, &task.view())), written(&stored), "the client writes the same");
    }
}

#[test]
fn fields_of_a_newer_server_are_tolerated_and_missing_or_wrong_ones_are_not() {
    let text = written(&extreme_task());
    let newer = text.replacen('{', r#"{"aa_new":{"x":[1]},"zz_new":null,"#, 1);
    assert_eq!(read(&newer), read(&text));

    let Value::Object(members) = json::parse(text.as_bytes()).unwrap() else { panic!("{text}") };
    assert_eq!(members.len(), 17);
    for left_out in 0..members.len() {
        let (name, mut damaged) = (members[left_out].0.clone(), members.clone());
        damaged.remove(left_out);
        assert_eq!(Task::read(&Value::Object(damaged)), Err(Unreadable(format!("the task has no `{name}`"))));
        let mut damaged = members.clone();
        damaged[left_out].1 = Value::Bool(true);
        assert!(Task::read(&Value::Object(damaged)).is_err(), "{name}");
    }
    for wrong in [r#""status":"paused""#, r#""status":null"#] {
        assert!(read(&text.replace(r#""status":"failed""#, wrong)).is_err(), "{wrong}");
    }
    assert!(read(&text.replace("9223372036854775807,\"deep", "9223372036854775808,\"deep")).is_err());
}

/// The schemas that a schema refers to, by name.
type Components = BTreeMap<String, serde_json::Value>;

/// Holds that a value is what a schema describes: its type, the words of an enumeration, and so on for all that is in it.
fn check_value(schema: &serde_json::Value, components: &Components, value: &serde_json::Value) -> Result<(), String> {
    let described = |schema| check_value(schema, components, value);
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return described(&components[name]);
    }
    if let Some(one_of) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        return one_of.iter().map(described).find(Result::is_ok).unwrap_or_else(|| Err(format!("{value}: {schema}")));
    }
    let actual = match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Number(number) if number.is_f64() => "number",
        serde_json::Value::Number(_) => "integer",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    };
    // An integer is a number, too.
    let is = |kind: &str| schema["type"] == kind || names(&schema["type"]).contains(kind);
    let fits = schema["type"].is_null() || is(actual) || actual == "integer" && is("number");
    if !fits {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is none of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        check_value(&schema["items"], components, item)?;
    }
    let (properties, members) = (&schema["properties"], value.as_object());
    if let (true, Some(members)) = (properties.is_object(), members) {
        let given = members.keys().cloned().collect();
        if !names(&schema["required"]).is_subset(&given) || !given.is_subset(&names(properties)) {
            return Err(format!("{given:?}: {schema}"));
        }
        for (name, member) in members {
            check_value(&properties[name], components, member).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}

/// The schemas that `S` and tasks refer to.
fn components<S: ToSchema>() -> Components {
    let mut referred = Vec::new();
    S::schemas(&mut referred);
    TaskSchema::schemas(&mut referred);
    referred.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap())).collect()
}

pub(crate) fn check<S: ToSchema>(json: &str) {
    let value = serde_json::from_str(json).unwrap();
    assert_eq!(check_value(&schema_of::<S>(), &components::<S>(), &value), Ok(()), "{json}");
}

#[test]
fn a_value_of_another_type_is_not_what_a_schema_describes() {
    let wrong = [
        (r#""priority":0"#, r#""priority":"0""#),
        (r#""status":"pending""#, r#""status":"paused""#),
        (r#""routes":["default"]"#, r#""routes":[1]"#),
        (r#""args":{}"#, r#""args":null"#),
        (r#""created_at":"#, r#""made_at":"#),
    ];
    for (right, wrong) in wrong {
        let json = written(&new_task());
        assert!(json.contains(right), "{right}");
        let value = serde_json::from_str(&json.replace(right, wrong)).unwrap();
        assert!(check_value(&schema_of::<TaskSchema>(), &components::<TaskSchema>(), &value).is_err(), "{wrong}");
    }
}

#[test]
fn every_answer_is_what_its_schema_describes_and_reads_back_as_itself() {
    fn back<S: ToSchema, T: PartialEq + Debug>(
        json: &str,
        meant: T,
        read: impl Fn(&Value<'_>) -> Result<T, Unreadable>,
    ) {
        check::<S>(json);
        assert_eq!(read(&json::parse(json.as_bytes()).unwrap()), Ok(meant), "{json}");
    }
    let at = Timestamp::from_micros(7);
    let [running, ended] = claimed_tasks();
    for one in [new_task(), used_task(), running, ended] {
        let written = written(&one);
        check::<TaskSchema>(&written);
        let task = read(&written).unwrap();
        let claim = text(|out| Claim::write(out, &one, run_id(), at));
        back::<Claim, _>(&claim, Claim { task: task.clone(), run_id: run_id(), lease_expires_at: at }, |claim| {
            Claim::read(claim, run_id())
        });
        for tasks in 1..3 {
            let page = text(|out| {
                (0..tasks).for_each(|_| TaskPage::append(out, &one.view()));
                TaskPage::end(out, Some("c"));
            });
            let meant = Page { items: vec![task.clone(); tasks], next_cursor: Some("c".to_owned()) };
            back::<TaskPage, _>(&page, meant, |page| Page::read(page, Task::read));
        }
    }
    let error: serde_json::Value = serde_json::from_str(&written(&used_task())).unwrap();
    check::<LastErrorSchema>(&error["last_error"].to_string());
    let page = text(|out| TaskPage::end(out, None));
    back::<TaskPage, _>(&page, Page { items: Vec::new(), next_cursor: None }, |page| Page::read(page, Task::read));
    let lease = text(|out| Lease { lease_expires_at: at }.write(out));
    back::<Lease, _>(&lease, Lease { lease_expires_at: at }, Lease::read);
    let count = text(|out| Count { count: 7 }.write(out));
    back::<Count, _>(&count, Count { count: 7 }, Count::read);
    let meant = Updated { matched: 2, updated: 1 };
    let updated = text(|out| meant.write(out));
    back::<Updated, _>(&updated, meant, Updated::read);
    let name = QueueName::parse("q").unwrap();
    let queue = text(|out| Queue::write(out, &name));
    back::<Queue, _>(&queue, Queue { name: name.clone() }, Queue::read);
    let queues = text(|out| Queue::write_all(out, &[name.clone(), name.clone()]));
    let queues = json::parse(queues.as_bytes()).unwrap();
    assert_eq!(Queue::read_all(&queues), Ok(vec![Queue { name: name.clone() }, Queue { name: name.clone() }]));
    let details = ObjectWriter::new().text("queue", "q");
    let error = text(|out| Error::write(out, ErrorCode::QueueNotFound, "no \"q\"", details));
    let code = Code::Known(ErrorCode::QueueNotFound);
    back::<ErrorEnvelope, _>(
        &error,
        Error { code, message: "no \"q\"".to_owned(), details: object(r#"{"queue":"q"}"#) },
        Error::read,
    );
    back::<Healthy, _>(Healthy::JSON, Health { is_ok: true, api_version: "2".to_owned() }, Health::read);
    back::<Unhealthy, _>(Unhealthy::JSON, Health { is_ok: false, api_version: "2".to_owned() }, Health::read);
    for task_id in [None, TaskId::parse("t_abcdefghijkl")] {
        let metadata = match task_id {
            Some(_) => JsonObject::from_canonical(r#"{"gpu":1}"#),
            None => JsonObject::empty(),
        };
        let report = Report { route: Route::parse("gpu").unwrap(), status: WorkerStatus::Busy, task_id, metadata };
        let id = WorkerId::parse("w_abcdefghijkl").unwrap();
        let telemetry = task_id.map(|_| Telemetry { value: object(r#"{"gpu":[0.5]}"#), updated_at: at });
        let one = Observation { id, queue: name.clone(), report, telemetry, last_seen_at: at, expires_at: at };
        let written = text(|out| write_observation(out, &one));
        back::<ObservationSchema, _>(&written, one.clone(), read_observation);
        let page = text(|out| write_page(out, std::slice::from_ref(&one), None, write_observation));
        back::<ObservationPage, _>(&page, Page { items: vec![one], next_cursor: None }, |page| {
            Page::read(page, read_observation)
        });
    }
}

#[test]
fn groups_carry_their_dimensions_in_the_order_asked_for() {
    let group = |key: [&str; 2], count| Group { key: key.map(str::to_owned).to_vec(), count };
    let groups = vec![group(["a", "failed"], 1), group(["b", "failed"], 2)];
    let page = grouping::GroupPage { count: 3, groups: groups.clone(), next: None };
    let json = text(|out| write_groups(out, &["routes", "status"], &page, Some("c")));
    let expected = concat!(
        r#"{"group_by":["routes","status"],"count":3,"items":[{"key":{"routes":"a","status":"failed"},"count":1},"#,
        r#"{"key":{"routes":"b","status":"failed"},"count":2}],"next_cursor":"c"}"#
    );
    assert_eq!(json, expected);
    let value = json::parse(json.as_bytes()).unwrap();
    let meant = Page { items: groups, next_cursor: Some("c".to_owned()) };
    assert_eq!(read_groups(&value, &["routes", "status"]), Ok(meant));
    assert!(read_groups(&value, &["status", "routes"]).is_err());
    assert_eq!(names(&schema_of::<GroupedCount>()["required"]), names(&serde_json::from_str(&json).unwrap()));
    check::<GroupedCount>(&json);
    check::<CountAnswer>(&json);
    assert_eq!(schema_of::<CountAnswer>()["anyOf"].as_array().unwrap().len(), 2);
}

#[test]
fn an_error_is_the_envelope_and_nothing_else() {
    let details = ObjectWriter::new().integer("max_bytes", 1);
    let json = text(|out| Error::write(out, ErrorCode::RequestTooLarge, "send less", details));
    assert_eq!(json, r#"{"error":{"code":"request_too_large","message":"send less","details":{"max_bytes":1}}}"#);
}

#[test]
fn details_are_an_object_in_the_order_of_their_members() {
    let details = ObjectWriter::new().text("a", "\"x\"").integer("b", 7_u64);
    let details = details.field("c", |out| write_array(out, ["d", "e"], write_string));
    assert_eq!(ObjectWriter::new().into_text() + &details.into_text(), r#"{}{"a":"\"x\"","b":7,"c":["d","e"]}"#);
}

#[test]
fn the_capabilities_are_sorted_names_and_unknown_ones_are_read() {
    assert!(capabilities::FEATURES.is_sorted());
    let json = text(|out| Capabilities::write(out, &[]));
    assert!(json.starts_with(r#"{"features":[""#) && json.ends_with("]}"), "{json}");
    check::<Capabilities>(&json);
    let read = |text: &str| Capabilities::read(&json::parse(text.as_bytes()).unwrap());
    assert_eq!(read(&json).unwrap().features, capabilities::FEATURES);
    let without = text(|out| Capabilities::write(out, &[capabilities::OUTPUT]));
    assert_eq!(without, json.replace(r#""output","#, ""));
    let newer = read(r#"{"features":["merge-updates","telepathy"],"more":1}"#).unwrap();
    assert!(newer.has(capabilities::MERGE_UPDATES) && newer.has("telepathy") && !newer.has("merge"));
    for broken in [r#"{"features":null}"#, r#"{"features":[1]}"#, "{}", "[]"] {
        assert!(read(broken).is_err(), "{broken}");
    }
}

pub(crate) fn agree<S: PartialSchema>(fields: &[&str], required: &[&str]) {
    let schema = schema_of::<S>();
    assert_eq!(names(&schema["properties"]), names(&json!(fields)), "{schema}");
    assert_eq!(names(&schema["required"]), names(&json!(required)), "{schema}");
    assert_eq!(schema["additionalProperties"], false, "{schema}");
}

#[test]
fn every_request_schema_has_the_fields_of_its_decoder() {
    agree::<CreateTaskRequest>(Creation::FIELDS, &[]);
    agree::<UpdateTaskRequest>(Update::FIELDS, &[]);
    agree::<BulkUpdateRequest>(BulkUpdateRequest::FIELDS, &["filter", "changes"]);
    agree::<BulkActionRequest>(BulkActionRequest::FIELDS, &["filter"]);
    agree::<ClaimRequest>(ClaimRequest::FIELDS, &["route", "run_id"]);
    agree::<UnclaimRequest>(UnclaimRequest::FIELDS, &["run_id"]);
    agree::<CompleteRequest>(CompleteRequest::FIELDS, CompleteRequest::FIELDS);
    agree::<FailRequest>(FailRequest::FIELDS, &["run_id", "error"]);
    agree::<FailureSchema>(Failure::FIELDS, &["type", "message"]);
    agree::<WorkerReport>(Report::FIELDS, &["route", "status", "task_id"]);
}

#[test]
fn a_task_takes_no_more_bytes_than_it_says_at_most() {
    let mut longest = extreme_task();
    longest.queue = QueueName::parse(&"q".repeat(128)).unwrap();
    longest.lifecycle.last_route = Route::parse(&"r".repeat(128));
    longest.definition.name = Some("\u{1}".repeat(256).into());
    longest.lifecycle.attempt = i64::MIN;
    longest.outcome.last_run = Some(LastRun { attempt: i64::MIN, worker: object(r#"{"a":1}"#) });
    if let Some(error) = &mut longest.outcome.last_error {
        error.failure =
            Failure { kind: "\u{1}".into(), message: "\n".into(), traceback: Some("\u{2}".repeat(9).into()) };
    }
    longest.lifecycle.not_before = Some(Timestamp::from_micros(0));
    longest.lifecycle.archived = true;
    longest.definition.scheduling = SchedulingFields { timeout_seconds: Some(7), ..SchedulingFields::default() }.into();
    for task in [new_task(), used_task(), extreme_task(), longest] {
        let (bytes, most) = (text(|out| Task::write(out, &task.view())).len(), Task::most_bytes(&task));
        assert!(bytes <= most && most < bytes + 1000, "{bytes} {most}");
        let mut out = ItemsWriter::with_capacity(0);
        ClaimedTasks::write(&mut out, &task, run_id(), Timestamp::from_micros(0));
        let frame = r#"{"items":[]}"#.len();
        assert!(out.end().len() - frame <= ClaimedTasks::most_bytes(&task));
    }
}

#[test]
fn the_schemas_of_batches_describe_their_bodies_and_answers() {
    let task = new_task();
    let mut tasks = CreateTasksRequest::writer();
    assert!(tasks.push_task(task.id, &used_task().definition.into()));
    check::<CreateTasksRequest>(std::str::from_utf8(&tasks.end()).unwrap());
    let route = Route::parse("gpu").unwrap();
    let claims = ClaimTasksRequest::encode(&route, &[run_id()], None, &[]);
    check::<ClaimTasksRequest>(std::str::from_utf8(&claims).unwrap());
    let failure = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let actions = [
        RunAction::Heartbeat { progress: None },
        RunAction::Heartbeat { progress: Some(JsonObject::empty()) },
        RunAction::Progress { progress: JsonObject::empty() },
        RunAction::End(RunReport::Unclaim { delay: None }),
        RunAction::End(RunReport::Complete { result: JsonObject::empty() }),
        RunAction::End(RunReport::Fail { failure, retry: false, retry_after: None }),
    ];
    for action in actions {
        let mut reports = ReportRunsRequest::writer();
        assert!(reports.push_report(&RunItem { task_id: task.id, run_id: run_id(), action }));
        check::<ReportRunsRequest>(std::str::from_utf8(&reports.end()).unwrap());
    }
    let written = |ids: &[(&str, &str)], write: fn(&mut ItemsWriter)| {
        let mut out = ItemsWriter::with_capacity(0);
        write(&mut out);
        out.refused(ids, ErrorCode::StaleRun, "no", ObjectWriter::new());
        String::from_utf8(out.end()).unwrap()
    };
    check::<CreatedTasks>(&written(&[("id", "x")], |out| CreatedTasks::write(out, new_task().id, true)));
    check::<ClaimedTasks>(&written(&[("run_id", "x")], |out| {
        ClaimedTasks::write(out, &used_task(), run_id(), Timestamp::from_micros(0));
        ClaimedTasks::write_none(out, run_id());
    }));
    check::<ReportedRuns>(&written(&[("task_id", "x"), ("run_id", "x")], |out| {
        ReportedRuns::write(out, new_task().id, run_id(), Some(Timestamp::from_micros(0)));
        ReportedRuns::write(out, new_task().id, run_id(), None);
    }));
}

#[test]
fn every_field_of_a_task_is_required_though_some_are_nullable() {
    let schema = schema_of::<TaskSchema>();
    // Beyond the contract's: `last_run`, three about progress, five about waiting and time, and `archived`.
    assert_eq!(schema["properties"].as_object().unwrap().len(), 27);
    assert_eq!(schema["properties"].as_object().unwrap().len(), Task::FIELDS.len());
    assert_eq!(schema["required"].as_array().unwrap().len(), 17);
    assert_eq!(schema["additionalProperties"], serde_json::Value::Null, "answers may gain fields");
}

#[test]
fn the_words_of_the_schemas_are_those_of_the_contract() {
    let words = |schema: serde_json::Value| schema["enum"].clone();
    assert_eq!(words(schema_of::<schema::TaskStatus>()), json!(Status::ALL.map(Status::as_str)));
    assert_eq!(words(schema_of::<schema::WorkerStatus>()), json!(["idle", "busy"]));
    let choices = OnDependencyFailure::ALL.map(OnDependencyFailure::as_str);
    assert_eq!(words(schema_of::<schema::OnDependencyFailure>()), json!(choices));
}

/// That a body reads back as itself, and has only fields that its decoder knows.
pub(crate) fn reads_back<B: Body + PartialEq + Debug>(meant: &B) {
    let body = encode(meant);
    assert_eq!(decode::<B>(&body).as_ref(), Ok(meant), "{}", String::from_utf8_lossy(&body));
    let fields = names(&serde_json::from_slice(&body).unwrap());
    assert!(fields.is_subset(&names(&json!(B::FIELDS))), "{fields:?}");
}

/// That a body is written as this text, which its schema describes, and is read back from it.
pub(crate) fn is_body<S: ToSchema, B: Body + PartialEq + Debug>(meant: &B, text: &str) {
    assert_eq!(String::from_utf8(encode(meant)).unwrap(), text);
    assert_eq!(decode::<B>(text.as_bytes()).as_ref(), Ok(meant), "{text}");
    check::<S>(text);
}

#[test]
fn every_decoder_reads_what_its_schema_describes() {
    let args = || object(r#"{"a":1}"#);
    let route = || Route::parse("gpu").unwrap();
    assert_eq!(decode::<Creation>(b"{}"), Ok(Creation::default()));
    check::<CreateTaskRequest>("{}");
    let definition = Definition {
        name: Some("n".into()),
        args: args(),
        metadata: args(),
        priority: -1,
        max_attempts: 1,
        routes: Routes::new(vec![route()]).unwrap(),
        ..Definition::default()
    };
    let text = r#"{"name":"n","args":{"a":1},"metadata":{"a":1},"priority":-1,"max_attempts":1,"routes":["gpu"]}"#;
    is_body::<CreateTaskRequest, _>(&Creation::from(definition), text);
    let update = Update { name: Some(None), result: Some(args()), ..Update::default() };
    is_body::<UpdateTaskRequest, _>(&update, r#"{"name":null,"result":{"a":1}}"#);
    let bulk = BulkUpdateRequest { filter: "priority == 1".into(), changes: update, include_archived: false };
    let text = r#"{"filter":"priority == 1","changes":{"name":null,"result":{"a":1}}}"#;
    is_body::<BulkUpdateRequest, _>(&bulk, text);
    let acting = BulkActionRequest { filter: bulk.filter, expect: Some(3), dry_run: true, include_archived: false };
    is_body::<BulkActionRequest, _>(&acting, r#"{"filter":"priority == 1","expect":3,"dry_run":true}"#);
    let patch = Update { args_patch: Some(object(r#"{"b":null}"#)), metadata_patch: Some(args()), ..Update::default() };
    is_body::<UpdateTaskRequest, _>(&patch, r#"{"args_patch":{"b":null},"metadata_patch":{"a":1}}"#);
    let run_id = run_id();
    for (worker, more) in [(None, ""), (Some(args()), r#","worker":{"a":1}"#)] {
        let text = format!(r#"{{"route":"gpu","run_id":"r_abcdefghijkl"{more}}}"#);
        is_body::<ClaimRequest, _>(&ClaimRequest { route: route(), run_id, worker }, &text);
    }
    is_body::<UnclaimRequest, _>(&UnclaimRequest { run_id, delay_seconds: None }, r#"{"run_id":"r_abcdefghijkl"}"#);
    let complete = CompleteRequest { run_id, result: args() };
    is_body::<CompleteRequest, _>(&complete, r#"{"run_id":"r_abcdefghijkl","result":{"a":1}}"#);
    for (retry, more) in [(true, ""), (false, r#","retry":false"#)] {
        let error = Failure { kind: "E".into(), message: "m".into(), traceback: None };
        let text = r#""run_id":"r_abcdefghijkl","error":{"type":"E","message":"m","traceback":null}"#;
        let fail = FailRequest { run_id, error, retry, retry_after_seconds: None };
        is_body::<FailRequest, _>(&fail, &format!("{{{text}{more}}}"));
    }
    let report = Report { route: route(), status: WorkerStatus::Idle, task_id: None, metadata: args() };
    let text = r#"{"route":"gpu","status":"idle","task_id":null,"metadata":{"a":1}}"#;
    is_body::<WorkerReport, _>(&report, text);
}

#[test]
fn bodies_with_the_values_at_their_limits_read_back_as_themselves() {
    let full = Definition {
        name: Some("\"quoted\" \\ é 😀".into()),
        args: object(r#"{"i":-9223372036854775808,"f":-0.0,"s":"\u0000"}"#),
        metadata: object(r#"{"a":[1,1.0]}"#),
        priority: -1,
        max_attempts: i64::MAX,
        routes: routes(),
        ..Definition::default()
    };
    reads_back(&Creation::from(full));
    for (expect, dry_run) in [(None, false), (Some(0), true), (Some(i64::MAX as u64), true)] {
        let filter = "name == \"x\"\n".into();
        reads_back(&BulkActionRequest { filter, expect, dry_run, include_archived: dry_run });
    }
    let worker = Some(JsonObject::empty());
    reads_back(&ClaimRequest { route: Route::parse("gpu.1").unwrap(), run_id: run_id(), worker });
    let traceback = Some("line 1\n\tline 2".into());
    let error = Failure { kind: "".into(), message: "\u{7f}".into(), traceback };
    reads_back(&FailRequest { run_id: run_id(), error, retry: true, retry_after_seconds: None });
}

#[test]
fn an_update_holds_the_given_fields_only() {
    let cases = [
        Update { name: Some(None), ..Update::default() },
        Update { name: Some(Some("".into())), priority: Some(0), ..Update::default() },
        Update {
            args: Some(JsonObject::empty()),
            metadata: Some(object(r#"{"a":1}"#)),
            max_attempts: Some(1),
            routes: Some(routes()),
            result: Some(object(r#"{"b":1e300}"#)),
            ..Update::default()
        },
        Update {
            args: Some(object(r#"{"a":1}"#)),
            metadata_patch: Some(object(r#"{"a":{"b":null,"c":[null]}}"#)),
            ..Update::default()
        },
        Update { args_patch: Some(JsonObject::empty()), ..Update::default() },
    ];
    for changes in cases {
        reads_back(&changes);
        for include_archived in [false, true] {
            let changes = changes.clone();
            reads_back(&BulkUpdateRequest { filter: "name == \"x\"\n".into(), changes, include_archived });
        }
    }
    assert_eq!(encode(&Update::default()), b"{}");
}

#[test]
fn a_report_without_metadata_is_the_contract_s() {
    let route = Route::parse("default").unwrap();
    let idle = Report { route, status: WorkerStatus::Idle, task_id: None, metadata: JsonObject::empty() };
    assert_eq!(encode(&idle), br#"{"route":"default","status":"idle","task_id":null}"#);
    let task_id = TaskId::parse("t_abcdefghijkl");
    reads_back(&Report { status: WorkerStatus::Busy, task_id, metadata: object(r#"{"host":"h"}"#), ..idle });
}
