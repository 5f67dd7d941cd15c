//! The command `serve`: arguments, what it refuses to start with, what it prints, and how it stops
//! (decisions.md section 15; exit status 2 for bad arguments, 1 with one line on standard error for everything else).

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::*;

/// How long a graceful stop may take (invariants.md, L4).
const GRACE: Duration = Duration::from_secs(10);

/// Arguments of a server on a free port and this database.
fn serve(database: &Path) -> Vec<&str> {
    vec!["serve", "--listen", "127.0.0.1:0", "--database", database.to_str().unwrap()]
}

/// The command ends with status 1, prints nothing and says why in one line; gives the line.
#[track_caller]
fn assert_refuses(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let exit = run(arguments, environment);
    assert_eq!(exit.code, Some(1), "{arguments:?} {environment:?}: {exit:?}");
    assert!(exit.stdout.is_empty(), "{exit:?}");
    let lines: Vec<&str> = exit.stderr.lines().collect();
    assert!(lines.len() == 1 && !lines[0].trim().is_empty(), "one line on standard error: {exit:?}");
    assert!(!exit.stderr.contains("panicked"), "{exit:?}");
    lines[0].to_owned()
}

/// An SQLite database of another program with a table `notes`: two pages, built by hand because tests have no SQLite.
fn foreign_database(application_id: u32) -> Vec<u8> {
    const PAGE: usize = 4096;
    let sql = b"CREATE TABLE notes(x)";
    let text = |length: usize| u8::try_from(13 + 2 * length).unwrap();
    let mut record = vec![6, text(5), text(5), text(5), 1, text(sql.len())];
    record.extend(b"tablenotesnotes\x02");
    record.extend(sql);
    let mut cell = vec![u8::try_from(record.len()).unwrap(), 1];
    cell.extend(record);
    let start = PAGE - cell.len();
    let mut file = vec![0; 2 * PAGE];
    file[..24].copy_from_slice(b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20");
    for (offset, value) in [(24, 1), (28, 2), (40, 1), (44, 4), (56, 1), (68, application_id), (92, 1), (96, 3_045_000)]
    {
        file[offset..offset + 4].copy_from_slice(&u32::to_be_bytes(value));
    }
    let start_bytes = u16::try_from(start).unwrap().to_be_bytes();
    file[100..110].copy_from_slice(&[
        0x0d,
        0,
        0,
        0,
        1,
        start_bytes[0],
        start_bytes[1],
        0,
        start_bytes[0],
        start_bytes[1],
    ]);
    file[start..PAGE].copy_from_slice(&cell);
    file[PAGE..PAGE + 8].copy_from_slice(&[0x0d, 0, 0, 0, 0, 0x10, 0, 0]);
    file
}

#[test]
fn bad_arguments_are_status_2() {
    for arguments in [
        &["bogus"][..],
        &["serve", "--bogus"],
        &["serve", "--listen"],
        &["serve", "stray"],
        &["serve", "--log-level"],
        &["--bogus"],
    ] {
        let exit = run(arguments, &[]);
        assert_eq!(exit.code, Some(2), "{arguments:?}: {exit:?}");
        assert!(exit.stdout.is_empty() && !exit.stderr.is_empty(), "{exit:?}");
    }
}

#[test]
fn help_and_version_are_printed() {
    let version = run(&["--version"], &[]);
    assert_eq!(version.code, Some(0));
    assert!(version.stdout.concat().contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    for arguments in [&["--help"][..], &["serve", "--help"]] {
        let help = run(arguments, &[]);
        assert_eq!((help.code, help.stdout.is_empty()), (Some(0), false), "{help:?}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    for extra in
        [["--listen", "nonsense"], ["--queue", ".bad"], ["--log-level", "nonsense"], ["--outage-credit", "soon"]]
    {
        let mut arguments = vec!["serve", "--database", database.to_str().unwrap()];
        if extra[0] != "--listen" {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(extra);
        let exit = run(&arguments, &[]);
        assert!(matches!(exit.code, Some(1 | 2)), "{extra:?}: {exit:?}");
        assert!(exit.stdout.is_empty() && !exit.stderr.is_empty(), "{exit:?}");
    }
}

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
fn a_taken_port_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert_refuses(&["serve", "--listen", &address, "--database", database.to_str().unwrap()], &[]);
}

#[test]
fn a_public_address_needs_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let message = assert_refuses(&["serve", "--listen", address, "--database", database.to_str().unwrap()], &[]);
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
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    for token in ["", " ", "a b", "a\tb", "a\n", "é", "a\u{7f}", "\u{1}"] {
        let message = assert_refuses(&serve(&database), &[("TASKQUEUE_TOKEN", token)]);
        assert!(token.trim().is_empty() || !message.contains(token), "the token is shown: {message}");
    }
}

#[test]
fn every_visible_ascii_character_may_stand_in_a_token() {
    let token: String = ('!'..='~').collect();
    Server::with_token(&token).create_queue("q");
}

#[test]
fn a_token_may_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    for content in ["from-file", "from-file\n"] {
        fs::write(&file, content).unwrap();
        let mut server = Server::with_arguments(&["--token-file", file.to_str().unwrap()]);
        server.get("/api/v2/queues").assert_error(401, "unauthorized");
        server.token = Some("from-file".to_owned());
        server.get("/api/v2/queues").expect(200);
    }
}

#[test]
fn an_unusable_token_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (database, file) = (directory.path().join("q.db"), directory.path().join("token"));
    let mut arguments = serve(&database);
    arguments.extend(["--token-file", file.to_str().unwrap()]);
    assert_refuses(&arguments, &[]);
    for content in ["", "\n", "two words", "two\nlines", "é"] {
        fs::write(&file, content).unwrap();
        assert_refuses(&arguments, &[]);
    }
}

#[test]
fn a_second_server_on_the_same_file_is_refused() {
    let mut server = Server::with_queue();
    let database = server.database();
    assert_refuses(&serve(&database), &[]);
    server.create(1, json!({}));
    assert_refuses(&serve(&database), &[]);
    server.kill();
    server.start_again();
    assert_eq!(server.ids(""), [1]);
}

#[test]
fn files_that_are_no_database_of_ours_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut broken = foreign_database(0);
    broken[100..].fill(0xa5);
    let files = [
        b"This is a letter, not a database.\n".repeat(200),
        vec![0; 8192],
        broken,
        foreign_database(0),
        foreign_database(0x4d50_4254),
    ];
    for (n, content) in files.iter().enumerate() {
        let path = directory.path().join(format!("file-{n}"));
        fs::write(&path, content).unwrap();
        assert_refuses(&serve(&path), &[]);
        assert!(fs::read(&path).unwrap() == *content, "file {n} was changed");
    }
}

