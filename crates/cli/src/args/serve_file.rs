//! The file of `serve --config`. Its keys are the flags of `serve`, taken from their definition, so that no list of settings stands twice.
//! What it says is put on the command line, unless a flag or a variable says it already (docs/decisions/0075).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::{Spanned, Value};

use super::serve_settings::{SERVE, definitions, serve_command};
use super::{command_line, one_line, without_password};
use crate::failure::Failure;
use crate::open_store::Database;
use crate::similar_names::similar_names;
use crate::{server_file, toml_lines};

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
    /// What says the same on the command line; nothing for `false` and for an empty list.
    flags: Vec<OsString>,
    /// Of the same setting.
    variable: Option<OsString>,
    /// Whether neither a flag nor a variable says it, too.
    counts: bool,
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    server_file::read("the configuration file", path).map(|(text, _)| text).map_err(Failure::Usage)
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

/// Help needs no file.
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

/// If the word is this flag: what stands behind its `=`. No value of `serve` begins as a flag does.
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
            .map_err(|error| Failure::Usage(format!("{}, {}", path.display(), toml_lines::describe(text, &error))))?;
        let serve = serve_command();
        let entries = table.into_iter().map(|(key, value)| {
            let line = toml_lines::line(text, value.span().start);
            let wrong = |problem: String| Failure::Usage(format!("{}, line {line}: {problem}", path.display()));
            Entry::read(&serve, key, value.get_ref(), line).map_err(wrong)
        });
        let file = Self { path: path.to_owned(), entries: entries.collect::<Result<_, _>>()? };
        file.check_values()?;
        Ok(file)
    }

    /// Also of values that do not count, because a flag or a variable says something else today.
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

    /// Where the setting stands that an error is about, if it is one of this file; what to write before the error.
    pub(super) fn place(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
        let name = flag.strip_prefix("--")?.split([' ', '[', '=']).next()?;
        let line = self.entry(name)?.line;
        Some(format!("{}, line {line}: ", self.path.display()))
    }

    /// Where a setting comes from, if it is from here.
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
        if database.is_some_and(|database| database.has_password()) {
            return Err("no password belongs into this file; give it in PGPASSWORD, or the whole URL in \
                        TASKQUEUE_DATABASE"
                .to_owned());
        }
        let flags = flags(flag, &key, value).ok_or_else(|| format!("the value of {key} is {}", kind(flag)))?;
        Ok(Self { flags, variable: flag.get_env().map(OsStr::to_owned), key, line, counts: true })
    }
}

/// What is wrong with a key. Its value is not shown: it may be a secret.
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

/// The flags that say the same as the value, if it is of the right kind.
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

/// What a value may be.
fn kind(flag: &Arg) -> &'static str {
    match (flag.get_action().takes_values(), can_stand_alone(flag), is_list(flag)) {
        (false, ..) => "true or false",
        (true, true, _) => "true, false, or a text in quotes",
        (true, false, true) => "a text in quotes, or a list of them: [\"a\", \"b\"]",
        (true, false, false) => "a text in quotes, or a number",
    }
}

#[cfg(test)]
mod tests;
