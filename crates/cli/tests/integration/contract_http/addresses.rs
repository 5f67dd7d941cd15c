//! The command `serve`: addresses and tokens, and what it refuses to start with (docs/reference/http-api.md §2.1; exit status 2 for bad
//! arguments, 1 with one line on standard error for everything else). What a token may be is tested beside `token.rs`, sockets in
//! `server`.

use std::net::TcpListener;

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
fn a_token_file_that_others_can_read_is_refused() {
    let (directory, database) = (tempfile::tempdir().unwrap(), Database::new());
    let (file, link, database) = (directory.path().join("token"), directory.path().join("link"), database.argument());
    put_in_place(&file, "hush", 0o600);
    std::os::unix::fs::symlink(&file, &link).unwrap();
    set_mode(&file, 0o640);
    for path in [&file, &link] {
        let mut arguments = serving(&database);
        arguments.extend(["--token-file", path.to_str().unwrap()]);
        let message = run(&arguments, &[]).refuses_with(2, &[&format!("run: chmod 600 {}", path.display())]);
        assert!(!message.contains("hush"), "{message}");
    }
    set_mode(&file, 0o400);
    Server::with_arguments(&["--token-file", link.to_str().unwrap()]).get("/health").expect(200);
}
