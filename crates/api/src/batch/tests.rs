//! The rules of batches that need no server: which errors refuse the whole and which one item, that items are refused as the
//! single request would be, and that everything written reads back.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{Route, TaskId};
use taskqueue_core::json::{self, JsonObject, ObjectWriter, Value};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::limits::{BATCH_BODY_BYTES, BATCH_ITEMS, REQUEST_BODY_BYTES};
use taskqueue_core::task::Failure;
use taskqueue_core::time::Timestamp;

use super::*;
use crate::ErrorCode;
use crate::body::{self, Body};
use crate::error::Code;
use crate::run::{CompleteRequest, FailRequest, HeartbeatRequest, ProgressRequest, UnclaimRequest};
use crate::task::Creation;
use crate::tests::run_id;

const ID: &str = r#""id":"t_abcdefghijkl""#;
const RUN: &str = r#""task_id":"t_abcdefghijkl","run_id":"r_abcdefghijkl""#;

fn task_id() -> TaskId {
    TaskId::parse("t_abcdefghijkl").unwrap()
}

/// The code of a batch that is refused as a whole, with the locations of what is wrong; or nothing.
fn whole<B: BatchBody>(body: &str) -> Option<String> {
    match B::decode(body.as_bytes()) {
        Ok(_) => None,
        Err(BatchError::TooLarge) => Some("too large".to_owned()),
        Err(BatchError::Invalid(invalid)) => {
            let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
            let errors = details["errors"].as_array().cloned().unwrap_or_default();
            let locations: Vec<String> = errors.iter().map(|error| error["location"].to_string()).collect();
            Some(format!("{} {}", invalid.code, locations.join(" ")))
        }
    }
}

/// Each of these bodies is an invalid request because of what stands at these locations.
fn refused_for<B: BatchBody>(cases: &[(&[&str], &str)]) {
    for (bodies, locations) in cases {
        for body in *bodies {
            let expected = Some(format!("invalid_request {locations}"));
            assert_eq!(whole::<B>(body), expected, "{}", &body[..body.len().min(200)]);
        }
    }
}

fn repeated(item: &str, count: usize) -> String {
    vec![item; count].join(",")
}

