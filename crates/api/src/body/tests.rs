//! Every rule of docs/reference/http-api.md §3.3 to §3.5 about bodies.

use taskqueue_core::limits::JSON_DEPTH;
use taskqueue_core::observation::{Report, WorkerStatus};
use taskqueue_core::update::Update;

use super::*;
use crate::bulk_action::BulkActionRequest;
use crate::output::OutputRequest;
use crate::run::{ClaimRequest, CompleteRequest, FailRequest, HeartbeatRequest, ProgressRequest, UnclaimRequest};
use crate::task::{BulkUpdateRequest, Creation};
use crate::worker::TelemetryRequest;

/// The code of a body that is refused, or `ok`.
fn code<B: Body>(body: &str) -> &'static str {
    decode::<B>(body.as_bytes()).map_or_else(|invalid| invalid.code.as_str(), |_| "ok")
}

/// The locations of what is wrong, as JSON.
fn locations<B: Body>(body: &str) -> String {
    let Err(invalid) = decode::<B>(body.as_bytes()) else { return "ok".into() };
    let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
    let errors = details["errors"].as_array().unwrap().iter();
    errors.map(|error| error["location"].to_string()).collect::<Vec<_>>().join(" ")
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

fn check_all<B: Body>(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        assert_eq!(code::<B>(body), *expected, "{body}");
    }
}

/// Each row is some bodies, and the code of each of them.
fn check_rows<B: Body>(rows: &[(&[&str], &str)]) {
    for (bodies, expected) in rows {
        for body in *bodies {
            assert_eq!(code::<B>(body), *expected, "{body}");
        }
    }
}

