//! What `serve` needs from PostgreSQL, what it refuses to open, and that no password is ever shown. The counterpart of
//! `startup_sqlite.rs`; here a second server on the same database is allowed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread;

use serde_json::json;
use taskqueue_test_postgres::{Cluster, eventually};

use super::database::Database;
use super::support::*;

/// A password that occurs nowhere else, plain in every encoding.
const PASSWORD: &str = "hush-5Kq2vX";

/// The parts of `postgres://user:password@place`: `postgres://user@place` and `place`.
fn without_password(url: &str) -> (String, &str) {
    let (login, place) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    (format!("postgres://{}@{place}", login.split(':').next().unwrap()), place)
}

/// The owner of a database that was made with a password.
fn role(url: &str) -> &str {
    url.strip_prefix("postgres://").unwrap().split(':').next().unwrap()
}

/// The command line of a process, as `ps` shows it.
fn command_line(server: &Server) -> String {
    let line = fs::read_to_string(format!("/proc/{}/cmdline", server.process_id())).unwrap();
    assert!(line.contains("serve"), "{line}");
    line
}

/// The command ends with this status, and no log line and no message shows the password, however much is logged.
#[track_caller]
fn assert_password_hidden(arguments: &[&str], environment: &[(&str, &str)], code: i32) {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--log-level", "trace"]).collect();
    let ran = run(&arguments, environment);
    assert_eq!(ran.stdout, "", "{ran:?}");
    let said = ran.fails(code);
    assert!(!said.is_empty() && !said.contains(PASSWORD), "{said}");
}

#[test]
fn an_unreachable_server_is_refused_by_host_and_port() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://me:{PASSWORD}@{free}/work");
    let arguments = [&serving(&url)[..], &["--database-wait", "0s"]].concat();
    assert_refuses_with(&arguments, &[], &[&free.to_string()]);
    assert_password_hidden(&arguments, &[], 1);
    let arguments = [&serving("postgres://me@nowhere.invalid/work")[..], &["--database-wait", "0s"]].concat();
    assert_refuses_with(&arguments, &[], &["nowhere.invalid:5432"]);
}

#[test]
fn a_wrong_password_is_refused_and_never_shown() {
    let database = Database::fresh();
    let right = database.inside().password_url("right");
    let (url, place) = without_password(&right);
    let wrong = format!("postgres://{}:{PASSWORD}@{place}", role(&right));
    let by_environment = ["serve", "--listen", "127.0.0.1:0"];
    let assert_refused = |arguments: &[&str], environment: &[(&str, &str)]| {
        let message = assert_refuses(arguments, environment);
        assert!(message.contains("password") && !message.contains(PASSWORD), "{message}");
        assert_password_hidden(arguments, environment, 1);
    };
    assert_refused(&serving(&wrong), &[]);
    assert_refused(&serving(&url), &[("PGPASSWORD", PASSWORD)]);
    assert_refused(&by_environment, &[("TASKQUEUE_DATABASE", &wrong)]);
    assert_refused(&by_environment, &[("TASKQUEUE_DATABASE", &url), ("PGPASSWORD", PASSWORD)]);
    assert_refuses_with(&serving(&url), &[], &["PGPASSWORD"]);
}

#[test]
fn a_url_that_makes_no_sense_is_a_mistake_in_the_arguments_and_not_shown() {
    let url = format!("postgres://me:{PASSWORD}@localhost/work?sslmode=maybe");
    assert_password_hidden(&serving(&url), &[], 2);
    assert_password_hidden(&["serve", "--listen", "127.0.0.1:0"], &[("TASKQUEUE_DATABASE", &url)], 2);
}

#[test]
fn a_schema_of_another_program_is_refused_and_another_name_helps() {
    let database = Database::fresh();
    database.inside().admin("CREATE SCHEMA taskqueue; CREATE TABLE taskqueue.notes AS SELECT 'mine' AS note");
    let url = database.argument();
    assert_refuses_with(&serving(&url), &[], &["\"taskqueue\"", "schema"]);
    let database = database.configured_by(&["--database", &url], &[("TASKQUEUE_DATABASE_SCHEMA", "ours")]);
    let server = Server::launch_on(Arc::new(database), None, &[]);
    server.create_queue("q");
    let queues = server.database.inside().rows("SELECT name FROM ours.queues");
    assert_eq!(queues, [[Some("q".to_owned())]]);
}

