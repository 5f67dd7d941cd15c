//! What workers measure (docs/reference/http-api.md §14.10): `POST .../workers/{id}/telemetry`. An extension that changes nothing
//! for those who do not use it.

use serde_json::{Value, json};

use super::support::*;

fn measure(server: &Server, n: usize, telemetry: Value) -> Response {
    server.post(&(of_worker(n) + "/telemetry"), json!({"telemetry": telemetry}))
}

fn observations(server: &Server) -> Value {
    server.get(&in_queue("/workers")).expect(200).json()["items"].clone()
}

#[test]
fn telemetry_is_shown_behind_the_fields_of_the_contract_and_replaced_as_a_whole() {
    let server = Server::with_queue();
    let unknown = json!({"queue": "q", "worker_id": worker_id(1)});
    measure(&server, 1, json!({})).assert_details(404, "worker_not_found", &unknown);
    server.put(&of_worker(1), idle()).expect(204);
    let without = observations(&server);
    assert_eq!(without[0].as_object().unwrap().len(), 7);
    assert!(measure(&server, 1, json!({"gpu": [{"util": 0.5}], "cpu": 1})).expect(204).body.is_empty());
    let page = server.get(&in_queue("/workers")).expect(200).text();
    let (fields, telemetry) = page.split_once(r#"Z","telemetry":{"cpu":1,"gpu":[{"util":0.5}]},"#).unwrap();
    assert!(fields.contains(r#""expires_at":"#) && telemetry.starts_with(r#""telemetry_updated_at":""#), "{page}");
    measure(&server, 1, json!({"cpu": 2})).expect(204);
    let mut with = observations(&server);
    assert_eq!(with[0]["telemetry"], json!({"cpu": 2}));
    let observation = with[0].as_object_mut().unwrap();
    let at = observation.remove("telemetry_updated_at").unwrap();
    assert!(micros(&at) >= micros(&without[0]["last_seen_at"]));
    observation.remove("telemetry").unwrap();
    assert_eq!(with, without, "it prolongs nothing");
    let mut report = idle();
    report["metadata"] = json!({"host": "gpu-3"});
    server.put(&of_worker(1), report).expect(204);
    assert!(server.get(&in_queue("/workers")).text().contains(r#""metadata":{"host":"gpu-3"},"telemetry":{"cpu":2},"#));
}

#[test]
fn what_is_no_object_or_of_no_worker_is_refused() {
    let server = Server::with_queue();
    let path = of_worker(1) + "/telemetry";
    let null = server.post(&path, json!({"telemetry": null}));
    null.assert_location("invalid_request", &json!(["body", "telemetry"]));
    server.post(&path, format!(r#"{{"telemetry":{}}}"#, nested(65))).assert_error(422, "json_too_deep");
    let wrong_id = server.post(&path.replace("w_", "x_"), json!({"telemetry": {}}));
    wrong_id.assert_location("invalid_request", &json!(["path", "id"]));
}
