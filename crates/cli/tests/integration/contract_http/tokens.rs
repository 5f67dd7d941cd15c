//! The file of `--tokens`: what its tokens open, how it is followed while the server runs, and what is refused at the start
//! (docs/reference/http-api.md §2.3). That every endpoint has a scope is tested in the crate `server`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;
use tempfile::TempDir;

use super::database::Database;
use super::support::*;

/// The token that opens everything.
const BOSS: &str = "boss-token";

/// A tokens file.
struct Tokens {
    folder: TempDir,
}

impl Tokens {
    fn new() -> Self {
        let tokens = Self { folder: tempfile::tempdir().unwrap() };
        tokens.write("");
        tokens
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tokens.toml")
    }

    fn argument(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn write(&self, text: &str) {
        put_in_place(&self.path(), text, 0o644);
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Makes a token with the command for that; gives the token.
    #[track_caller]
    fn create(&self, name: &str, flags: &str) -> String {
        let (path, mut arguments) = (self.argument(), vec!["token", "create", name]);
        arguments.extend(flags.split(' ').chain(["--append", &path]));
        let ran = run(&arguments, &[]);
        let token = ran.stdout.trim_end().to_owned();
        assert!(token.starts_with("tq_") && token.len() == 46, "{token}");
        assert!(!ran.fails(0).contains(&token));
        token
    }

    /// A server with this file and the token that opens everything, which its requests carry.
    fn serve(&self, flags: &[&str]) -> Server {
        let path = self.argument();
        make_old(&self.path());
        Server::launch(Some(BOSS), &[&["--tokens", path.as_str()], flags].concat())
    }
}

#[track_caller]
fn with(server: &Server, token: &str, method: &str, path: &str, body: impl IntoBody) -> Response {
    let request = Request::new(method, path).header("Authorization", &format!("Bearer {token}")).json(body);
    let response = server.send(&request);
    assert_general_rules(&response, path);
    response
}

#[test]
fn a_token_opens_its_scopes_in_its_queues_and_nothing_else() {
    let tokens = Tokens::new();
    let worker = tokens.create("worker", "--scope work --queue exp-*");
    let old = tokens.create("reader", "--scope admin --expires-at 2099-01-01T00:00:00Z");
    tokens.write(&tokens.text().replace("2099-01-01", "2020-01-01"));
    let reader = tokens.create("reader", "--scope read --queue exp-* --queue q");
    let path = tokens.argument();
    let again = ["token", "create", "reader", "--scope", "read", "--append", &path];
    assert_refuses_with(&again, &[], &["need different ends (expires_at)"]);
    let admin = tokens.create("admin", "--scope admin --queue exp-*");
    let server = tokens.serve(&["--queue", "q", "--queue", "exp-1"]);
    server.create_in("exp-1", 1, json!({}));
    let claim = json!({"route": "default", "run_id": run_id(1)});

    with(&server, &worker, "POST", "/api/v2/queues/exp-1/tasks/claim", &claim).expect(200);
    let denied = with(&server, &worker, "POST", "/api/v2/queues/q/tasks/claim", &claim);
    assert_eq!(denied.assert_error(403, "forbidden"), json!({"queue": "q"}));
    let denied = with(&server, &worker, "GET", "/api/v2/queues/exp-1/tasks", ());
    assert_eq!(denied.assert_error(403, "forbidden"), json!({"scope": "read"}));
    let denied = with(&server, &worker, "DELETE", "/api/v2/queues/q", ());
    assert_eq!(denied.assert_error(403, "forbidden"), json!({"scope": "admin", "queue": "q"}));
    let message = denied.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("token worker") && message.contains("scope admin"), "{message}");

    assert_eq!(with(&server, &reader, "GET", "/api/v2/queues", ()).json(), json!([{"name": "exp-1"}, {"name": "q"}]));
    with(&server, &reader, "PUT", "/api/v2/queues/exp-2", ()).assert_error(403, "forbidden");
    with(&server, &admin, "PUT", "/api/v2/queues/exp-2", ()).expect(201);
    with(&server, &admin, "PUT", "/api/v2/queues/prod", ()).assert_error(403, "forbidden");
    let seen = with(&server, &admin, "GET", "/api/v2/queues", ()).json();
    assert_eq!(seen, json!([{"name": "exp-1"}, {"name": "exp-2"}]));
    for token in [&worker, &reader, &admin] {
        with(&server, token, "GET", "/api/v2/capabilities", ()).expect(200);
    }
    server.put("/api/v2/queues/prod", ()).expect(201);
    let wrong = with(&server, "wrong", "GET", "/api/v2/queues", ());
    wrong.assert_error(401, "unauthorized");
    let expired = with(&server, &old, "GET", "/api/v2/queues", ());
    let seen = (expired.status, expired.text(), expired.header("WWW-Authenticate"));
    assert_eq!(seen, (401, wrong.text(), Some("Bearer")), "an expired token is as wrong as any other");
    server.await_log_lines("has expired", 1);
    assert_eq!(server.count_log_lines("token=\"reader\""), 1, "{}", server.stderr());
}

#[test]
fn what_other_queues_do_is_not_told() {
    let tokens = Tokens::new();
    let worker = tokens.create("worker", "--scope work --queue a");
    let server = tokens.serve(&["--queue", "a", "--queue", "b"]);
    server.create_in("b", 1, json!({}));
    server.claim_for("b", "default", 1).expect(200);
    let claim = json!({"route": "default", "run_id": run_id(1)});
    let conflict = with(&server, &worker, "POST", "/api/v2/queues/a/tasks/claim", claim);
    assert_eq!(conflict.assert_error(409, "run_id_conflict"), json!({"run_id": run_id(1)}));
    assert!(!conflict.text().contains("\"b\""), "{conflict:?}");
}

#[test]
fn the_file_is_followed_and_only_a_valid_one_is_taken() {
    let tokens = Tokens::new();
    let first = tokens.create("first", "--scope read");
    let server = tokens.serve(&["--log-level", "info"]);
    let status = |token: &str| with(&server, token, "GET", "/api/v2/queues", ()).status;
    assert_eq!(status(&first), 200);
    let second = tokens.create("second", "--scope read");
    eventually("the new token", || status(&second) == 200);

    let good = tokens.text();
    tokens.write(&good.replace("second", "se cond"));
    server.await_log_lines("the tokens file cannot be used", 1);
    assert!(server.stderr().contains("line 8: a name has"), "{}", server.stderr());
    fs::remove_file(tokens.path()).unwrap();
    server.await_log_lines("the tokens file cannot be used", 2);
    assert_eq!([status(&first), status(&second)], [200, 200]);
    tokens.write(&good);
    server.await_log_lines("was read again, and is as before", 1);

    tokens.write(&good.split("\n\n").nth(1).unwrap().replace("\"read\"", "\"submit\""));
    eventually("the old token is out", || status(&first) == 401);
    assert_eq!([status(&second), status(BOSS)], [403, 200]);
    set_mode(&tokens.path(), 0o666);
    server.await_log_lines("can be changed by others", 1);
    assert_eq!(server.count_log_lines("the tokens file cannot be used"), 3, "{}", server.stderr());
}

#[test]
fn a_file_that_cannot_be_used_refuses_the_start() {
    let (tokens, database) = (Tokens::new(), Database::new());
    let (path, database) = (tokens.argument(), database.argument());
    let mut arguments = serving(&database);
    arguments.extend(["--tokens", &path]);
    for (text, expected) in [
        ("[[token]]\nname = \"a\"\nsha256 = \"tq_secret\"\nscopes = [\"read\"]\n", "line 3: sha256 is"),
        ("# Perhaps its last line is still being written", "last line"),
    ] {
        tokens.write(text);
        make_old(&tokens.path());
        let message = assert_refuses(&arguments, &[]);
        assert!(message.contains(expected) && message.contains(&path) && !message.contains("secret"), "{message}");
    }
    tokens.write("");
    set_mode(&tokens.path(), 0o664);
    assert_refuses_with(&arguments, &[], &["chmod go-w"]);
    fs::remove_file(tokens.path()).unwrap();
    assert_refuses_with(&arguments, &[], &["cannot read the tokens file"]);
}

#[test]
fn an_empty_file_lets_nobody_in_and_is_no_token_for_a_public_address() {
    let (tokens, database) = (Tokens::new(), Database::new());
    let (path, database) = (tokens.argument(), database.argument());
    let public = ["serve", "--listen", "0.0.0.0:0", "--database", &database, "--tokens", &path];
    assert_refuses_with(&public, &[], &["--tokens with a token in it"]);
    let mut server = Server::with_environment(&[], &[("TASKQUEUE_TOKENS", &path)]);
    server.get("/api/v2/queues").assert_error(401, "unauthorized");
    server.terminate();

    let token = tokens.create("one", "--scope admin");
    let mut server = Server::with_arguments(&["--listen", "0.0.0.0:0", "--tokens", &path]);
    server.token = Some(token);
    server.create_queue("q");
}

#[test]
fn log_lines_have_the_name_of_the_token_and_the_trace() {
    let tokens = Tokens::new();
    let token = tokens.create("ann@lab", "--scope read");
    let mut server = tokens.serve(&["--log-level", "info", "--log-requests", "--log-format", "json"]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = |parent: &str| {
        let request = Request::new("GET", "/api/v2/queues").header("traceparent", parent);
        server.send(&request.header("Authorization", &format!("Bearer {token}"))).expect(200);
    };
    traced(&format!("00-{trace}-00f067aa0ba902b7-01"));
    traced(&format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)));
    traced("status=500 ERROR forged");
    with(&server, &token, "PUT", "/api/v2/queues/q", ()).assert_error(403, "forbidden");
    server.get("/api/v2/queues").expect(200);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.filter(|line| line["status"].is_u64()).collect();
    let members = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(members("token"), [json!("ann@lab"), json!("ann@lab"), json!("ann@lab"), json!("ann@lab"), Value::Null]);
    assert_eq!(members("trace_id"), [json!(trace), Value::Null, Value::Null, Value::Null, Value::Null]);
    // The database of a test may be called so, too, which the first line says.
    let mut others = log.lines().filter(|line| !line.contains("taskqueue starts"));
    assert!(!log.contains("forged") && !others.any(|line| line.contains("tq_")), "{log}");
}