#[test]
fn schemas_of_one_database_know_nothing_of_each_other() {
    let database = Arc::new(Database::fresh());
    let names = ["other", "Odd \"name\"; --"];
    let servers = names.map(|name| Server::launch_on(Arc::clone(&database), None, &["--database-schema", name]));
    for (server, name) in servers.iter().zip(names) {
        server.create_queue("q");
        server.create(1, json!({"name": name}));
    }
    for (mut server, name) in servers.into_iter().zip(names) {
        server.restart();
        assert_eq!(server.task(1)["name"], name);
        server.delete(&in_queue("?cascade=true")).expect(204);
    }
    let schemas =
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information' ORDER BY nspname COLLATE \"C\"";
    let schemas: Vec<_> = database.inside().rows(schemas).into_iter().flatten().flatten().collect();
    assert_eq!(schemas, ["Odd \"name\"; --", "other", "public"]);
}

/// The ways in which a password should be given: database, arguments, environment.
fn recommended_ways() -> Vec<Arc<Database>> {
    let [first, second] = [Database::fresh(), Database::fresh()];
    let (whole, other) = (first.inside().password_url(PASSWORD), second.inside().password_url(PASSWORD));
    let bare = without_password(&other).0;
    let first = first.configured_by(&[], &[("TASKQUEUE_DATABASE", &whole)]);
    let second = second.configured_by(&["--database", &bare], &[("PGPASSWORD", PASSWORD)]);
    vec![Arc::new(first), Arc::new(second)]
}

#[test]
fn a_password_from_the_environment_is_used_and_shown_nowhere() {
    for database in recommended_ways() {
        let mut server = Server::launch_on(database, None, &["--log-level", "trace", "--log-requests"]);
        server.create_queue("q");
        server.create(1, json!({}));
        let mut seen = vec![command_line(&server)];
        seen.push(server.get("/health").expect(200).text());
        seen.push(server.put(&of_task(2, ""), "{").text());
        seen.push(server.get("/openapi.json").text());
        server.restart();
        assert_eq!(server.ids(""), [1]);
        seen.extend([command_line(&server), server.stderr()]);
        assert!(server.stderr().contains("answered"), "the log is there");
        assert!(seen.iter().all(|text| !text.contains(PASSWORD)), "{seen:?}");
    }
}

#[test]
fn a_password_that_is_no_longer_right_is_shown_neither_in_answers_nor_in_logs() {
    for database in recommended_ways() {
        let server = Server::launch_on(database, None, &["--log-level", "trace"]);
        server.create_queue("q");
        let inside = server.database.inside();
        let owner = format!("{}_owner", inside.name());
        inside.admin(&format!("ALTER ROLE {owner} PASSWORD 'changed'"));
        Cluster::shared().terminate_backends(inside);
        for (method, path) in
            [("GET", in_queue("/tasks")), ("PUT", "/api/v2/queues/r".to_owned()), ("GET", "/health".to_owned())]
        {
            let answer = server.connect().exchange(&Request::new(method, &path)).unwrap().expect(503);
            assert!(!answer.text().contains(PASSWORD) && !answer.text().contains(&owner), "{answer:?}");
        }
        assert!(server.stderr().contains("password authentication failed"), "{}", server.stderr());
        assert!(!server.stderr().contains(PASSWORD));
        inside.admin(&format!("ALTER ROLE {owner} PASSWORD '{PASSWORD}'"));
        let answers = || server.connect().exchange(&Request::new("PUT", "/api/v2/queues/r")).unwrap().status < 300;
        eventually("the server finds its way back", answers);
    }
}

#[test]
fn a_database_with_durable_commits_causes_no_warning() {
    let mut server = Server::with_arguments(&["--log-level", "info", "--log-requests"]);
    server.get("/health").expect(200);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(server.stderr().contains("answered") && !server.stderr().contains("WARN"), "{}", server.stderr());
}

#[test]
fn commits_that_are_not_waited_for_are_warned_of() {
    let database = Database::fresh();
    database.inside().admin(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.inside().name()));
    let mut server = Server::launch_on(Arc::new(database), None, &["--log-level", "info"]);
    let warnings = |log: &str| {
        let warns = |line: &&str| line.contains("WARN") && line.contains("synchronous_commit=off");
        log.lines().filter(warns).map(str::to_owned).collect::<Vec<String>>()
    };
    let at_start = warnings(&server.stderr());
    assert!(at_start.len() == 1 && at_start[0].contains("MAY LOSE ACKNOWLEDGED WRITES"), "{}", server.stderr());
    let health = json!({"status": "ok", "api_version": "2", "database": "ok"});
    assert_eq!(server.get("/health").expect(200).json(), health);
    assert_eq!(server.terminate().code(), Some(0));
    let all = warnings(&server.stderr());
    assert!(all.len() == 2 && all[1].contains("/health") && all[1].contains("answered"), "{all:?}");
}