#[test]
fn a_creation_fills_in_defaults_and_last_duplicates_win() {
    assert_eq!(decode::<Creation>(b" {} "), Ok(Creation::default()));
    let explicit = r#"{"name":null,"args":{},"metadata":{},"priority":0,"max_attempts":3,"routes":["default"]}"#;
    assert_eq!(decode::<Creation>(explicit.as_bytes()), Ok(Creation::default()));
    let duplicate = decode::<Creation>(br#"{"priority":"x","priority":2,"args":{"a":1},"args":{"b":-0}}"#).unwrap();
    assert_eq!((duplicate.definition.priority, duplicate.definition.args.as_str()), (2, r#"{"b":0}"#));
}

#[test]
fn a_creation_refuses_what_is_no_task() {
    check_rows::<Creation>(&[
        (&["null", "[]", r#""x""#, "1", r#"{"unknown":1}"#, r#"{"status":"pending"}"#], "invalid_task"),
        (&[r#"{"result":{}}"#, r#"{"\ud800":1}"#, r#"{"name":1}"#, r#"{"name":"\ud800"}"#], "invalid_task"),
        (&[r#"{"args":null}"#, r#"{"args":[]}"#, r#"{"args":{"a":9223372036854775808}}"#], "invalid_task"),
        (&[r#"{"metadata":{"a":[{"b":1e400}]}}"#, r#"{"args":{"\udc00":1}}"#], "invalid_task"),
        (&[r#"{"args":{"a":"\ud800"}}"#, ""], "invalid_task"),
        (&["{", "{}x", r#"{"args":{"a":NaN}}"#, " ", "\u{feff}{}"], "invalid_request"),
        (&[r#"{"name":""}"#, r#"{"args":{"a":9223372036854775808.0}}"#], "ok"),
        (&[r#"{"metadata":{"a":1e-400,"":"\u0000"}}"#, r#"{"args":{"a":"\ud83d\ude00"}}"#], "ok"),
        (&[r#"{"name":"\u0000"}"#, r#"{"name":"\n"}"#], "invalid_task_name"),
    ]);
}

#[test]
fn integer_fields_take_json_integers_only() {
    for value in ["true", "1.0", "1e3", "-0.0", "\"1\"", "null", "9223372036854775808", "-9223372036854775809", "[]"] {
        assert_eq!(code::<Creation>(&format!("{{\"priority\":{value}}}")), "invalid_task", "{value}");
        assert_eq!(code::<Update>(&format!("{{\"max_attempts\":{value}}}")), "invalid_update", "{value}");
    }
    for value in ["-0", "0", "9223372036854775807", "-9223372036854775808"] {
        assert_eq!(code::<Creation>(&format!("{{\"priority\":{value}}}")), "ok", "{value}");
    }
    // A float, which helps inside of args, would be refused as well.
    let refused = decode::<Creation>(br#"{"priority":9223372036854775808}"#).unwrap_err();
    let details = String::from_utf8(refused.details().end()).unwrap();
    assert!(details.contains("use an integer of 64 bits signed\""), "{details}");
    check_all::<Creation>(&[
        (r#"{"max_attempts":1}"#, "ok"),
        (r#"{"max_attempts":0}"#, "invalid_task"),
        (r#"{"max_attempts":-1}"#, "invalid_task"),
    ]);
}

#[test]
fn routes_are_a_non_empty_list_of_distinct_routes() {
    check_rows::<Creation>(&[
        (&[r#"{"routes":["b","a"]}"#], "ok"),
        (&[r#"{"routes":[]}"#, r#"{"routes":["a","a"]}"#, r#"{"routes":["a",1]}"#], "invalid_task"),
        (&[r#"{"routes":["-a"]}"#, r#"{"routes":"a"}"#, r#"{"routes":null}"#], "invalid_task"),
        (&[r#"{"routes":{"0":"a"}}"#], "invalid_task"),
    ]);
}

#[test]
fn more_than_256_routes_are_refused_as_one_error() {
    let routes = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("\"r{n}\"")).collect();
        format!("{{\"routes\":[{}]}}", names.join(","))
    };
    check_all::<Creation>(&[(&routes(256), "ok"), (&routes(257), "invalid_task")]);
    check_all::<Update>(&[(&routes(256), "ok"), (&routes(257), "invalid_update")]);
    let refused = decode::<Creation>(routes(150_000).as_bytes()).unwrap_err();
    assert_eq!(refused.errors.len(), 1);
    assert_eq!(refused.message(), "name at most 256 routes");
    assert_eq!(locations::<Creation>(&routes(257)), r#"["body","routes"]"#);
    let bulk = format!("{{\"changes\":{},\"filter\":\"x\"}}", routes(257));
    assert_eq!(locations::<BulkUpdateRequest>(&bulk), r#"["body","changes","routes"]"#);
}

#[test]
fn every_error_is_reported_where_it_is() {
    let cases = [
        (r#"{"routes":["ok","-",1],"priority":1.5}"#, r#"["body","priority"] ["body","routes",1] ["body","routes",2]"#),
        (r#"{"x":1,"args":{"a":[0,{"b":1e999}]}}"#, r#"["body","x"] ["body","args","a",1,"b"]"#),
        ("[]", r#"["body"]"#),
        ("{", r#"["body"]"#),
    ];
    for (body, expected) in cases {
        assert_eq!(locations::<Creation>(body), expected, "{body}");
    }
    let bulk = r#"{"changes":{"routes":["-"]},"filter":"x"}"#;
    assert_eq!(locations::<BulkUpdateRequest>(bulk), r#"["body","changes","routes",0]"#);
}

#[test]
fn an_answer_to_a_body_full_of_errors_stays_small() {
    let members: Vec<String> = (0..10_000).map(|n| format!("\"{}{n}\":1", "k".repeat(80))).collect();
    let long_key = "k".repeat(500_000);
    for body in [format!("{{{}}}", members.join(",")), format!("{{\"{long_key}\":1}}")] {
        let invalid = decode::<Creation>(body.as_bytes()).unwrap_err();
        let details = invalid.details().end();
        assert!(details.len() < 10_000, "{}", details.len());
    }
}

#[test]
fn the_name_wins_over_the_depth_and_both_over_everything_else() {
    let (deep, fine) = (nested(JSON_DEPTH + 1), nested(JSON_DEPTH));
    let cases = [
        (format!("{{\"args\":{fine}}}"), "ok"),
        (format!("{{\"args\":{deep}}}"), "json_too_deep"),
        (format!("{{\"metadata\":{deep},\"x\":1}}"), "json_too_deep"),
        (format!("{{\"args\":{deep},\"name\":\"\\n\",\"x\":1}}"), "invalid_task_name"),
        (format!("{{\"x\":{deep}}}"), "invalid_task"),
        (nested(1000), "json_too_deep"),
        ("[".repeat(500_000), "json_too_deep"),
    ];
    for (body, expected) in cases {
        assert_eq!(code::<Creation>(&body), expected, "{}", &body[..body.len().min(80)]);
    }
    assert_eq!(code::<Update>(&format!("{{\"result\":{deep}}}")), "json_too_deep");
    let complete = format!("{{\"run_id\":\"r_abcdefghijkl\",\"result\":{deep}}}");
    assert_eq!(code::<CompleteRequest>(&complete), "json_too_deep");
    let bulk = format!("{{\"changes\":{{\"args\":{deep}}}}}");
    assert_eq!(code::<BulkUpdateRequest>(&bulk), "json_too_deep", "also over a missing filter");
}

#[test]
fn a_key_with_a_lone_surrogate_is_one_error_among_others() {
    let deep = nested(JSON_DEPTH + 1);
    check_all::<Creation>(&[
        (r#"{"\ud800":1,"priority":1}"#, "invalid_task"),
        (r#"{"\ud800":1,"name":"a\u0001"}"#, "invalid_task_name"),
        (&format!(r#"{{"\ud800":1,"args":{deep}}}"#), "json_too_deep"),
        (&format!(r#"{{"\ud800":{deep}}}"#), "invalid_task"),
        (&format!(r#"{{"args":{{"\ud800":{deep}}}}}"#), "json_too_deep"),
        (&format!(r#"{{"args":{{"\ud800":1}},"metadata":{deep}}}"#), "json_too_deep"),
    ]);
    check_all::<BulkUpdateRequest>(&[
        (r#"{"\ud800":1}"#, "invalid_filter"),
        (r#"{"\ud800":1,"filter":"x","changes":{"priority":1}}"#, "invalid_update"),
        (r#"{"filter":"x","changes":{"\ud800":1,"priority":1}}"#, "invalid_update"),
        (r#"{"filter":"x","changes":{"\ud800":1,"name":"\u0001"}}"#, "invalid_task_name"),
    ]);
    assert_eq!(locations::<Creation>(r#"{"\ud800":1,"x":1,"args":[]}"#), r#"["body"] ["body","x"] ["body","args"]"#);
}

#[test]
fn an_update_names_at_least_one_field_and_only_the_name_may_be_null() {
    check_rows::<Update>(&[
        (&["{}", "null", r#"{"args":null}"#, r#"{"priority":null}"#, r#"{"routes":null}"#], "invalid_update"),
        (&[r#"{"result":null}"#, r#"{"attempt":1}"#, r#"{"name":"\ud800"}"#, ""], "invalid_update"),
        (&[r#"{"name":null}"#, r#"{"result":{"a":1}}"#], "ok"),
        (&[r#"{"name":"\t"}"#], "invalid_task_name"),
        (&["{"], "invalid_request"),
    ]);
    assert_eq!(decode::<Update>(br#"{"name":null}"#), Ok(Update { name: Some(None), ..Update::default() }));
}

#[test]
fn a_patch_is_an_object_or_absent_and_never_together_with_the_whole_value() {
    let deep = nested(JSON_DEPTH + 1);
    check_rows::<Update>(&[
        (&[r#"{"args_patch":{"a":null}}"#, r#"{"args_patch":{}}"#, r#"{"args_patch":{"a":1},"metadata":{}}"#], "ok"),
        (&[r#"{"args":{},"metadata_patch":{}}"#, r#"{"args":{},"args_patch":null}"#], "ok"),
        (&[r#"{"args_patch":null,"name":null}"#], "ok"),
        (&[r#"{"args_patch":null}"#, r#"{"args_patch":null,"metadata_patch":null}"#], "invalid_update"),
        (&[r#"{"args":{},"args_patch":{}}"#, r#"{"args":null,"args_patch":{}}"#], "invalid_update"),
        (&[r#"{"metadata":{},"metadata_patch":{"a":1}}"#, r#"{"args_patch":[]}"#], "invalid_update"),
        (&[r#"{"args_patch":"x"}"#, r#"{"metadata_patch":1}"#, r#"{"metadata_patch":{"a":1e400}}"#], "invalid_update"),
        (&[r#"{"metadata_patch":{"a":{"\ud800":null}}}"#, r#"{"result_patch":{}}"#], "invalid_update"),
        (&[format!("{{\"args_patch\":{deep}}}").as_str()], "json_too_deep"),
    ]);
    check_all::<Creation>(&[(r#"{"args_patch":{}}"#, "invalid_task")]);
    check_all::<BulkUpdateRequest>(&[
        (r#"{"filter":"x","changes":{"args_patch":{"a":1}}}"#, "ok"),
        (r#"{"filter":"x","changes":{"args_patch":null}}"#, "invalid_update"),
        (r#"{"filter":"x","changes":{"args_patch":{},"args":{}}}"#, "invalid_update"),
    ]);
    let absent = decode::<Update>(br#"{"priority":1,"args_patch":null}"#);
    assert_eq!(absent, Ok(Update { priority: Some(1), ..Update::default() }));
    assert_eq!(locations::<Update>(r#"{"args":{},"args_patch":{}}"#), r#"["body","args_patch"]"#);
    assert_eq!(locations::<Update>(r#"{"args_patch":null}"#), r#"["body"]"#);
}

#[test]
fn a_bulk_action_has_a_filter_and_may_have_an_expectation() {
    check_rows::<BulkActionRequest>(&[
        (&[r#"{"filter":"x"}"#, r#"{"filter":"","expect":null,"dry_run":null}"#], "ok"),
        (&[r#"{"filter":"x","expect":0,"dry_run":true}"#, r#"{"filter":"x","expect":9223372036854775807}"#], "ok"),
        (&[r#"{"filter":"x","expect":9223372036854775808}"#, r#"{"filter":"x","expect":-1}"#], "invalid_request"),
        (&[r#"{"filter":"x","expect":1.0}"#, r#"{"filter":"x","expect":"1"}"#], "invalid_request"),
        (&[r#"{"filter":"x","dry_run":1}"#, r#"{"filter":"x","other":1}"#, "[]", ""], "invalid_request"),
        (&[r#"{"expect":-1}"#, r#"{"filter":null}"#, r#"{"filter":1,"dry_run":1}"#, "{}"], "invalid_filter"),
    ]);
}

#[test]
fn in_a_bulk_update_errors_of_the_filter_win_over_those_of_the_changes() {
    check_rows::<BulkUpdateRequest>(&[
        (&[r#"{"filter":"x","changes":{"priority":1}}"#, r#"{"filter":"","changes":{"priority":1}}"#], "ok"),
        (&[r#"{"filter":")(","changes":{"priority":"1"}}"#, r#"{"filter":"x"}"#], "invalid_update"),
        (&[r#"{"filter":"x","changes":null}"#, r#"{"filter":"x","changes":{}}"#], "invalid_update"),
        (&[r#"{"filter":"x","changes":{"priority":1},"limit":1}"#, "[]", ""], "invalid_update"),
        (&[r#"{"changes":{"priority":1}}"#, r#"{"filter":null,"changes":{"priority":1}}"#], "invalid_filter"),
        (&[r#"{"filter":1,"changes":{}}"#, r#"{"filter":"\ud800","changes":{"priority":1}}"#, "{}"], "invalid_filter"),
        (&[r#"{"filter":1,"changes":{"name":"\n"}}"#], "invalid_task_name"),
    ]);
}

/// An object of so many bytes.
fn worker(bytes: usize) -> String {
    format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8))
}

/// Each row is what some bodies have behind the id of their run, and the code of each of them.
fn check_runs<B: Body>(rows: &[(&[&str], &str)]) {
    for (members, expected) in rows {
        for more in *members {
            let body = format!(r#"{{"run_id":"r_abcdefghijkl"{more}}}"#);
            assert_eq!(code::<B>(&body), *expected, "{body}");
        }
    }
}

#[test]
fn the_bodies_of_the_worker_protocol_are_complete_and_nothing_else() {
    let of_worker = |worker: &str| format!(r#","route":"gpu","worker":{worker}"#);
    let (most, more) = (worker(4096), worker(4097));
    // The canonical form counts: escapes are longer.
    let fitting = [of_worker(&most), of_worker(&most.replace('x', "\\u0078"))];
    let of_gpu = r#","route":"gpu""#;
    check_runs::<ClaimRequest>(&[
        (&[of_gpu, &of_worker(r#"{"host":"h"}"#), &of_worker("null"), &fitting[0], &fitting[1]], "ok"),
        (&[&of_worker("[]"), &of_worker("\"h\""), &of_worker(&more)], "invalid_request"),
        (&["", r#","route":null"#, r#","route":"a b""#, r#","route":"gpu","x":1"#], "invalid_request"),
    ]);
    check_all::<ClaimRequest>(&[("", "invalid_request")]);
    check_runs::<UnclaimRequest>(&[(&[""], "ok"), (&[r#","result":{}"#], "invalid_request")]);
    check_all::<UnclaimRequest>(&[("{}", "invalid_request")]);
    check_runs::<CompleteRequest>(&[
        (&[r#","result":{}"#], "ok"),
        (&["", r#","result":null"#, r#","result":{"a":1e400}"#], "invalid_request"),
    ]);
    check_runs::<FailRequest>(&[
        (&[r#","error":{"type":"","message":""}"#, r#","error":{"type":"E","message":"m","traceback":null}"#], "ok"),
        (&[r#","error":{"type":"E","message":"m","traceback":"t"}"#], "ok"),
        (&[r#","error":{"type":"E","message":"m","traceback":1}"#], "invalid_request"),
        (&[r#","error":{"type":"E","message":"\ud800"}"#, r#","error":{"type":"E"}"#], "invalid_request"),
        (&[r#","error":{"message":"m"}"#, r#","error":{"type":"E","message":"m","x":1}"#], "invalid_request"),
        (&[r#","error":null"#, ""], "invalid_request"),
    ]);
    check_runs::<ProgressRequest>(&[
        (&[r#","progress":{}"#], "ok"),
        (&[r#","progress":null"#, r#","progress":[]"#, r#","progress":1"#, ""], "invalid_request"),
        (&[r#","progress":{"a":["\ud800"]}"#, r#","progress":{},"step":1"#], "invalid_request"),
    ]);
    check_all::<ProgressRequest>(&[(r#"{"progress":{}}"#, "invalid_request")]);
    check_runs::<HeartbeatRequest>(&[
        (&[r#","progress":null"#], "ok"),
        (&[r#","progress":[]"#, r#","progress":"x""#, r#","progress":true"#], "invalid_request"),
    ]);
    let output = |offset: &str, text: &str| format!(r#","offset":{offset},"text":{text}"#);
    for offset in ["-1", "1.0", "\"1\"", "null", "true", "9223372036854775805", "9223372036854775808", "1e3"] {
        check_runs::<OutputRequest>(&[(&[&output(offset, "\"abc\"")], "invalid_request")]);
    }
    for text in ["null", "[]", r#""\ud800""#, r#""","more":1"#] {
        check_runs::<OutputRequest>(&[(&[&output("0", text)], "invalid_request")]);
    }
    check_runs::<OutputRequest>(&[
        (&[&output("9223372036854775804", "\"abc\"")], "ok"),
        (&[r#","text":"a""#, r#","offset":0"#], "invalid_request"),
    ]);
    check_all::<OutputRequest>(&[(r#"{"offset":0,"text":"a"}"#, "invalid_request")]);
    // Blanks do not count, escapes do.
    let telemetry = |bytes: usize| format!(r#"{{ "telemetry" : {{ "a" : "{}\u0000" }} }}"#, "x".repeat(bytes - 14));
    check_rows::<TelemetryRequest>(&[
        (&[&telemetry(16_384)], "ok"),
        (&[&telemetry(16_385), "{}", r#"{"telemetry":null}"#, r#"{"telemetry":[]}"#], "invalid_request"),
        (&[r#"{"telemetry":"x"}"#, r#"{"telemetry":{"a":"\udc00"}}"#], "invalid_request"),
        (&[r#"{"telemetry":{},"status":"idle"}"#], "invalid_request"),
    ]);
    let wrong = |more: &str| format!(r#"{{"run_id":"r_abcdefghijkl\n"{more}}}"#);
    let codes = [
        code::<HeartbeatRequest>(&wrong("")),
        code::<ProgressRequest>(&wrong(r#","progress":{}"#)),
        code::<UnclaimRequest>(&wrong("")),
        code::<CompleteRequest>(&wrong(r#","result":{}"#)),
        code::<FailRequest>(&wrong(r#","error":{"type":"E","message":"m"}"#)),
        code::<ClaimRequest>(&wrong(of_gpu)),
        code::<ClaimRequest>(r#"{"run_id":"x","route":"gpu"}"#),
    ];
    assert_eq!(codes, ["invalid_request"; 7]);
}

#[test]
fn a_failure_is_tried_again_unless_it_says_otherwise() {
    let fail = |retry: &str| {
        let body = format!(r#"{{"run_id":"r_abcdefghijkl","error":{{"type":"E","message":"m"}}{retry}}}"#);
        decode::<FailRequest>(body.as_bytes()).map(|fail| fail.retry)
    };
    let cases = [("", true), (r#","retry":null"#, true), (r#","retry":true"#, true), (r#","retry":false"#, false)];
    for (given, retry) in cases {
        assert_eq!(fail(given), Ok(retry), "{given}");
    }
    for given in [r#","retry":0"#, r#","retry":"false""#, r#","retry":[]"#, r#","retry_delay":1"#] {
        assert_eq!(fail(given).unwrap_err().code, ErrorCode::InvalidRequest, "{given}");
    }
}

#[test]
fn a_worker_report_needs_all_three_fields() {
    check_all::<Report>(&[
        (r#"{"route":"gpu","status":"idle","task_id":null}"#, "ok"),
        (r#"{"route":"gpu","status":"busy","task_id":"t_abcdefghijkl"}"#, "ok"),
        (r#"{"route":"gpu","status":"idle","task_id":"t_abcdefghijkl"}"#, "ok"),
        (r#"{"route":"gpu","status":"idle"}"#, "invalid_request"),
        (r#"{"route":"gpu","task_id":null}"#, "invalid_request"),
        (r#"{"status":"idle","task_id":null}"#, "invalid_request"),
        (r#"{"route":"a b","status":"idle","task_id":null}"#, "invalid_request"),
        (r#"{"route":"gpu","status":"Idle","task_id":null}"#, "invalid_request"),
        (r#"{"route":"gpu","status":"idle","task_id":"t_x"}"#, "invalid_request"),
        (r#"{"route":"gpu","status":"idle","task_id":null,"id":"w_abcdefghijkl"}"#, "invalid_request"),
    ]);
    let report = decode::<Report>(br#"{"route":"gpu","status":"busy","task_id":null}"#).unwrap();
    assert_eq!((report.status, report.task_id), (WorkerStatus::Busy, None));
}

#[test]
fn messages_say_what_to_do() {
    let message = |invalid: Invalid| invalid.message().into_owned();
    assert_eq!(message(not_json(Creation::CODE)), "send Content-Type: application/json");
    assert!(message(decode::<ClaimRequest>(b"").unwrap_err()).contains("route, run_id"));
    assert!(message(decode::<ClaimRequest>(b"{").unwrap_err()).contains("well-formed JSON"));
    assert_eq!(message(decode::<ClaimRequest>(b"{}").unwrap_err()), "correct the fields listed in details.errors");
}