/// The environment of a client of this server.
fn environment<'a>(url: &'a str, token: &'a str, home: &'a Path) -> [(&'a str, &'a str); 4] {
    [("TASKQUEUE_URL", url), ("TASKQUEUE_TOKEN", token), ("TASKQUEUE_QUEUE", "q"), ("HOME", home.to_str().unwrap())]
}

#[test]
fn a_worker_needs_the_scope_work_and_no_other() {
    let (tokens, home) = (Tokens::new(), tempfile::tempdir().unwrap());
    let worker = tokens.create("worker", "--scope work --queue q");
    let reader = tokens.create("reader", "--scope read --queue q");
    let server = tokens.serve(&["--queue", "q"]);
    let url = format!("http://{}", server.address);
    server.create_each(1..=4, |_| json!({}));
    let script = "echo '{\"step\": 1}' > $TASKQUEUE_PROGRESS_FILE; echo printed";
    let work = ["loop", "--jobs", "2", "--max-tasks", "4", "--", "sh", "-c", script];
    run(&work, &environment(&url, &worker, home.path())).ok();
    for n in 1..=4 {
        let task = server.task(n);
        assert_eq!((&task["status"], &task["progress"]), (&json!("succeeded"), &json!({"step": 1})), "{task}");
        eventually("the output", || server.get(&of_task(n, "/output")).status == 200);
    }

    let refused = run(&["loop", "--max-tasks", "1", "--", "true"], &environment(&url, &reader, home.path()));
    refused.fails_with(1, &["the token does not have the scope work (forbidden); ask whoever runs"]);
}

