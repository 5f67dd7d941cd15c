//! The command `serve`: what it prints and makes at its start, and how it stops. What is about the database itself stands in
//! `startup_sqlite.rs` and in `startup_postgres.rs`, addresses and tokens in `contract_http`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// How long a graceful stop may take (L4 of docs/reference/invariants.md §4).
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn exactly_one_line_is_printed_the_base_url() {
    let mut server = Server::start();
    let port = server.address.strip_prefix("127.0.0.1:").expect("the address that was asked for");
    assert_ne!(port.parse::<u16>().unwrap(), 0);
    server.create_queue("q");
    server.get("/nope").expect(404);
    server.signal("TERM");
    assert_eq!(server.wait().1, Vec::<String>::new());
}

#[test]
fn the_log_of_a_first_start_has_who_starts_where_the_dashboard_and_nothing_of_migrations() {
    let server = Server::with_arguments(&["--log-level", "info"]);
    let line = |text: &str| server.stderr().lines().find(|line| line.contains(text)).map(str::to_owned);
    server.await_log_lines("serving", 1);
    let (log, database) = (server.stderr(), server.database.argument());
    let place = database.split('?').next().and_then(|url| url.rsplit('@').next()).unwrap();
    for part in ["taskqueue starts", env!("CARGO_PKG_VERSION"), place, &server.address] {
        assert!(log.lines().next().unwrap().contains(part), "{part} is not in {log}");
    }
    let (serving, dashboard) = (line("serving").unwrap(), format!("dashboard=\"http://{}/ui/\"", server.address));
    assert!(serving.contains(&dashboard), "{serving}");
    assert_eq!(server.count_log_lines("migration"), 0, "{}", server.stderr());
    assert_eq!(server.count_log_lines("new database"), 1, "{}", server.stderr());
    let server = Server::with_arguments(&["--log-level", "info", "--dashboard", "off"]);
    server.await_log_lines("serving", 1);
    assert_eq!(server.count_log_lines("dashboard"), 0, "{}", server.stderr());
}

#[test]
fn queues_named_at_start_exist() {
    let mut server = Server::with_arguments(&["--queue", "b", "--queue", "a"]);
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "a"}, {"name": "b"}]));
    server.create_in("a", 1, json!({}));
    server.restart();
    let tasks = server.get("/api/v2/queues/a/tasks/count").expect(200).json();
    assert_eq!(tasks, json!({"count": 1}));
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "a"}, {"name": "b"}]));
}

#[test]
fn a_stop_is_graceful_and_quick_in_spite_of_open_connections() {
    let mut server = Server::alone();
    let mut used = server.connect();
    used.exchange(&Request::new("GET", "/health")).unwrap().expect(200);
    let idle = server.connect();
    let half = server.begin_with(b"GET /api/v2/queues HTT");
    let start = Instant::now();
    let status = server.terminate();
    assert!(start.elapsed() < GRACE, "it took {:?}", start.elapsed());
    assert_eq!(status.code(), Some(0), "{}", server.stderr());
    drop((used, idle, half));
}

#[test]
fn a_request_in_flight_is_answered_before_the_stop() {
    let mut server = Server::alone();
    let mut connection = server.connect();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n",
        of_task(1, "")
    );
    connection.write(head.as_bytes()).unwrap();
    assert_eq!(connection.read_head().unwrap().0, 100, "the server waits for the body");
    server.signal("TERM");
    connection.write(b"{\"priority\":9}").unwrap();
    connection.read_response(true).unwrap().expect(201);
    assert_eq!(server.wait().0.code(), Some(0));
    server.start_again();
    assert_eq!(server.task(1)["priority"], 9);
}
