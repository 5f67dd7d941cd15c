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
        ("task", "subcommand"),
        ("task lst", "taskqueue task --help"),
        ("task list --status done", "pending"),
        ("task list --order-by size", "created_at"),
        ("task list --limit 0", "taskqueue task list --help"),
        ("task list --limit 5 --all", "--all"),
        ("task get nonsense", "t_ and 12"),
        ("task cancel", "required"),
        ("task cancel t_aaaaaaaaaaaa --filter x", "cannot be used with"),
        ("task submit --from - --id t_aaaaaaaaaaaa", "cannot be used with"),
        ("task wait t_aaaaaaaaaaaa --timeout soon", "30s"),
        ("task wait --timeout 5 minutes", "write the duration as one word: 5m instead of 5 minutes"),
        ("task submit --timeout 2 hours", "write the duration as one word: 2h instead of 2 hours"),
        ("task submit --delay 90 sec --arg x=1", "write the duration as one word: 90s instead of 90 sec"),
        ("task list --queue=-x", "A-Z"),
        ("queue create a/b", "A-Z"),
        ("worker count --group-by host", "route"),
        ("completions klingon", "bash"),
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
fn wrong_times_and_dependencies_are_refused_with_what_to_type() {
    let cases = [
        ("--delay soon", "30s, 5m, 2h or 7d"),
        ("--delay 5m --not-before 2999-01-01T00:00:00Z", "--not-before"),
        ("--not-before tomorrow", "2027-01-31T00:00:00Z"),
        ("--retry-delay 1h..10s", "write the shorter one first, as 10s..1h"),
        ("--retry-delay fast", "10s..1h"),
        ("--timeout 0", "from 1s to 365d"),
        ("--after task-1", "a task id is t_ and 12"),
        ("--on-dependency-failure ignore", "use wait or cancel"),
    ];
    for (flags, expected) in cases {
        for command in ["task submit", "task sweep --arg x=1..2", "task update t_aaaaaaaaaaaa"] {
            let refused = parse_words(&format!("{command} {flags}"));
            let names_it = matches!(&refused, Err(Failure::Usage(message)) if message.contains(expected));
            assert!(names_it, "{command} {flags}: {refused:?}");
        }
    }
}

#[test]
fn wrong_flags_of_the_worker_are_refused() {
    let out_of_range =
        ["--jobs 0", "--jobs 2000", "--max-tasks 0", "--stop-after-failures 0", "--timeout 0", "--keep-runs 0"];
    let wrong_slots = ["--slots 1,1", "--slots a", "--slots 1,2 --jobs 2"];
    let wrong_values = ["--idle-timeout soon", "--heartbeat 0.1", "--on-stop explode", "--route //"];
    for flags in [&out_of_range[..], &wrong_slots, &wrong_values].concat() {
        let refused = parse_words(&format!("loop {flags} -- true"));
        assert!(matches!(refused, Err(Failure::Usage(_))), "{flags}: {refused:?}");
    }
    assert!(matches!(parse_words("loop --"), Err(Failure::Usage(_))));
}

/// The names of a command and of all below it.
fn commands_below(command: &clap::Command, path: &str) -> Vec<String> {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let own = shown.map(|inner| (inner, format!("{path} {}", inner.get_name()).trim().to_owned()));
    own.flat_map(|(inner, name)| [vec![name.clone()], commands_below(inner, &name)].concat()).collect()
}

#[test]
fn every_command_has_help_with_examples() {
    let help = |line: &str| match parse_words(line) {
        Ok(Parsed::Text(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    let commands = commands_below(&command_line(), "");
    for command in commands.iter().map(String::as_str).chain([""]) {
        let text = help(&format!("{command} --help"));
        assert!(text.contains("Usage: taskqueue"), "{command}: {text}");
        let first = text.split("\nExamples:\n").nth(1).and_then(|examples| examples.lines().next()).unwrap_or_default();
        assert!(first.contains(&format!("taskqueue {command}")), "the help of {command:?} has no example: {text}");
        assert_eq!(help(&format!("help {command}")), text, "{command}");
    }
    for expected in ["serve", "task list", "worker count", "config show", "help", "queue delete", "loop"] {
        assert!(commands.iter().any(|command| command == expected), "{expected} in {commands:?}");
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
