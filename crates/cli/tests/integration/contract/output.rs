//! What runs print (docs/reference/http-api.md §14.11): sending it and reading what is kept. Reads that wait are tested in `server`;
//! which bytes are kept, and of which run, is proven by the conformance suite of the stores, and what a body may be in `api`.

use serde_json::{Value, json};

use super::support::*;

#[track_caller]
fn print(server: &Server, n: usize, offset: usize, text: &str) {
    assert!(server.send(&output_request(n, n, offset, text)).expect(204).body.is_empty());
}

/// The answer from `offset` on, of which the offsets were checked.
#[track_caller]
fn read(server: &Server, n: usize, offset: u64) -> Value {
    let output = server.get(&of_task(n, &format!("/output?offset={offset}"))).expect(200).json();
    let bytes = output["end"].as_u64().unwrap() - output["start"].as_u64().unwrap();
    assert_eq!(output["text"].as_str().unwrap().len() as u64, bytes, "{output}");
    assert_eq!(output.as_object().unwrap().len(), 5, "{output}");
    output
}

#[test]
fn what_a_run_prints_can_be_read_and_changes_nothing_of_its_task() {
    let server = Server::with_run();
    let task = server.task(1);
    server.get(&of_task(1, "/output")).assert_details(404, "output_not_found", &json!({"task_id": task_id(1)}));
    print(&server, 1, 0, "epoch 1\n");
    print(&server, 1, 8, "é\0\u{10ffff}\n");
    let answer = server.get(&of_task(1, "/output")).expect(200);
    let expected =
        "{\"attempt\":1,\"start\":0,\"end\":16,\"text\":\"epoch 1\\né\\u0000\u{10ffff}\\n\",\"ended\":false}";
    assert_eq!(answer.text(), expected);
    assert!(!answer.text().contains(&run_id(1)), "an active run id is never shown");
    assert_eq!((answer.header("Preference-Applied"), answer.header("Content-Type")), (None, Some("application/json")));
    assert_eq!(server.task(1), task);
    let head = server.send(&Request::new("HEAD", &of_task(1, "/output"))).expect(200);
    assert_eq!((head.header("Content-Length"), head.body.len()), (Some(&*expected.len().to_string()), 0));
    server.act(1, "complete", 1).expect(204);
    assert_eq!(read(&server, 1, 16)["ended"], true);
}

#[test]
fn without_output_it_is_judged_and_not_kept() {
    let server = Server::with_environment(&[], &[("TASKQUEUE_TASK_OUTPUT_BYTES", "0")]);
    server.create_queue("q");
    server.create_running(1);
    print(&server, 1, 0, "abc");
    server.send(&output_request(1, 2, 0, "abc")).assert_error(409, "stale_run");
    server.send(&output_request(2, 2, 0, "abc")).assert_error(404, "task_not_found");
    let waiting = Request::new("GET", &of_task(1, "/output")).waiting(25);
    server.send(&waiting).assert_error(404, "output_not_found");
    let features = server.get("/api/v2/capabilities").expect(200).json()["features"].to_string();
    assert!(!features.contains("output") && features.contains("progress") && features.contains("telemetry"));
}

#[test]
fn a_wrong_number_of_bytes_to_keep_is_refused_at_the_start() {
    for wrong in ["-1", "16777217", "x", ""] {
        run(&["serve", "--task-output-bytes", wrong], &[]).fails_with(2, &["--task-output-bytes"]);
    }
}

#[test]
fn what_is_no_output_of_a_run_is_refused() {
    let server = Server::with_run();
    let path = of_task(1, "/output");
    let offset = json!({"run_id": run_id(1), "offset": -1, "text": "abc"});
    server.post(&path, offset).assert_location("invalid_request", &json!(["body", "offset"]));
    server.get(&path).assert_error(404, "output_not_found");
    server.post(&path.replace("t_", "x_"), "{}").assert_error(422, "invalid_request");
    let valid = json!({"run_id": run_id(1), "offset": 0, "text": "a"});
    server.post(&path.replace("t_", "x_"), valid).assert_error(422, "invalid_task_id");
    server.get(&path.replace("t_", "x_")).assert_error(422, "invalid_task_id");
    for method in ["PUT", "PATCH", "DELETE"] {
        let allow = json!({"allow": ["GET", "HEAD", "POST"]});
        server.call(method, &path, json!({})).assert_details(405, "method_not_allowed", &allow);
    }
    print(&server, 1, i64::MAX as usize - 3, "abc");
}

#[test]
fn the_offset_to_read_from_is_decimal_digits_below_2_to_the_63() {
    let server = Server::with_run();
    print(&server, 1, 0, "abc");
    let get = |query: &str| server.get(&of_task(1, &format!("/output{query}")));
    for (query, start) in [
        ("", 0),
        ("?offset=0", 0),
        ("?offset=001", 1),
        ("?offset=x&offset=2", 2),
        ("?Offset=x&more=1", 0),
        ("?offset=9223372036854775807", 3),
    ] {
        assert_eq!(get(query).expect(200).json()["start"], start, "{query}");
    }
    for query in ["-1", "+1", "%2B1", "1.0", "", "x", "0x1", "1e1", "9223372036854775808", "99999999999999999999999"] {
        get(&format!("?offset={query}")).assert_location("invalid_request", &json!(["query", "offset"]));
    }
}
