//! The command `serve`: arguments, what it refuses to start with, what it prints, and how it stops
//! (docs/reference/http-api.md §2.1; exit status 2 for bad arguments, 1 with one line on standard error for everything
//! else). What is about the database itself stands in `startup_sqlite.rs` and in `startup_postgres.rs`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::database::Database;
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
fn a_taken_port_is_refused() {
    let database = Database::new();
    let database = database.argument();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert_refuses(&["serve", "--listen", &address, "--database", &database], &[]);
}

#[test]
fn a_public_address_needs_a_token() {
    let database = Database::new();
    let database = database.argument();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let message = assert_refuses(&["serve", "--listen", address, "--database", &database], &[]);
        assert!(message.to_lowercase().contains("token"), "{message}");
    }
}

#[test]
fn a_public_address_with_a_token_and_a_loopback_address_without_one_are_served() {
    Server::launch(Some("secret"), &["--listen", "0.0.0.0:0"]).create_queue("q");
    Server::with_arguments(&["--listen", "127.0.0.2:0"]).create_queue("q");
}

#[test]
fn a_token_must_be_visible_ascii() {
    let database = Database::new();
    let database = database.argument();
    let message = assert_refuses(&serving(&database), &[("TASKQUEUE_TOKEN", "a\u{7f}b")]);
    assert!(!message.contains("a\u{7f}b"), "the token is shown: {message}");
    Server::with_token(&String::from_iter('!'..='~')).create_queue("q");
}

#[test]
fn a_token_may_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    put_in_place(&file, "from-file\n", 0o600);
    let mut server = Server::with_arguments(&["--token-file", file.to_str().unwrap()]);
    server.get("/api/v2/queues").assert_error(401, "unauthorized");
    server.token = Some("from-file".to_owned());
    server.get("/api/v2/queues").expect(200);
}

#[test]
fn an_unusable_token_file_is_refused() {
    let (directory, database) = (tempfile::tempdir().unwrap(), Database::new());
    let (file, database) = (directory.path().join("token"), database.argument());
    let mut arguments = serving(&database);
    arguments.extend(["--token-file", file.to_str().unwrap()]);
    assert_refuses(&arguments, &[]);
    put_in_place(&file, "two\nlines", 0o600);
    assert_refuses(&arguments, &[]);
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    let (directory, database) = (tempfile::tempdir().unwrap(), Database::new());
    let (file, link, database) = (directory.path().join("token"), directory.path().join("link"), database.argument());
    put_in_place(&file, "hush", 0o600);
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for (mode, path) in [(0o640, &file), (0o604, &file), (0o644, &link)] {
        set_mode(&file, mode);
        let mut arguments = serving(&database);
        arguments.extend(["--token-file", path.to_str().unwrap()]);
        let message = run(&arguments, &[]).refuses_with(2, &[&format!("run: chmod 600 {}", path.display())]);
        assert!(!message.contains("hush"), "{message}");
    }
    set_mode(&file, 0o400);
    Server::with_arguments(&["--token-file", link.to_str().unwrap()]).get("/health").expect(200);
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
fn a_unix_socket_is_for_its_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s.sock");
    let mut server = Server::with_arguments(&["--listen", &format!("unix:{}", socket.display())]);
    assert_eq!(mode(&socket), 0o600);
    let mut connection = Connection::unix(&socket).unwrap();
    connection.exchange(&Request::new("PUT", "/api/v2/queues/q")).unwrap().expect(201);
    assert_eq!(server.terminate().code(), Some(0));
    server.start_again();
    let mut connection = Connection::unix(&socket).unwrap();
    let queues = connection.exchange(&Request::new("GET", "/api/v2/queues")).unwrap().expect(200).json();
    assert_eq!(queues, json!([{"name": "q"}]));
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
