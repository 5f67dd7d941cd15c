//! What is going on in a queue (docs/reference/http-api.md §14.12): `GET .../stats` and its series. An extension that changes
//! nothing for those who do not use it.

use serde_json::{Value, json};

use super::support::*;

const STATS: &str = "/stats";

fn stats(server: &Server) -> Value {
    server.get(&in_queue(STATS)).expect(200).json()
}

fn series(server: &Server, query: &str) -> Value {
    server.get(&in_queue(&format!("{STATS}?{query}"))).expect(200).json()
}

/// What all items of a series say of an event. A test may be running when a minute or an hour ends.
fn sum(series: &Value, event: &str) -> u64 {
    series["items"].as_array().unwrap().iter().map(|item| item[event].as_u64().unwrap()).sum()
}

#[test]
fn an_empty_queue_has_zeros_and_nulls() {
    let server = Server::with_queue();
    let mut empty = stats(&server);
    let since = empty.as_object_mut().unwrap().remove("since").unwrap();
    assert!(micros(&since) > 0);
    let none =
        json!({"created": 0, "claimed": 0, "succeeded": 0, "failed": 0, "released": 0, "expired": 0, "cancelled": 0});
    let expected = json!({
        "tasks": {"pending": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0},
        "routes": [],
        "activity": {"last_minute": none, "last_5_minutes": none, "last_hour": none},
        "wait_seconds": null,
        "run_seconds": null,
    });
    assert_eq!(empty, expected);
    assert_eq!(series(&server, "series=minute")["items"], json!([]));
}

#[test]
fn tasks_routes_and_workers_are_counted_and_what_happened_to_them() {
    let server = Server::with_queue();
    server.create_each(1..=4, |_| json!({"routes": ["default", "gpu"], "max_attempts": 1}));
    server.put(&of_worker(1), idle()).expect(204);
    let first = server.claimed(1);
    server.post(&of_task(first, "/complete"), json!({"run_id": run_id(1), "result": {}})).expect(204);
    let second = server.claimed(2);
    server.post(&of_task(second, "/unclaim"), json!({"run_id": run_id(2)})).expect(204);
    server.post(&of_task(4, "/cancel"), ()).expect(200);
    let third = server.claimed(3);
    let shown = stats(&server);
    assert_eq!(shown["tasks"], json!({"pending": 1, "running": 1, "succeeded": 1, "failed": 0, "cancelled": 1}));
    let routes = shown["routes"].as_array().unwrap();
    let names: Vec<&str> = routes.iter().map(|route| route["route"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "gpu"], "{third}");
    assert_eq!(
        (&routes[1]["pending"], &routes[1]["running"], &routes[1]["workers_idle"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(routes[0]["workers_idle"], 1);
    assert!(routes[0]["oldest_pending_seconds"].as_f64().unwrap() < 60.0);
    let hour = &shown["activity"]["last_hour"];
    let expected =
        json!({"created": 4, "claimed": 3, "succeeded": 1, "failed": 0, "released": 1, "expired": 0, "cancelled": 1});
    assert_eq!(hour, &expected);
    for percentiles in [&shown["wait_seconds"], &shown["run_seconds"]] {
        let [p50, p99] = ["p50", "p99"].map(|name| percentiles[name].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p99 && p99 < 60.0, "{shown}");
    }
    for unit in ["minute", "hour"] {
        let series = series(&server, &format!("series={unit}"));
        assert_eq!((series["series"].as_str(), sum(&series, "claimed")), (Some(unit), 3));
        assert_eq!(series["items"][0].as_object().unwrap().len(), 10);
    }
    let past = series(&server, "series=hour&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z");
    assert_eq!(past["items"], json!([]));
    // What is wrong with the request comes before the queue.
    server.get("/api/v2/queues/none/stats?series=day").assert_error(422, "invalid_request");
}
