//! The settings of `serve`: which of its flags are settings, the file of `serve --config`, and what counts in the end. The keys of the file
//! are the flags, taken from their definition, so that no list of settings stands twice. What it says is put on the command line, unless a
//! flag or a variable says it already (docs/decisions/0075).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Spanned, Value};

use super::values::context_text;
use super::{ServeArgs, command_line, one_line, without_password};
use crate::config::Setting;
use crate::failure::{Failure, similar_names};
use crate::files::{describe_toml_error, read_server_file, toml_line};
use crate::open_store::Database;

/// The name of the command.
pub(super) const SERVE: &str = "serve";

/// Flags that are about one call and no settings: they have neither a variable nor a key in a file.
const OF_ONE_CALL: [&str; 3] = ["config", "check", "output"];

/// Returns the definition of the command.
pub(super) fn serve_command() -> Command {
    command_line().find_subcommand(SERVE).cloned().unwrap_or_else(|| Command::new(SERVE))
}

/// Returns the flags that are settings.
pub(super) fn definitions(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|flag| flag.get_long().is_some_and(|name| !OF_ONE_CALL.contains(&name)))
}

/// Returns every setting, in the order of the help. No secret is among the values.
pub(super) fn settings(args: &ServeArgs, matches: &ArgMatches, file: Option<&ServeFile>) -> Vec<Setting> {
    let serve = serve_command();
    let settings = definitions(&serve).map(|flag| {
        let (id, name) = (flag.get_id().as_str(), flag.get_long().unwrap_or_default());
        // The URL of a database may have a password.
        let value = if id == "database" { args.database.to_string() } else { shown(matches, id) };
        let in_file = file.and_then(|file| file.source(name));
        let source = in_file.unwrap_or_else(|| match matches.value_source(id) {
            Some(ValueSource::CommandLine) => format!("flag --{name}"),
            Some(ValueSource::EnvVariable) => {
                format!("environment {}", flag.get_env().unwrap_or_default().to_string_lossy())
            }
            _ => "default".to_owned(),
        });
        Setting { name: name.to_owned(), value, source }
    });
    settings.collect()
}

/// Returns the value as it was written, or the default.
fn shown(matches: &ArgMatches, id: &str) -> String {
    let values = matches.try_get_raw(id).ok().flatten();
    let values: Vec<_> = values.into_iter().flatten().map(OsStr::to_string_lossy).collect();
    if values.is_empty() { "not set".to_owned() } else { values.join(", ") }
}

/// Reads a file as text.
pub(super) type Read = fn(&Path) -> Result<String, Failure>;

/// The file as a command line says it.
#[derive(Debug)]
pub(super) struct ServeFile {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: String,
    line: usize,
    /// The words that say the same on the command line; nothing for `false` and for an empty list.
    flags: Vec<OsString>,
    /// The variable of the same setting.
    variable: Option<OsString>,
    /// Whether neither a flag nor a variable says it, too.
    counts: bool,
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    read_server_file("the configuration file", path).map(|(text, _)| text).map_err(Failure::Usage)
}

/// Adds what the file says, if the arguments are those of `serve` and name one. The first argument is the name of the program.
pub(super) fn add_flags(
    mut arguments: Vec<OsString>,
    read: Read,
) -> Result<(Vec<OsString>, Option<ServeFile>), Failure> {
    let Some(path) = named_file(&arguments) else { return Ok((arguments, None)) };
    let mut file = ServeFile::parse(&path, &read(&path)?)?;
    for entry in &mut file.entries {
        let is_flag = arguments.iter().any(|word| flag_value(word, &entry.key).is_some());
        let is_variable = entry.variable.as_ref().is_some_and(|name| std::env::var_os(name).is_some());
        entry.counts = !is_flag && !is_variable;
    }
    let given = arguments.split_off(2);
    arguments.extend(file.entries.iter().filter(|entry| entry.counts).flat_map(|entry| entry.flags.iter().cloned()));
    arguments.extend(given);
    Ok((arguments, Some(file)))
}

/// Returns the file that the arguments name. Help needs none.
fn named_file(arguments: &[OsString]) -> Option<PathBuf> {
    let (command, words) = (arguments.get(1)?, arguments.get(2..)?);
    if command != SERVE || words.iter().any(|word| word == "--help" || word == "-h") {
        return None;
    }
    words.iter().enumerate().find_map(|(at, word)| match flag_value(word, "config")? {
        Some(path) => Some(PathBuf::from(path)),
        None => words.get(at + 1).map(PathBuf::from),
    })
}

/// Returns, if the word is this flag, what stands behind its `=`. No value of `serve` begins as a flag does.
fn flag_value<'a>(word: &'a OsStr, name: &str) -> Option<Option<&'a OsStr>> {
    let rest = word.as_bytes().strip_prefix(b"--")?.strip_prefix(name.as_bytes())?;
    match rest.split_first() {
        None => Some(None),
        Some((b'=', value)) => Some(Some(OsStr::from_bytes(value))),
        Some(_) => None,
    }
}

