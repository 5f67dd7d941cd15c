//! Tables of command lines: accepted ones, and refused ones with their messages.

use std::path::Path;

use taskqueue_core::ids::QueueName;

use super::*;
use crate::open_store::Database;

fn parse_words(line: &str) -> Result<Parsed, Failure> {
    parse(["taskqueue"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty())).map(OsString::from))
}

fn serve(line: &str) -> ServeArgs {
    match parse_words(&format!("serve {line}")) {
        Ok(Parsed::Command { command, .. }) => match *command {
            Command::Serve(args) => args,
            other => panic!("{line}: {other:?}"),
        },
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    command_line().debug_assert();
}

#[test]
fn without_flags_the_server_is_local_and_embedded() {
    let args = serve("");
    assert_eq!(args.listen.to_string(), "127.0.0.1:8000");
    assert!(matches!(args.database, Database::Sqlite(path) if path == Path::new("taskqueue.db")));
    assert_eq!((args.queues.len(), args.secrets.token_file, args.outage_credit), (0, None, 90));
    assert_eq!((args.log_format, args.log_level), (LogFormat::Text, LogLevel::Info));
}

#[test]
fn every_flag_is_understood() {
    let args = serve(
        "--listen [::1]:0 --database sqlite:/x/y.db --queue a --queue b.c --token-file t --outage-credit 0 \
         --log-format json --log-level warn",
    );
    assert_eq!(args.listen.to_string(), "[::1]:0");
    assert!(matches!(args.database, Database::Sqlite(path) if path == Path::new("/x/y.db")));
    assert_eq!(args.queues.iter().map(QueueName::as_str).collect::<Vec<_>>(), ["a", "b.c"]);
    assert_eq!((args.secrets.token_file, args.outage_credit), (Some("t".into()), 0));
    assert_eq!((args.log_format, args.log_level), (LogFormat::Json, LogLevel::Warn));
}

#[test]
fn a_wrong_command_line_is_one_line_that_names_what_is_wrong() {
    let cases = [
        ("", "subcommand"),
        ("sevre", "'serve'"),
        ("serve --lisen x", "'--listen'"),
        ("serve extra", "'extra'"),
        ("serve --listen 8000", "HOST:PORT"),
        ("serve --listen localhost:99999", "65535"),
        ("serve --database postgres:localhost", "postgres://"),
        ("serve --database postgres://localhost/tq?sslmode=maybe", "sslmode"),
        ("serve --database mysql://localhost/tq", "sqlite:PATH"),
        ("serve --database sqlite:", "sqlite:PATH"),
        ("serve --queue=-x", "A-Z"),
        ("serve --queue a/b", "A-Z"),
        ("serve --outage-credit -1", "0..=86400"),
        ("serve --outage-credit 1.5", "--outage-credit"),
        ("serve --log-format xml", "json"),
        ("serve --log-level loud", "info"),
        ("serve --token secret", "--token-file"),
        ("migrate", "--from"),
        ("migrate --from a.db", "--to"),
        ("migrate --from a.db --to mysql://x/y", "sqlite:PATH"),
        ("migrate --form a.db", "taskqueue migrate --help"),
    ];
    for (line, expected) in cases {
        match parse_words(line) {
            Err(Failure::Usage(message)) => {
                assert!(message.contains(expected), "{line}: {message}");
                assert!(!message.contains('\n') && !message.contains("Usage:"), "{line}: {message}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn a_database_that_is_refused_is_not_shown() {
    for url in ["postgres://u:hush@h/d?sslmode=maybe", "postgres:hush", "mysql://u:hush@h/d", "postgres://u:/hush@h/d"]
    {
        let refused = parse_words(&format!("serve --database {url}"));
        assert!(matches!(&refused, Err(Failure::Usage(message)) if !message.contains("hush")), "{url}: {refused:?}");
    }
}

#[test]
fn help_and_version_are_shown() {
    let cases = [
        ("--help", "serve"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("serve --help", "--listen unix:/run/taskqueue.sock"),
        ("serve --help", "TASKQUEUE_DATABASE"),
        ("serve --help", "Exit codes"),
        ("--help", "migrate"),
        ("migrate --help", "TASKQUEUE_MIGRATE_TO"),
        ("migrate --help", "Exit codes"),
        ("task submit --help", "Examples:"),
        ("task submit --help", "--args '{\"a.b\": 1}'"),
        ("task sweep --help", "Examples:"),
        ("task sweep --help", "{{ and }} stand for braces"),
    ];
    for (line, expected) in cases {
        match parse_words(line) {
            Ok(Parsed::Text(text)) => assert!(text.contains(expected), "{line}: {text}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}