#[test]
fn the_command_line_says_what_its_token_lacks() {
    let (tokens, home) = (Tokens::new(), tempfile::tempdir().unwrap());
    let submitter = tokens.create("submitter", "--scope submit --queue q");
    let server = tokens.serve(&["--queue", "q", "--queue", "other"]);
    let url = format!("http://{}", server.address);
    let called = |arguments: &[&str]| run(arguments, &environment(&url, &submitter, home.path()));
    called(&["task", "submit", "--arg", "seed=1"]).ok();
    called(&["task", "list"]).fails_with(1, &["the token does not have the scope read (forbidden)"]);
    let elsewhere = called(&["task", "submit", "--queue", "other", "--arg", "seed=1"]);
    elsewhere.fails_with(1, &["the token is not for the queue other (forbidden)"]);
}

#[test]
fn tokens_are_made_and_checked_without_a_server() {
    let tokens = Tokens::new();
    let path = tokens.argument();
    let create = ["token", "create", "ci", "--scope", "read,submit", "--queue", "exp-*", "--output", "json"];
    let made = run(&create, &[]).json();
    let shown = json!([made["name"], made["scopes"], made["queues"]]);
    assert_eq!(shown, json!(["ci", ["read", "submit"], ["exp-*"]]));
    tokens.write(made["lines"].as_str().unwrap());
    let mut server = Server::with_arguments(&["--tokens", &path]);
    server.token = Some(made["token"].as_str().unwrap().to_owned());
    server.get("/api/v2/queues").expect(200);

    tokens.create("forever", "--scope work");
    tokens.create("soon", "--scope admin --expires-in 90d");
    let checked = run(&["token", "check", &path], &[]).ok();
    let checked: Vec<&str> = checked.lines().collect();
    assert!(checked[1].contains("read,submit") && checked[2].contains("never"), "{checked:?}");
    assert!(checked[3].contains("in 90d") || checked[3].contains("in 89d"), "{checked:?}");
    assert_eq!(checked.len(), 4, "{checked:?}");

    let again = run(&["token", "create", "forever", "--scope", "read", "--append", &path], &[]);
    again.refuses_with(1, &["the name forever is already in line"]);
    tokens.write("[[token]]\nname = 7\n");
    run(&["token", "check", &path], &[]).refuses_with(1, &["line 2: "]);
    for arguments in [
        &["token", "create", "a"][..],
        &["token", "create", "a b", "--scope", "read"],
        &["token", "create", "a", "--scope", "write"],
        &["token", "create", "a", "--scope", "read", "--queue", "a?"],
        &["token", "create", "a", "--scope", "read", "--expires-at", "2020-01-01T00:00:00Z"],
        &["token", "create", "a", "--scope", "read", "--expires-in", "0s"],
    ] {
        run(arguments, &[]).fails(2);
    }
}