#[test]
fn unwritable_places_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing/q.db"), file.join("q.db")] {
        assert_refuses(&serve(&path), &[]);
    }
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
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut connection = Connection::unix(&socket).unwrap();
    connection.exchange(&Request::new("PUT", "/api/v2/queues/q")).unwrap().expect(201);
    assert_eq!(server.terminate().code(), Some(0));
    server.start_again();
    let mut connection = Connection::unix(&socket).unwrap();
    let queues = connection.exchange(&Request::new("GET", "/api/v2/queues")).unwrap().expect(200).json();
    assert_eq!(queues, json!([{"name": "q"}]));
}

#[test]
fn a_unix_socket_left_by_a_crash_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s.sock");
    let mut server = Server::with_arguments(&["--listen", &format!("unix:{}", socket.display())]);
    server.kill();
    assert!(socket.exists());
    server.start_again();
    Connection::unix(&socket).unwrap().exchange(&Request::new("GET", "/health")).unwrap().expect(200);
}

#[test]
fn a_stop_is_graceful_and_quick_in_spite_of_open_connections() {
    let mut server = Server::with_queue();
    let mut used = server.connect();
    used.exchange(&Request::new("GET", "/health")).unwrap().expect(200);
    let idle = server.connect();
    let mut half = server.connect();
    half.write(b"GET /api/v2/queues HTT").unwrap();
    let start = Instant::now();
    let status = server.terminate();
    assert!(start.elapsed() < GRACE, "it took {:?}", start.elapsed());
    assert_eq!(status.code(), Some(0), "{}", server.stderr());
    drop((used, idle, half));
}

#[test]
fn a_request_in_flight_is_answered_before_the_stop() {
    let mut server = Server::with_queue();
    let mut connection = server.connect();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n",
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
