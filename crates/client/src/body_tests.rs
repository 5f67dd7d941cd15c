//! Every body that is written reads back, by the server's own reader, as what was meant.

use taskqueue_api::bodies::{self, Claim, Complete, Fail, RunReference};
use taskqueue_core::definition::Routes;
use taskqueue_core::ids::TaskId;
use taskqueue_core::json;
use taskqueue_core::observation::WorkerStatus;

use super::*;

fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn routes() -> Routes {
    Routes::new(vec![Route::parse("b").unwrap(), Route::parse("a").unwrap()]).unwrap()
}

#[test]
fn a_definition_reads_back_as_itself() {
    let full = Definition {
        name: Some("\"quoted\" \\ é 😀".into()),
        args: object(r#"{"i":-9223372036854775808,"f":-0.0,"s":"\u0000"}"#),
        metadata: object(r#"{"a":[1,1.0]}"#),
        priority: -1,
        max_attempts: i64::MAX,
        routes: routes(),
    };
    for meant in [Definition::default(), full] {
        assert_eq!(bodies::decode::<Definition>(&definition(&meant)), Ok(meant));
    }
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
    ];
    for changes in cases {
        assert_eq!(bodies::decode::<Update>(&update(&changes)), Ok(changes.clone()));
        let bulk = BulkUpdate { filter: "name == \"x\"\n".into(), changes };
        assert_eq!(bodies::decode::<BulkUpdate>(&bulk_update(&bulk)), Ok(bulk));
    }
    assert_eq!(update(&Update::default()), b"{}");
}

#[test]
fn the_bodies_of_the_worker_protocol_read_back_as_themselves() {
    let (route, run_id) = (Route::parse("gpu.1").unwrap(), RunId::parse("r_abcdefghijkl").unwrap());
    assert_eq!(bodies::decode::<Claim>(&claim(&route, run_id)), Ok(Claim { route, run_id }));
    assert_eq!(bodies::decode::<RunReference>(&run(run_id)), Ok(RunReference { run_id }));
    let result = object(r#"{"x":{"y":[]}}"#);
    assert_eq!(bodies::decode::<Complete>(&complete(run_id, &result)), Ok(Complete { run_id, result }));
    for traceback in [None, Some("line 1\n\tline 2".into())] {
        let failure = Failure { kind: "".into(), message: "\u{7f}".into(), traceback };
        assert_eq!(bodies::decode::<Fail>(&fail(run_id, &failure)), Ok(Fail { run_id, failure }));
    }
}

#[test]
fn a_report_without_metadata_is_the_contract_s() {
    let route = Route::parse("default").unwrap();
    let idle = Report { route, status: WorkerStatus::Idle, task_id: None, metadata: JsonObject::empty() };
    assert_eq!(report(&idle), br#"{"route":"default","status":"idle","task_id":null}"#);
    let task_id = TaskId::parse("t_abcdefghijkl");
    let busy = Report { status: WorkerStatus::Busy, task_id, metadata: object(r#"{"host":"h"}"#), ..idle };
    assert_eq!(bodies::decode::<Report>(&report(&busy)), Ok(busy));
}
