//! The settings of `serve`: which of its flags are settings, and what counts in the end, with where it comes from.

use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::serve_file::ServeFile;
use super::{ServeArgs, command_line};
use crate::config::Setting;

/// The name of the command.
pub(super) const SERVE: &str = "serve";

/// Flags that are about one call and no settings: they have neither a variable nor a key in a file.
const OF_ONE_CALL: [&str; 3] = ["config", "check", "output"];

/// How the command is defined.
pub(super) fn serve_command() -> Command {
    command_line().find_subcommand(SERVE).cloned().unwrap_or_else(|| Command::new(SERVE))
}

/// The flags that are settings.
pub(super) fn definitions(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|flag| flag.get_long().is_some_and(|name| !OF_ONE_CALL.contains(&name)))
}

/// Every setting, in the order of the help. No secret is among the values.
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

/// The value as it was written, or the default.
fn shown(matches: &ArgMatches, id: &str) -> String {
    let values = matches.try_get_raw(id).ok().flatten();
    let values: Vec<_> = values.into_iter().flatten().map(OsStr::to_string_lossy).collect();
    if values.is_empty() { "not set".to_owned() } else { values.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
