//! The settings of `serve`: flag before variable before file before default, `--check`, and what it refuses.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{Ran, Server, binary, finish, run_alone, write};

/// `serve --check --config server.toml` with this file.
fn check(folder: &Path, file: &str, flags: &[&str], environment: &[(&str, &str)]) -> Ran {
    write(&folder.join("server.toml"), file, 0o644);
    let mut command = binary(folder);
    command.args(["serve", "--check", "--config", "server.toml"]).args(flags);
    finish(command.envs(environment.iter().copied()))
}

/// The value of a setting, and where it comes from.
fn setting(settings: &Value, name: &str) -> (String, String) {
    let found = settings.as_array().unwrap().iter().find(|setting| setting["name"] == name).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("value"), text("source"))
}

#[test]
fn a_flag_counts_before_its_variable_that_before_the_file_that_before_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = "log-level = 'warn'\nqueue = ['a', 'b']\n";
    let (flag, variable) = (["--log-level", "error"], [("TASKQUEUE_LOG_LEVEL", "debug"), ("TASKQUEUE_QUEUES", "c,d")]);
    let level = |file: &str, flags: &[&str], environment: &[(&str, &str)]| {
        let settings = check(folder.path(), file, &[&["-o", "json"], flags].concat(), environment).json();
        (setting(&settings, "log-level"), setting(&settings, "queue"))
    };
    let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    let none = pair("not set", "default");
    assert_eq!(level("", &[], &[]), (pair("info", "default"), none));
    let from_file = pair("a, b", "file server.toml");
    assert_eq!(level(file, &[], &[]), (pair("warn", "file server.toml"), from_file));
    let from_variable = pair("c, d", "environment TASKQUEUE_QUEUES");
    let expected = (pair("debug", "environment TASKQUEUE_LOG_LEVEL"), from_variable.clone());
    assert_eq!(level(file, &[], &variable), expected);
    assert_eq!(level(file, &flag, &variable), (pair("error", "flag --log-level"), from_variable));
}

#[test]
fn a_check_takes_no_port_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = format!("listen = '{}'\ndatabase = 'q.db'\ntls-self-signed = true\n", taken.local_addr().unwrap());
    let settings = check(folder.path(), &file, &["-o", "json"], &[]).json();
    assert_eq!(setting(&settings, "tls-self-signed"), ("true".to_owned(), "file server.toml".to_owned()));
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["server.toml"]);
}

#[test]
fn a_check_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("TASKQUEUE_TOKEN", "hush"), ("TASKQUEUE_DATABASE", "postgres://me:hush@db.example/work")];
    for format in ["table", "json", "jsonl", "csv", "quiet"] {
        let ran = check(folder.path(), "", &["-o", format], &environment);
        assert!(!format!("{ran:?}").contains("hush"), "{ran:?}");
        ran.ok_with(&["set, not shown", "db.example"]);
    }
    let settings = check(folder.path(), "", &["-o", "json"], &environment).json();
    let last = settings.as_array().unwrap().last().unwrap();
    assert_eq!(*last, json!({"name": "token", "value": "set, not shown", "source": "environment TASKQUEUE_TOKEN"}));
}

#[test]
fn a_check_names_everything_that_is_wrong_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str]); 8] = [
        ("lisen = 'x'", &["server.toml, line 1: ", "did you mean listen?"]),
        ("log-level = 'loud'", &["server.toml, line 1: ", "info"]),
        ("listen = '0.0.0.0:0'", &["no token is configured"]),
        ("token-file = 'none'\ntokens = 'missing'", &["the token file none", "the tokens file missing"]),
        ("database = 'missing/q.db'", &["there is no folder missing"]),
        ("database-schema = 's'", &["--database-schema is for PostgreSQL"]),
        ("tls-cert = 'cert'\ntls-key = 'key'", &["the TLS certificate cert"]),
        ("listen = 'unix:s'\ntls-self-signed = true", &["a Unix socket has no TLS"]),
    ];
    for (file, expected) in cases {
        check(folder.path(), file, &[], &[]).refuses_with(2, expected);
    }
    // A file that cannot be read may hold a token.
    let message = check(folder.path(), "listen = '0.0.0.0:0'\ntoken-file = 'none'", &[], &[]).fails(2);
    assert!(!message.contains("no token is configured"), "{message}");
    let both = check(folder.path(), "token-file = 'none'", &[], &[("TASKQUEUE_TOKEN", "hush")]);
    assert!(!both.fails_with(2, &["use one of them"]).contains("hush"));
}

#[test]
fn a_file_that_others_can_change_or_that_is_missing_is_refused() {
    run_alone("serve --config none.toml").fails_with(2, &["cannot read the configuration file none.toml"]);
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("open.toml"), "", 0o666);
    finish(binary(folder.path()).args(["serve", "--config", "open.toml"])).fails_with(2, &["chmod go-w"]);
}

#[test]
fn a_check_warns_of_variables_that_are_no_settings() {
    let folder = tempfile::tempdir().unwrap();
    let ran = check(folder.path(), "", &[], &[("TASKQUEUE_LOG_LEVLE", "warn")]);
    ran.said(&["TASKQUEUE_LOG_LEVLE", "TASKQUEUE_LOG_LEVEL"]).ok();
    run_alone("serve --output json").fails_with(2, &["--check"]);
}

#[test]
fn a_server_starts_with_what_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    // The flags of the test say where it listens and which queue it has.
    write(&path, "listen = '192.0.2.1:1'\ndatabase = 'named.db'\nqueue = ['hidden']\n", 0o644);
    let server = Server::with_arguments(&["--config", path.to_str().unwrap()]);
    assert_eq!(server.run("queue list -o quiet").ok(), "q\n");
    assert!(server.folder.path().join("named.db").exists(), "where it was started, not beside the file");
}
