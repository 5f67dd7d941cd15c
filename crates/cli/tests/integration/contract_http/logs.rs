//! Log lines: which requests have one and what it says, that all are written at the end of the process, and that requests
//! never wait for standard error.

use std::fs::{self, File};
use std::io::{self, Read};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::support::*;

/// Enough lines to fill a pipe (64 KiB on Linux) several times over.
const REQUESTS: usize = 1200;

/// All requests are answered and the stop is in good order.
#[track_caller]
fn assert_serves(mut server: Server, stderr: &str) {
    server.create_queue("q");
    for n in 0..REQUESTS {
        let answer = server.try_send(&Request::new("GET", "/api/v2/queues"));
        let answer = answer.unwrap_or_else(|error| panic!("{stderr}: request {n}: {error}"));
        answer.expect(200);
    }
    assert_eq!(server.terminate().code(), Some(0), "{stderr}");
}

#[test]
fn whatever_becomes_of_the_log_requests_are_answered() {
    let (_unread, full_pipe) = io::pipe().unwrap();
    let (reader, closed_pipe) = io::pipe().unwrap();
    drop(reader);
    // Linux has a file that is always full.
    let full_disk = File::options().write(true).open("/dev/full").unwrap();
    let cases: [(Stdio, &str); 4] = [
        (full_pipe.into(), "an unread pipe"),
        (closed_pipe.into(), "a closed pipe"),
        (full_disk.into(), "a full disk"),
        (Stdio::null(), "no log at all"),
    ];
    for (stderr, what) in cases {
        assert_serves(Server::logging_to(stderr), what);
    }
}

#[test]
fn every_line_is_there_when_the_process_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    assert_serves(Server::logging_to(File::create(&path).unwrap()), "a file");
    let log = fs::read_to_string(path).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("answered")).count(), REQUESTS + 1, "{log}");
    assert!(log.lines().last().unwrap().ends_with("stopped"), "{log}");
}

#[test]
fn a_late_reader_gets_the_number_of_lost_lines() {
    let (mut reader, stderr) = io::pipe().unwrap();
    let mut server = Server::logging_to(stderr);
    // Unlike a pipe, the memory for lines is ours; this is more than both hold together.
    let mut connection = server.connect();
    let request = Request::new("GET", "/health").to_bytes();
    for _ in 0..400 {
        connection.write(&request.repeat(50)).unwrap();
        (0..50).for_each(|_| drop(connection.read_response(true).unwrap().expect(200)));
    }
    let reading = thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).map(|_| log)
    });
    assert_eq!(server.terminate().code(), Some(0));
    let log = reading.join().unwrap().unwrap();
    let (told, kept): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| line.contains("log lines were lost"));
    let lost = told.iter().map(|line| line.split_whitespace().find_map(|word| word.parse::<usize>().ok()).unwrap());
    // Some lines are about the start, one for each migration, and the end of the server.
    let all = kept.len() + lost.sum::<usize>();
    assert!(!told.is_empty() && (20_001..20_030).contains(&all), "{told:?} and {} others", kept.len());
}

/// The lines of a JSON log that are about requests.
fn answered(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["message"].as_str().is_some_and(|message| message.starts_with("answered"))).collect()
}

/// Whether a request is logged as a slow one, which must fit the time that its line tells.
#[track_caller]
fn assert_slow_by_its_own_time(line: &Value) -> bool {
    let slow = line["message"] == "answered slowly";
    assert_eq!(slow, line["micros"].as_u64().unwrap() >= 1_000_000, "{line}");
    slow
}

#[test]
fn a_server_logs_no_ordinary_request_unless_that_is_wanted() {
    for (flags, variable, logged) in [
        (&["--log-format", "json", "--log-level", "info"][..], "false", false),
        (&["--log-format", "json", "--log-level", "info"], "true", true),
        (&["--log-format", "json", "--log-level", "info", "--log-requests"], "0", true),
    ] {
        let mut server = Server::with_environment(flags, &[("TASKQUEUE_LOG_REQUESTS", variable)]);
        server.create_queue("q");
        server.get("/api/v2/nope").expect(404);
        server.put(&of_task(1, ""), "{").expect(422);
        // Waits that were asked for are not slowness.
        let begun = Instant::now();
        server.send(&claim_request("default", 1).waiting(2)).expect(204);
        server.create(1, json!({}));
        server.claim(2);
        let heartbeat = Request::new("POST", &of_task(1, "/heartbeat")).waiting(2);
        server.send(&heartbeat.json(json!({"run_id": run_id(2)}))).expect(200);
        let took = begun.elapsed();
        assert_eq!(server.terminate().code(), Some(0));
        let log = server.stderr();
        let lines = answered(&log);
        // On a busy machine any request may be slow; then its line says so, and is there in any case.
        let slow = lines.iter().filter(|line| assert_slow_by_its_own_time(line)).count();
        assert_eq!(lines.len(), if logged { 7 } else { slow }, "{log}");
        if logged {
            let micros = |line: &Value, name: &str| line[name].as_u64().unwrap_or(0);
            let whole = |line: &Value| micros(line, "micros") + micros(line, "wait_micros");
            let waits: Vec<u64> = lines.iter().filter(|line| line["wait_micros"].is_u64()).map(whole).collect();
            assert!(waits.len() == 2 && waits.iter().all(|wait| *wait >= 2_000_000), "{log}");
            // The last four requests took this time: if a wait were part of `micros` too, more than that would be told.
            let told: u64 = lines[3..].iter().map(whole).sum();
            assert!(u128::from(told) <= took.as_micros(), "{took:?}: {log}");
        }
        for event in ["new database", "serving", "received SIGTERM", "stopped"] {
            assert!(log.contains(event), "{event}: {log}");
        }
    }
    let mut arguments = serving("unused.db");
    arguments.extend(["--log-level", "info"]);
    run(&arguments, &[("TASKQUEUE_LOG_REQUESTS", "perhaps")]).fails(2);
}