/// An address that nothing listens on.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_server_waits_for_a_database_that_comes_later_and_says_so() {
    let cluster = Cluster::private();
    let (database, address) = (Database::on(&cluster), free_address());
    cluster.stop();
    thread::scope(|scope| {
        let arguments = ["--listen", &address, "--log-level", "info", "--queue", "q"];
        let server = scope.spawn(move || Server::launch_on(Arc::new(database), None, &arguments));
        let ask = |method: &str, path: &str| {
            Connection::tcp(&address).and_then(|mut connection| connection.exchange(&Request::new(method, path)))
        };
        eventually("the server listens", || ask("GET", "/livez").is_ok());
        assert_eq!(ask("GET", "/livez").unwrap().expect(200).json(), json!({"status": "ok"}));
        for (method, path) in [("GET", "/readyz"), ("PUT", "/api/v2/queues/r"), ("GET", "/")] {
            let answer = ask(method, path).unwrap();
            answer.assert_error(503, "database_unavailable");
            assert!(answer.header("Retry-After").is_some(), "{answer:?}");
            assert!(answer.header(VERSION_HEADER).is_none(), "nobody was asked for a token: {answer:?}");
        }
        let health = json!({"status": "error", "api_version": "2", "database": "error"});
        assert_eq!(ask("GET", "/health").unwrap().expect(503).json(), health);
        cluster.start();
        let server = server.join().unwrap();
        server.create(1, json!({}));
        server.get("/readyz").expect(200);
        assert_eq!(server.count_log_lines("the database does not answer; waiting for it"), 1, "{}", server.stderr());
        assert_eq!(server.count_log_lines("the database answers, after"), 1, "{}", server.stderr());
    });
}

#[test]
fn a_server_that_waits_in_vain_ends_and_one_that_is_told_to_stop_does_so() {
    let url = format!("postgres://me@{}/work", free_address());
    let ended = run(&[&serving(&url)[..], &["--database-wait", "1s"]].concat(), &[]);
    assert_eq!(ended.stdout, "", "{ended:?}");
    let said = ended.fails_with(1, &["waiting for it for up to 1 s"]);
    assert!(said.lines().last().unwrap().starts_with("error: cannot reach PostgreSQL"), "{said}");

    // The shell waits until the server listens, and stops it.
    let address = free_address();
    let script = "\"$@\" & server=$!; \
                  until bash -c \"exec 3<>/dev/tcp/$ADDRESS\" 2>/dev/null; do sleep 0.05; done; kill $server; wait $server";
    let script = script.replace("$ADDRESS", &address.replace(':', "/"));
    let arguments = ["serve", "--listen", &address, "--database", &url];
    run_inside(&["bash", "-c", &script, "bash"], &arguments).fails_with(0, &["received SIGTERM"]);
}

#[test]
fn the_watchdog_does_not_end_a_server_because_postgresql_is_away() {
    let (cluster, folder) = (Cluster::private(), tempfile::tempdir().unwrap());
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let database = Database::on(&cluster);
    let url = database.argument();
    let database = database.configured_by(&["--database", &url], &environment);
    let _server = Server::launch_on(Arc::new(database), None, &[]);
    cluster.stop();
    assert_watchdog_hears(&socket);
}

#[test]
fn an_unreachable_database_is_reported_and_used_again_later() {
    let cluster = Cluster::private();
    let server = Server::launch_on(Arc::new(Database::on(&cluster)), None, &["--queue", "q"]);
    server.create(1, json!({}));
    let ask = |method: &str, path: &str| server.connect().exchange(&Request::new(method, path)).unwrap();
    cluster.crash();
    let health = ask("GET", "/health").expect(503).json();
    assert_eq!((&health["status"], &health["database"]), (&json!("error"), &json!("error")));
    for (method, path) in [("GET", in_queue("/tasks")), ("PUT", "/api/v2/queues/r".to_owned())] {
        let answer = ask(method, &path);
        answer.assert_error(503, "database_unavailable");
        assert!(answer.header("Retry-After").is_some() && answer.header(VERSION_HEADER).is_some(), "{answer:?}");
    }
    cluster.start();
    eventually("the server finds its way back", || ask("GET", "/health").status == 200);
    eventually("writes are taken again", || ask("PUT", "/api/v2/queues/r").status < 300);
    assert_eq!(server.ids(""), [1]);
}
