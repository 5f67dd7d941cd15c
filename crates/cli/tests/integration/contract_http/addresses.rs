//! The command `serve`: addresses and tokens, and what it refuses to start with (docs/reference/http-api.md §2.1; exit status 2 for bad
//! arguments, 1 with one line on standard error for everything else).

use std::net::TcpListener;

use serde_json::json;

use super::database::Database;
use super::support::*;

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
