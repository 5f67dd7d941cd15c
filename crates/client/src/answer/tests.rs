//! Answers of the server's own writer read back whole, and every damaged one is refused.

use taskqueue_core::definition::Definition;
use taskqueue_core::json::JsonObject;
use taskqueue_core::task::{Failure, LastError, Lifecycle, Outcome, Status};
use taskqueue_core::{ids, time::Timestamp};

use super::*;

fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn stored_task() -> taskqueue_core::task::Task {
    let failure = Failure { kind: "E\"".into(), message: "\u{0}".into(), traceback: None };
    let run_id = ids::RunId::parse("r_abcdefghijkl").unwrap();
    let at = Timestamp::from_micros(1_700_000_000_000_001);
    taskqueue_core::task::Task {
        queue: ids::QueueName::parse("q").unwrap(),
        id: ids::TaskId::parse("t_abcdefghijkl").unwrap(),
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
            last_error: Some(LastError { failure, occurred_at: at, attempt: 3, run_id }),
        },
    }
}

fn written(task: &taskqueue_core::task::Task) -> String {
    let mut out = Vec::new();
    taskqueue_api::write::task(&mut out, &task.view());
    String::from_utf8(out).unwrap()
}

fn read(text: &str) -> Result<Task, Unreadable> {
    task(&json::parse(text.as_bytes()).unwrap())
}

#[test]
fn a_task_reads_back_as_the_server_wrote_it_numbers_and_all() {
    let stored = stored_task();
    let task = read(&written(&stored)).unwrap();
    assert_eq!(task.id, stored.id);
    assert_eq!(task.args, stored.definition.args);
    assert_eq!(task.result.as_str(), r#"{"x":100.0}"#);
    assert_eq!((task.priority, task.max_attempts), (i64::MIN, i64::MAX));
    assert_eq!(task.last_error, stored.outcome.last_error);
    assert_eq!((task.started_at, task.finished_at), (stored.lifecycle.started_at, None));
}

#[test]
fn fields_of_a_newer_server_are_tolerated_and_missing_or_wrong_ones_are_not() {
    let text = written(&stored_task());
    let newer = text.replacen('{', r#"{"aa_new":{"x":[1]},"zz_new":null,"#, 1);
    assert_eq!(read(&newer), read(&text));

    let Value::Object(members) = json::parse(text.as_bytes()).unwrap() else { panic!("{text}") };
    assert_eq!(members.len(), 17);
    for left_out in 0..members.len() {
        let (name, mut damaged) = (members[left_out].0.clone(), members.clone());
        damaged.remove(left_out);
        assert_eq!(task(&Value::Object(damaged)), Err(Unreadable(format!("the task has no `{name}`"))));
        let mut damaged = members.clone();
        damaged[left_out].1 = Value::Bool(true);
        assert!(task(&Value::Object(damaged)).is_err(), "{name}");
    }
    for wrong in [r#""status":"paused""#, r#""status":null"#] {
        assert!(read(&text.replace(r#""status":"failed""#, wrong)).is_err(), "{wrong}");
    }
    assert!(read(&text.replace("9223372036854775807,\"deep", "9223372036854775808,\"deep")).is_err());
}

#[test]
fn an_error_envelope_keeps_code_message_and_details() {
    let answer = |status, body: &str| Answer {
        status,
        server_version: None,
        retry_after: None,
        wait_applied: None,
        body: body.into(),
    };
    let known = answer(409, r#"{"error":{"code":"stale_run","message":"m","details":{"b":1,"a":2.0}}}"#);
    let Err(Error::Api { status: 409, code, message, details, .. }) = known.nothing() else { panic!("{known:?}") };
    assert_eq!(code, Code::Known(taskqueue_api::ErrorCode::StaleRun));
    assert_eq!((message.as_str(), details.as_str()), ("m", r#"{"a":2.0,"b":1}"#));

    let newer = answer(418, r#"{"error":{"code":"teapot","message":"m"}}"#).nothing().unwrap_err();
    assert_eq!(newer.code(), None);
    assert!(matches!(newer, Error::Api { code: Code::Other(text), .. } if text == "teapot"));

    for (status, body) in [(500, "<html>"), (404, "{}"), (409, r#"{"error":"x"}"#), (302, ""), (200, "{}"), (202, "")] {
        let error = answer(status, body).nothing().unwrap_err();
        assert!(matches!(error, Error::Protocol { status: told, .. } if told == status), "{error:?}");
    }
}