impl ServeFile {
    fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let table: BTreeMap<String, Spanned<Value>> = toml::from_str(text)
            .map_err(|error| Failure::Usage(format!("{}, {}", path.display(), describe_toml_error(text, &error))))?;
        let serve = serve_command();
        let entries = table.into_iter().map(|(key, value)| {
            let line = toml_line(text, value.span().start);
            let wrong = |problem: String| Failure::Usage(format!("{}, line {line}: {problem}", path.display()));
            Entry::read(&serve, key, value.get_ref(), line).map_err(wrong)
        });
        let file = Self { path: path.to_owned(), entries: entries.collect::<Result<_, _>>()? };
        file.check_values()?;
        Ok(file)
    }

    /// Checks all values, also those that do not count, because a flag or a variable says something else today.
    fn check_values(&self) -> Result<(), Failure> {
        let flags = self.entries.iter().flat_map(|entry| entry.flags.iter().cloned());
        let arguments: Vec<OsString> = ["taskqueue", SERVE].map(OsString::from).into_iter().chain(flags).collect();
        let Err(error) = command_line().try_get_matches_from(&arguments) else { return Ok(()) };
        // Whether settings go together is known when all of them are there.
        let is_of_several = matches!(error.kind(), ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument);
        match self.place(&error) {
            Some(place) if !is_of_several => {
                Err(Failure::Usage(format!("{place}{}", one_line(&without_password(error), &arguments))))
            }
            _ => Ok(()),
        }
    }

    /// Returns where the setting stands that an error is about, if it is one of this file; what to write before the error.
    pub(super) fn place(&self, error: &clap::Error) -> Option<String> {
        let name = context_text(error, ContextKind::InvalidArg)?.strip_prefix("--")?.split([' ', '[', '=']).next()?;
        let line = self.entry(name)?.line;
        Some(format!("{}, line {line}: ", self.path.display()))
    }

    /// Returns where a setting comes from, if it is from here.
    pub(super) fn source(&self, name: &str) -> Option<String> {
        self.entry(name).map(|_| format!("file {}", self.path.display()))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == name && entry.counts)
    }
}

impl Entry {
    fn read(serve: &Command, key: String, value: &Value, line: usize) -> Result<Self, String> {
        let flag = definitions(serve).find(|flag| flag.get_long() == Some(key.as_str()));
        let flag = flag.ok_or_else(|| unknown(serve, &key))?;
        let database = value.as_str().filter(|_| key == "database").and_then(|text| text.parse::<Database>().ok());
        if matches!(database, Some(Database::Postgres(address)) if address.has_password()) {
            return Err("no password belongs into this file; give it in PGPASSWORD, or the whole URL in \
                        TASKQUEUE_DATABASE"
                .to_owned());
        }
        let flags = flags(flag, &key, value).ok_or_else(|| format!("the value of {key} is {}", kind(flag)))?;
        Ok(Self { flags, variable: flag.get_env().map(OsStr::to_owned), key, line, counts: true })
    }
}

/// Returns what is wrong with a key. Its value is not shown: it may be a secret.
fn unknown(serve: &Command, key: &str) -> String {
    if key == "token" {
        return "no token belongs into this file; name the file that holds it: token-file".to_owned();
    }
    let keys: Vec<&str> = definitions(serve).filter_map(Arg::get_long).collect();
    match similar_names(key, &keys).first() {
        Some(similar) => format!("there is no setting {key:?}; did you mean {similar}?"),
        None => format!("there is no setting {key:?}; there are {}", keys.join(", ")),
    }
}

/// Returns the flags that say the same as the value, if it is of the right kind.
fn flags(flag: &Arg, key: &str, value: &Value) -> Option<Vec<OsString>> {
    let with_value = |word: String| OsString::from(format!("--{key}={word}"));
    match value {
        Value::Boolean(is_on) if can_stand_alone(flag) => {
            Some(is_on.then(|| OsString::from(format!("--{key}"))).into_iter().collect())
        }
        Value::Array(values) if is_list(flag) => values.iter().map(|value| word(value).map(with_value)).collect(),
        value if flag.get_action().takes_values() => word(value).map(|word| vec![with_value(word)]),
        _ => None,
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn can_stand_alone(flag: &Arg) -> bool {
    !flag.get_action().takes_values() || flag.get_num_args().is_some_and(|count| count.min_values() == 0)
}

fn is_list(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Append)
}

/// Returns what a value may be.
fn kind(flag: &Arg) -> &'static str {
    match (flag.get_action().takes_values(), can_stand_alone(flag), is_list(flag)) {
        (false, ..) => "true or false",
        (true, true, _) => "true, false, or a text in quotes",
        (true, false, true) => "a text in quotes, or a list of them: [\"a\", \"b\"]",
        (true, false, false) => "a text in quotes, or a number",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Parsed, parse_with};
    use super::*;
    use crate::args::OwnKey;
    /// `TASKQUEUE_QUEUE` is the queue of client commands: a server that is started where it is set would create that queue.
    const OTHER_NAMES: [(&str, &str); 1] = [("queue", "TASKQUEUE_QUEUES")];

    #[test]
    fn every_setting_of_the_server_has_a_variable_with_its_name() {
        let serve = serve_command();
        for flag in definitions(&serve) {
            let name = flag.get_long().unwrap();
            let usual = format!("TASKQUEUE_{}", name.to_uppercase().replace('-', "_"));
            let other = OTHER_NAMES.iter().find(|(of, _)| *of == name).map(|(_, variable)| *variable);
            let variable = flag.get_env().and_then(OsStr::to_str);
            assert_eq!(variable, Some(other.unwrap_or(&usual)), "--{name}");
        }
        assert!(definitions(&serve).count() >= 20);
    }

    #[test]
    fn what_is_about_one_call_is_no_setting() {
        let serve = serve_command();
        for name in OF_ONE_CALL {
            let flag = serve.get_arguments().find(|flag| flag.get_long() == Some(name)).unwrap();
            assert_eq!(flag.get_env(), None, "--{name}");
        }
        let others = serve.get_arguments().filter(|flag| flag.get_long().is_none()).count();
        assert_eq!(others, 0, "an argument without a name cannot be a key");
    }

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
}