#[test]
fn the_journal_of_systemd_gets_levels_and_no_time() {
    let script = "export JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr) TASKQUEUE_LISTENS=1; exec \"$@\"";
    let server = Server::started_by(&["bash", "-c", script, "bash"]);
    let line = "<4> WARN the variable TASKQUEUE_LISTENS is no setting of taskqueue and is ignored; \
                do you mean TASKQUEUE_LISTEN?";
    server.await_log_lines("LISTENS", 1);
    assert_eq!(server.stderr().lines().find(|line| line.contains("LISTENS")), Some(line));
    // Where standard error is something else, the variable is somebody else's.
    let script = "export JOURNAL_STREAM=8:12345 TASKQUEUE_LISTENS=1; exec \"$@\"";
    let server = Server::started_by(&["bash", "-c", script, "bash"]);
    server.await_log_lines("LISTENS", 1);
    let log = server.stderr();
    let line = log.lines().find(|line| line.contains("LISTENS")).unwrap();
    assert!(line.starts_with("20") && line.contains("Z  WARN the variable"), "{line}");
}

#[test]
fn a_line_tells_who_wanted_what_and_how_it_ended() {
    let mut server = Server::launch(Some("hush"), &["--log-level", "info", "--log-requests", "--log-format", "json"]);
    server.create_queue("q");
    server.get(&in_queue("/tasks?filter=hush")).expect(422);
    let mut connection = server.connect();
    let request = Request::new("GET", "/api/v2/queues").header("Authorization", "Bearer hush-hush");
    connection.exchange(&request).unwrap().expect(401);
    let mut broken = server.begin_with(b"hush hush hush\r\n\r\n");
    assert_eq!(broken.read_response(true).unwrap().status, 400);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(!log.contains("hush"), "{log}");
    // On a busy machine some may be answered slowly.
    let answered = answered(&log);
    let members = |names: [&str; 5]| {
        answered.iter().map(|line| Value::from(names.map(|name| line[name].clone()).to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(
        members(["method", "path", "queue", "status", "code"]),
        [
            json!(["PUT", "/api/v2/queues/{queue}", "q", 201, null]),
            json!(["GET", "/api/v2/queues/{queue}/tasks", "q", 422, "invalid_filter"]),
            json!(["GET", "/api/v2/queues", null, 401, "unauthorized"]),
            json!([null, null, null, 400, "invalid_request"]),
        ]
    );
    for line in answered {
        assert!(line["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert_eq!(line["request_id"].as_str().unwrap().len(), 16, "{line}");
        assert!(line["status"] == 400 || line["micros"].is_u64(), "{line}");
    }
}

#[test]
fn an_id_of_the_client_is_used_and_one_that_is_not_safe_is_replaced() {
    let mut server = Server::launch(Some("hush"), &["--log-level", "info", "--log-requests"]);
    server.create_queue("q");
    let shown = |request: Request| {
        let response = server.send(&request);
        (response.status, response.header("X-Request-Id").map(str::to_owned))
    };
    let named = |request: Request, id: &str| request.header("X-Request-Id", id);
    let wrong = Request::new("GET", "/api/v2/queues").header("Authorization", "Bearer x");
    let requests = [
        (Request::new("GET", "/api/v2/queues"), "list-1", 200),
        (Request::new("GET", "/health"), "probe/2", 200),
        (Request::new("GET", "/api/v2/nope"), "x:3", 404),
        (wrong, "x@4", 401),
        // It is written outside of hyper.
        (claim_request("default", 1).waiting(1), "waits.5", 204),
    ];
    for (request, id, status) in requests {
        assert_eq!(shown(named(request, id)), (status, Some(id.to_owned())));
    }
    assert_eq!(shown(Request::new("GET", "/api/v2/queues")), (200, None));
    let forged = "x status=500 ERROR forged";
    let (_, replaced) = shown(named(Request::new("GET", "/api/v2/queues"), forged));
    let replaced = replaced.unwrap();
    assert_eq!(replaced.len(), 16, "{replaced}");
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    for id in ["list-1", "probe/2", "x:3", "x@4", "waits.5", &replaced] {
        assert_eq!(log.matches(&format!("request_id={id}")).count(), 1, "{id}: {log}");
    }
    assert!(!log.contains("forged"), "{log}");
}
