//! What the file may say, what counts before it, and how its mistakes are told.

use super::super::{Parsed, parse_with};
use super::*;
use crate::args::{OwnKey, ServeArgs};

fn serve(line: &str, read: Read) -> Result<ServeArgs, Failure> {
    let words = format!("taskqueue serve --config server.toml {line}");
    let arguments = words.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
    match parse_with(arguments, read)? {
        Parsed::Command { command, .. } => match *command {
            crate::args::Command::Serve(args) => Ok(args),
            other => panic!("{line}: {other:?}"),
        },
        Parsed::Text(text) => panic!("{line}: {text}"),
    }
}

/// The value of a setting, and where it comes from.
fn setting<'a>(args: &'a ServeArgs, name: &str) -> (&'a str, &'a str) {
    let found = args.settings.iter().find(|setting| setting.name == name).unwrap();
    (&found.value, &found.source)
}

#[test]
fn every_setting_is_a_key_of_the_file() {
    let serve = serve_command();
    for flag in definitions(&serve) {
        let name = flag.get_long().unwrap();
        let values = [Value::String("x".to_owned()), Value::Boolean(true)];
        let read = values.map(|value| Entry::read(&serve, name.to_owned(), &value, 1));
        assert!(read.iter().any(Result::is_ok), "{name}: {read:?}");
    }
}

#[test]
fn the_file_says_what_flags_say() {
    let args = serve("", |_| {
        Ok("listen = '[::1]:0'\nqueue = ['a', 'b.c']\nallow-host = 'x.example,y.example'\noutage-credit = 5\n\
            database-wait = 90\nstop-delay = '2m'\nlog-requests = true\nlog-level = 'warn'\ntls-self-signed = true\n"
            .to_owned())
    });
    let args = args.unwrap();
    assert_eq!((args.listen.to_string().as_str(), args.queues.len(), args.allowed_hosts.len()), ("[::1]:0", 2, 2));
    assert_eq!((args.outage_credit, args.log_requests), (5, true));
    assert_eq!((args.database_wait.as_secs(), args.stop_delay.as_secs()), (90, 120));
    assert_eq!(args.secrets.tls.tls_self_signed, Some(OwnKey::BesideDatabase));
    assert_eq!(setting(&args, "queue"), ("a, b.c", "file server.toml"));
    assert_eq!(setting(&args, "log-requests"), ("true", "file server.toml"));
    assert_eq!(setting(&args, "database"), ("taskqueue.db", "default"));
    assert_eq!(setting(&args, "token-file"), ("not set", "default"));
}

#[test]
fn a_flag_counts_before_the_file_also_with_a_list() {
    let read: Read = |_| Ok("listen = '127.0.0.1:2'\nqueue = ['a', 'b']\ntls-key = 'key'\n".to_owned());
    let args = serve("--listen=127.0.0.1:1 --queue c --tls-cert cert", read).unwrap();
    assert_eq!(setting(&args, "listen"), ("127.0.0.1:1", "flag --listen"));
    assert_eq!(setting(&args, "queue"), ("c", "flag --queue"));
    assert_eq!(setting(&args, "tls-cert"), ("cert", "flag --tls-cert"));
    assert_eq!(setting(&args, "tls-key"), ("key", "file server.toml"));
}

#[test]
fn what_is_off_in_the_file_is_off() {
    let read: Read = |_| Ok("log-requests = false\ntls-self-signed = false\nqueue = []\n".to_owned());
    let args = serve("", read).unwrap();
    assert_eq!((args.log_requests, args.secrets.tls.tls_self_signed.clone(), args.queues.len()), (false, None, 0));
    assert_eq!(setting(&args, "log-requests"), ("false", "file server.toml"));
    assert!(serve("--log-requests", read).unwrap().log_requests);
}

#[test]
fn settings_that_exclude_or_need_each_other_do_so_across_flags_and_file() {
    let own_key: Read = |_| Ok("\ntls-self-signed = true\n".to_owned());
    let refused = serve("--tls-cert c --tls-key k", own_key).unwrap_err();
    assert!(refused.message().unwrap().contains("cannot be used with"), "{refused:?}");
    let half: Read = |_| Ok("tls-cert = 'c'\n".to_owned());
    assert!(serve("", half).unwrap_err().message().unwrap().contains("--tls-key"));
}

#[test]
fn every_mistake_is_named_with_the_file_and_its_line() {
    let cases = [
        ("listen = ", 1, ""),
        ("listen = '127.0.0.1:1'\nlisten = '127.0.0.1:2'", 2, ""),
        ("\nlisen = 'x'", 2, "did you mean listen?"),
        ("token_file = 'x'", 1, "did you mean token-file?"),
        ("\n[serve]\nlisten = 'x'", 2, "there is no setting \"serve\"; there are listen, "),
        ("config = 'x'", 1, "there is no setting \"config\""),
        ("check = true", 1, "there is no setting \"check\""),
        ("token = 'hush'", 1, "token-file"),
        ("database = 'postgres://u:hush@h/d'", 1, "PGPASSWORD"),
        ("database = 'postgres://u@h/d?sslmode=hush'", 1, "sslmode"),
        ("listen = true", 1, "the value of listen is a text in quotes, or a number"),
        ("listen = 8000", 1, "HOST:PORT"),
        ("\n\nlog-level = 'loud'", 3, "possible values: error, warn, info"),
        ("log-requests = 'yes'", 1, "the value of log-requests is true or false"),
        ("outage-credit = -1", 1, "0..=86400"),
        ("outage-credit = 1.5", 1, "or a number"),
        ("queue = ['a', true]", 1, "or a list of them"),
        ("queue = ['a', '.b']", 1, "A-Z"),
        ("log-level = ['info']", 1, "the value of log-level"),
        ("tls-self-signed = 1.5", 1, "true, false, or a text"),
        ("database-wait = 'soon'", 1, "30s, 5m"),
    ];
    for (text, line, expected) in cases {
        let refused = ServeFile::parse(Path::new("/etc/s.toml"), text).unwrap_err();
        let Failure::Usage(message) = &refused else { panic!("{text}: {refused:?}") };
        assert!(message.starts_with(&format!("/etc/s.toml, line {line}: ")), "{text}: {message}");
        assert!(message.contains(expected) && !message.contains('\n'), "{text}: {message}");
        assert!(!message.contains("hush"), "{text}: {message}");
    }
}

#[test]
fn a_wrong_value_that_a_flag_hides_is_refused_all_the_same() {
    let refused = serve("--log-level info", |_| Ok("log-level = 'loud'\n".to_owned())).unwrap_err();
    assert!(refused.message().unwrap().starts_with("server.toml, line 1: "), "{refused:?}");
    let refused = serve("--log-level loud", |_| Ok("log-level = 'info'\n".to_owned())).unwrap_err();
    assert!(refused.message().unwrap().starts_with("invalid value"), "{refused:?}");
}

#[test]
fn the_file_is_read_for_a_server_and_not_for_help_or_other_commands() {
    let never: Read = |path| panic!("{}", path.display());
    for line in ["serve --config f --help", "help serve", "serve", "task list --config f", "serve --config"] {
        let arguments = ["taskqueue"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        drop(parse_with(arguments, never));
    }
    for words in [["--config", "f"].as_slice(), &["--config=f"], &["--check", "--config", "f"]] {
        let arguments: Vec<OsString> = ["taskqueue", SERVE].iter().chain(words).map(OsString::from).collect();
        assert_eq!(named_file(&arguments), Some("f".into()), "{words:?}");
    }
}