#[test]
fn a_batch_of_another_shape_is_refused_as_a_whole() {
    let many = |count: usize| format!(r#"{{"tasks":[{}]}}"#, repeated(&format!("{{{ID}}}"), count));
    let (broken, followed) = (format!(r#"{{"tasks":[{{{ID}}},{{]}}"#), format!(r#"{{"tasks":[{{{ID}}}]}}x"#));
    let nameless = format!(r#"{{"tasks":[{{{ID}}}],"\ud800":1}}"#);
    refused_for::<CreateTasksRequest>(&[
        (&["", "null", "[]", "\u{feff}{}", &broken, &followed, &nameless], r#"["body"]"#),
        (&["{}", r#"{"tasks":null}"#, r#"{"tasks":{}}"#, r#"{"tasks":[]}"#], r#"["body","tasks"]"#),
        (&[&many(BATCH_ITEMS + 1)], r#"["body","tasks"]"#),
        (&[r#"{"tasks":[[]]}"#], r#"["body","tasks",0]"#),
        (&[r#"{"tasks":[{}]}"#, r#"{"tasks":[{"id":null}]}"#], r#"["body","tasks",0,"id"]"#),
        (&[&format!(r#"{{"tasks":[{{{ID}}},7,{{"id":7}}]}}"#)], r#"["body","tasks",1] ["body","tasks",2,"id"]"#),
        (&[&format!(r#"{{"tasks":[{{{ID}}}],"x":1}}"#)], r#"["body","x"]"#),
    ]);
    assert_eq!(whole::<CreateTasksRequest>(&format!(r#" {{ "tasks" : [ {{{ID}}} ] }} "#)), None);
    assert_eq!(whole::<CreateTasksRequest>(&many(BATCH_ITEMS)), None);
    let claim = |more: &str| format!(r#"{{"route":"a","run_ids":["x"],{more}}}"#);
    let worker = |bytes: usize| format!(r#""worker":{{"a":"{}"}}"#, "x".repeat(bytes));
    let too_large = [
        claim(&format!(r#""workers":[{{"a":"{}"}}]"#, "x".repeat(249))),
        claim(&format!(r#"{},"workers":[{{"slot":1}}]"#, worker(4_080))),
    ];
    refused_for::<ClaimTasksRequest>(&[
        (&["{}"], r#"["body","route"] ["body","run_ids"]"#),
        (&[r#"{"route":"a","run_ids":[]}"#], r#"["body","run_ids"]"#),
        (&[r#"{"route":"-","run_ids":["r_abcdefghijkl"]}"#], r#"["body","route"]"#),
        (&[r#"{"route":"a","run_ids":["r_abcdefghijkl",1]}"#], r#"["body","run_ids",1]"#),
        (&[r#"{"route":"a","run_ids":["x",7],"workers":[{},{}]}"#], r#"["body","run_ids",1]"#),
        (&[r#"{"route":"a","run_ids":["x","y","x"]}"#], r#"["body","run_ids",2]"#),
        (&[&claim(r#""worker":[]"#), &claim(&worker(2 * REQUEST_BODY_BYTES))], r#"["body","worker"]"#),
        (&[r#"{"route":"a","run_ids":["x","y"],"workers":[{}]}"#], r#"["body","workers"]"#),
        (&[&claim(r#""workers":null"#), &too_large[1]], r#"["body","workers"]"#),
        (&[&too_large[0]], r#"["body","workers",0]"#),
        (&[r#"{"route":"a","run_ids":["x","y"],"workers":[{},7]}"#], r#"["body","workers",1]"#),
        (&[&claim(r#""run_id":"x""#)], r#"["body","run_id"]"#),
    ]);
    assert_eq!(whole::<ClaimTasksRequest>(r#"{"route":"a","run_ids":["x"],"worker":null}"#), None);
    let deep = claim(&format!(r#""worker":{{"a":{}1{}}}"#, "[".repeat(64), "]".repeat(64)));
    assert_eq!(whole::<ClaimTasksRequest>(&deep).as_deref(), Some("json_too_deep "));
    let report = |more: &str| format!(r#"{{"reports":[{{{RUN}{more}}}]}}"#);
    let actions = [report(""), report(r#","action":"output""#), report(r#","action":null"#)];
    let ids = r#"["body","reports",0,"task_id"] ["body","reports",0,"run_id"]"#;
    refused_for::<ReportRunsRequest>(&[
        (&actions.each_ref().map(String::as_str), r#"["body","reports",0,"action"]"#),
        (&[r#"{"reports":[{"action":"complete"}]}"#], ids),
    ]);
}

#[test]
fn the_last_of_equal_keys_counts_and_the_others_are_not_validated() {
    let body = format!(r#"{{"tasks":[1],"tasks":7,"tasks":[{{"id":1,"id":"x",{ID},"args":7,"args":{{"b":1}}}}]}}"#);
    let read = CreateTasksRequest::decode(body.as_bytes()).unwrap();
    let args = JsonObject::from_canonical(r#"{"b":1}"#);
    assert_eq!(read.tasks, [Ok((task_id(), Definition { args, ..Definition::default() }.into()))]);
    let expected = r#"invalid_request ["body","tasks"]"#;
    assert_eq!(whole::<CreateTasksRequest>(&format!(r#"{{"tasks":[{{{ID}}}],"tasks":7}}"#)).unwrap(), expected);
}

/// Returns the error of a single request with this body.
fn single<B: Body + std::fmt::Debug>(body: &str) -> ItemError {
    ItemError::Invalid(body::decode::<B>(body.as_bytes()).unwrap_err())
}

#[test]
fn the_body_of_an_item_is_checked_before_its_id() {
    let read = |item: &str| {
        let mut tasks = CreateTasksRequest::decode(format!(r#"{{"tasks":[{item}]}}"#).as_bytes()).unwrap().tasks;
        *tasks.pop().unwrap().unwrap_err()
    };
    assert_eq!(read(r#"{"id":"x"}"#), ("x".to_owned(), ItemError::TaskId("x".to_owned())));
    assert_eq!(read(r#"{"id":"x","x":1}"#), ("x".to_owned(), single::<Creation>(r#"{"x":1}"#)));
    assert_eq!(read(r#"{"id":"\ud800"}"#).0, "\u{fffd}");
    let (shown, error) = read(&format!(r#"{{"id":"{}"}}"#, "é".repeat(100_000)));
    assert_eq!((shown.chars().count(), error), (128, ItemError::TaskId("é".repeat(128))));
}

#[test]
fn an_item_may_be_as_large_as_the_single_request() {
    let item = |id: &str, bytes: usize| {
        format!(r#"{{"id":"{id}","args":{{"a":"{}"}}}}"#, "x".repeat(bytes - r#"{"args":{"a":""}}"#.len()))
    };
    let too_large = item("t_0123456789ab", REQUEST_BODY_BYTES + 1);
    let body = format!(r#"{{"tasks":[{},{too_large},{{{ID}}}]}}"#, item("t_abcdefghijkl", REQUEST_BODY_BYTES));
    let read = CreateTasksRequest::decode(body.as_bytes()).unwrap().tasks;
    assert!(read[0].is_ok() && read[2].is_ok());
    assert_eq!(read[1], Err(Box::new(("t_0123456789ab".to_owned(), ItemError::TooLarge))));
    let large = format!(r#"{{"reports":[{{{RUN},"action":"fail","error":"{}"}}]}}"#, "x".repeat(REQUEST_BODY_BYTES));
    let read = ReportRunsRequest::decode(large.as_bytes()).unwrap().reports;
    let [Err(refused)] = &read[..] else { panic!("{read:?}") };
    assert!(refused.1 == ItemError::TooLarge && refused.0.run_id == "r_abcdefghijkl");
}

#[test]
fn what_grows_beyond_the_limit_when_it_is_understood_is_too_large() {
    // Each `1e15` becomes `1000000000000000.0`.
    let numbers = format!(r#"{{"id":"t_abcdefghijkl","args":{{"a":[{}]}}}}"#, repeated("1e15", 150_000));
    let body = |count| format!(r#"{{"tasks":[{}]}}"#, repeated(&numbers, count));
    assert_eq!(whole::<CreateTasksRequest>(&body(5)), None);
    assert!(body(8).len() < BATCH_BODY_BYTES / 2);
    assert_eq!(whole::<CreateTasksRequest>(&body(8)).as_deref(), Some("too large"));
}

#[test]
fn a_report_is_the_body_of_the_single_request_with_its_task_and_action() {
    let failure = || Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let alone = |member: &str| format!(r#"{{"run_id":"r_abcdefghijkl",{member}}}"#);
    let cases = [
        (r#""action":"heartbeat""#, Ok(RunAction::Heartbeat { progress: None })),
        (r#""action":"heartbeat","progress":null"#, Ok(RunAction::Heartbeat { progress: None })),
        (r#""action":"heartbeat","progress":{}"#, Ok(RunAction::Heartbeat { progress: Some(JsonObject::empty()) })),
        (r#""action":"progress","progress":{}"#, Ok(RunAction::Progress { progress: JsonObject::empty() })),
        (r#""action":"progress","progress":null"#, Err(single::<ProgressRequest>(&alone(r#""progress":null"#)))),
        (r#""action":"unclaim","progress":{}"#, Err(single::<UnclaimRequest>(&alone(r#""progress":{}"#)))),
        (r#""action":"unclaim""#, Ok(RunAction::End(RunReport::Unclaim { delay: None }))),
        (r#""action":"complete","result":{}"#, Ok(RunAction::End(RunReport::Complete { result: JsonObject::empty() }))),
        (
            r#""action":"fail","retry":false,"error":{"type":"E","message":"m"}"#,
            Ok(RunAction::End(RunReport::Fail { failure: failure(), retry: false, retry_after: None })),
        ),
        (r#""action":"heartbeat","result":{}"#, Err(single::<HeartbeatRequest>(&alone(r#""result":{}"#)))),
        (r#""action":"complete""#, Err(single::<CompleteRequest>(r#"{"run_id":"r_abcdefghijkl"}"#))),
        (r#""action":"fail","error":1"#, Err(single::<FailRequest>(r#"{"run_id":"r_abcdefghijkl","error":1}"#))),
    ];
    for (members, expected) in cases {
        let body = format!(r#"{{"reports":[{{{RUN},{members}}}]}}"#);
        let read = ReportRunsRequest::decode(body.as_bytes()).unwrap().reports.pop().unwrap();
        let read = read.map(|item| item.action).map_err(|refused| refused.1);
        assert_eq!(read, expected, "{members}");
    }
    let refused = |ids: &str| {
        let body = format!(r#"{{"reports":[{{{ids},"action":"unclaim"}}]}}"#);
        *ReportRunsRequest::decode(body.as_bytes()).unwrap().reports.pop().unwrap().unwrap_err()
    };
    let (ids, error) = refused(r#""task_id":"x","run_id":"y""#);
    assert_eq!((ids.task_id.as_str(), ids.run_id.as_str()), ("x", "y"));
    assert_eq!(error, single::<UnclaimRequest>(r#"{"run_id":"y"}"#), "the body before the path");
    assert_eq!(refused(r#""task_id":"x","run_id":"r_abcdefghijkl""#).1, ItemError::TaskId("x".to_owned()));
}

#[test]
fn a_body_that_is_written_reads_back() {
    let definition = Definition { name: Some("é\"".into()), priority: -1, ..Definition::default() };
    let creation = Creation::from(definition);
    let mut tasks = CreateTasksRequest::writer();
    assert!(tasks.push_task(task_id(), &creation) && tasks.push_task(task_id(), &Creation::default()));
    let bytes = tasks.bytes();
    let body = tasks.end();
    assert_eq!(body.len(), bytes);
    let read = CreateTasksRequest::decode(&body).unwrap().tasks;
    assert_eq!(read, [Ok((task_id(), creation)), Ok((task_id(), Creation::default()))]);

    let failure = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let actions = [
        RunAction::Heartbeat { progress: None },
        RunAction::Heartbeat { progress: Some(JsonObject::from_canonical(r#"{"step":1}"#)) },
        RunAction::Progress { progress: JsonObject::from_canonical(r#"{"step":2}"#) },
        RunAction::End(RunReport::Unclaim { delay: None }),
        RunAction::End(RunReport::Complete { result: JsonObject::from_canonical(r#"{"a":1}"#) }),
        RunAction::End(RunReport::Fail { failure, retry: false, retry_after: None }),
    ];
    let items = actions.map(|action| RunItem { task_id: task_id(), run_id: run_id(), action });
    let mut reports = ReportRunsRequest::writer();
    assert!(items.iter().all(|item| reports.push_report(item)));
    assert_eq!(ReportRunsRequest::decode(&reports.end()).unwrap().reports, items.map(Ok));

    let (route, worker) = (Route::parse("gpu").unwrap(), JsonObject::from_canonical(r#"{"id":"w"}"#));
    let slot = JsonObject::from_canonical(r#"{"slot":1}"#);
    for (worker, workers) in [(None, vec![]), (Some(worker.clone()), vec![]), (Some(worker), vec![slot])] {
        let body = ClaimTasksRequest::encode(&route, &[run_id()], worker.as_ref(), &workers);
        let meant = ClaimTasksRequest { route: route.clone(), run_ids: vec![Ok(run_id())], worker, workers };
        assert_eq!(ClaimTasksRequest::decode(&body), Ok(meant));
    }
}

#[test]
fn a_body_is_never_written_beyond_the_limits() {
    let mut many = CreateTasksRequest::writer();
    assert!((0..BATCH_ITEMS).all(|_| many.push_task(task_id(), &Creation::default())));
    assert!(!many.push_task(task_id(), &Creation::default()) && many.items() == BATCH_ITEMS);
    let args = JsonObject::from_canonical(&format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000_000)));
    let creation = Creation::from(Definition { args, ..Definition::default() });
    let mut large = CreateTasksRequest::writer();
    while large.push_task(task_id(), &creation) {}
    let (items, body) = (large.items(), large.end());
    assert!(body.len() <= BATCH_BODY_BYTES && body.len() + 1_000_200 > BATCH_BODY_BYTES);
    assert_eq!(CreateTasksRequest::decode(&body).unwrap().tasks.len(), items);
}

fn answer<T>(text: &[u8], read: impl FnOnce(&Value<'_>) -> T) -> T {
    read(&json::parse(text).unwrap())
}

#[test]
fn an_answer_reads_back_and_must_be_about_what_was_sent() {
    let at = Timestamp::from_micros(1);
    let refuse = |out: &mut ItemsWriter, ids: &[(&str, &str)]| {
        out.refused(ids, ErrorCode::StaleRun, "no", ObjectWriter::new().text("run_id", "x"));
    };
    let is_stale =
        |error: &crate::error::Error| error.code == Code::Known(ErrorCode::StaleRun) && error.message == "no";

    let mut out = ItemsWriter::with_capacity(0);
    CreatedTasks::write(&mut out, task_id(), true);
    CreatedTasks::write(&mut out, task_id(), false);
    refuse(&mut out, &[("id", "t_abcdefghijkl")]);
    let text = out.end();
    let expected = concat!(
        r#"{"items":[{"id":"t_abcdefghijkl","outcome":"created"},{"id":"t_abcdefghijkl","outcome":"existing"},"#,
        r#"{"id":"t_abcdefghijkl","outcome":"refused","error":{"code":"stale_run","message":"no","details":{"run_id":"x"}}}]}"#
    );
    assert_eq!(String::from_utf8_lossy(&text), expected);
    let created = answer(&text, |value| CreatedTasks::read(value, &[task_id(); 3])).unwrap();
    assert!(matches!(&created[..], [Ok(true), Ok(false), Err(error)] if is_stale(error)));
    assert!(answer(&text, |value| CreatedTasks::read(value, &[task_id(); 2])).is_err());
    assert!(answer(&text, |value| CreatedTasks::read(value, &[TaskId::parse("t_0123456789ab").unwrap(); 3])).is_err());

    let mut out = ItemsWriter::with_capacity(0);
    ReportedRuns::write(&mut out, task_id(), run_id(), Some(at));
    ReportedRuns::write(&mut out, task_id(), run_id(), None);
    refuse(&mut out, &[("task_id", "t_abcdefghijkl"), ("run_id", "r_abcdefghijkl")]);
    let report = |action| RunItem { task_id: task_id(), run_id: run_id(), action };
    let unclaim = || report(RunAction::End(RunReport::Unclaim { delay: None }));
    let (text, heartbeat) = (out.end(), report(RunAction::Heartbeat { progress: None }));
    let sent = [heartbeat.clone(), unclaim(), heartbeat.clone()];
    let reported = answer(&text, |value| ReportedRuns::read(value, &sent)).unwrap();
    assert!(matches!(&reported[..], [Ok(Some(lease)), Ok(None), Err(error)] if *lease == at && is_stale(error)));
    let sent = [heartbeat.clone(), heartbeat, unclaim()];
    assert!(answer(&text, |value| ReportedRuns::read(value, &sent)).is_err(), "a heartbeat has a lease");

    let mut out = ItemsWriter::with_capacity(0);
    ClaimedTasks::write_none(&mut out, run_id());
    refuse(&mut out, &[("run_id", "r_abcdefghijkl")]);
    let claimed = answer(&out.end(), |value| ClaimedTasks::read(value, &[run_id(); 2])).unwrap();
    assert!(matches!(&claimed[..], [Ok(None), Err(error)] if is_stale(error)));

    let text = br#"{"items":[{"id":"t_abcdefghijkl","outcome":"dreamt"}]}"#;
    assert!(answer(text, |value| CreatedTasks::read(value, &[task_id()])).is_err());
    assert!(answer(b"{\"items\":[]}", |value| CreatedTasks::read(value, &[])).unwrap().is_empty());
}
