//! Holds that schemas and decoders say the same.

use std::collections::BTreeSet;

use taskqueue_core::definition::Definition;
use taskqueue_core::observation::Report;
use taskqueue_core::task::Status;
use taskqueue_core::update::Update;
use utoipa::PartialSchema;

use super::*;
use crate::bodies::{self, Body, BulkUpdate, Claim, Complete, Fail, RunReference};

fn schema<S: PartialSchema>() -> serde_json::Value {
    serde_json::to_value(S::schema()).unwrap()
}

fn agree<S: PartialSchema>(fields: &[&str], required: &[&str]) {
    let schema = schema::<S>();
    let properties: BTreeSet<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(properties, fields.iter().copied().collect(), "{schema}");
    let names = schema["required"].as_array().cloned().unwrap_or_default();
    let names: BTreeSet<&str> = names.iter().filter_map(|name| name.as_str()).collect();
    assert_eq!(names, required.iter().copied().collect(), "{schema}");
    assert_eq!(schema["additionalProperties"], false, "{schema}");
}

#[test]
fn every_request_schema_has_the_fields_of_its_decoder() {
    agree::<CreateTaskRequest>(Definition::FIELDS, &[]);
    agree::<UpdateTaskRequest>(Update::FIELDS, &[]);
    agree::<BulkUpdateRequest>(BulkUpdate::FIELDS, BulkUpdate::FIELDS);
    agree::<ClaimRequest>(Claim::FIELDS, Claim::FIELDS);
    agree::<RunRequest>(RunReference::FIELDS, RunReference::FIELDS);
    agree::<CompleteRequest>(Complete::FIELDS, Complete::FIELDS);
    agree::<FailRequest>(Fail::FIELDS, Fail::FIELDS);
    agree::<Failure>(Fail::ERROR_FIELDS, &["type", "message"]);
    agree::<WorkerReport>(Report::FIELDS, &["route", "status", "task_id"]);
}

#[test]
fn every_decoder_reads_what_its_schema_writes() {
    fn reads<B: Body>(request: &impl serde::Serialize) {
        let body = serde_json::to_vec(request).unwrap();
        let read = bodies::decode::<B>(&body);
        assert!(read.is_ok(), "{} {:?}", String::from_utf8_lossy(&body), read.err());
    }
    let route = || Route("gpu".into());
    let run_id = || RunId("r_abcdefghijkl".into());
    let object = || JsonObject::from_iter([("a".to_owned(), 1.into())]);
    reads::<Definition>(&CreateTaskRequest::default());
    reads::<Definition>(&CreateTaskRequest {
        name: Some(TaskName("n".into())),
        args: Some(object()),
        metadata: Some(object()),
        priority: Some(-1),
        max_attempts: Some(1),
        routes: Some(vec![route()]),
    });
    let update = UpdateTaskRequest { name: Some(None), result: Some(object()), ..UpdateTaskRequest::default() };
    reads::<Update>(&update);
    reads::<BulkUpdate>(&BulkUpdateRequest { filter: "priority == 1".into(), changes: update });
    reads::<Claim>(&ClaimRequest { route: route(), run_id: run_id() });
    reads::<RunReference>(&RunRequest { run_id: run_id() });
    reads::<Complete>(&CompleteRequest { run_id: run_id(), result: object() });
    let error = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    reads::<Fail>(&FailRequest { run_id: run_id(), error });
    reads::<Report>(&WorkerReport {
        route: route(),
        status: WorkerStatus::Idle,
        task_id: None,
        metadata: Some(object()),
    });
}

#[test]
fn every_field_of_a_task_is_required_though_some_are_nullable() {
    let schema = schema::<Task>();
    assert_eq!(schema["properties"].as_object().unwrap().len(), 17);
    assert_eq!(schema["required"].as_array().unwrap().len(), 17);
    assert_eq!(schema["additionalProperties"], serde_json::Value::Null, "answers may gain fields");
}

#[test]
fn the_words_of_the_schemas_are_those_of_the_contract() {
    let words = |schema: serde_json::Value| schema["enum"].clone();
    assert_eq!(words(schema::<TaskStatus>()), serde_json::json!(Status::ALL.map(Status::as_str)));
    assert_eq!(words(schema::<WorkerStatus>()), serde_json::json!(["idle", "busy"]));
}
