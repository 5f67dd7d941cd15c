//! Variables of the environment that look like settings of this program and are none: a misspelt setting would be ignored in silence.

use std::ffi::OsString;

use taskqueue_worker::command::RUN_VARIABLES;
use taskqueue_worker::keeper::HAS_KEEPER_VARIABLE;
use taskqueue_worker::process::RUN_ID_VARIABLE;
use tracing::warn;

use crate::args;
use crate::config::VARIABLES;
use crate::failure::similar_names;

const PREFIX: &str = "TASKQUEUE_";

/// The variables that workers pass to what they start, besides [`RUN_VARIABLES`] and the settings of clients.
const OF_WORKERS: [&str; 2] = [RUN_ID_VARIABLE, HAS_KEEPER_VARIABLE];

/// Names them in the log, one line for each.
pub(crate) fn warn_of_them() {
    for (name, similar) in unknown(std::env::vars_os().map(|(name, _)| name), &known()) {
        match similar {
            Some(similar) => {
                warn!("the variable {name} is no setting of taskqueue and is ignored; do you mean {similar}?")
            }
            None => warn!("the variable {name} is no setting of taskqueue and is ignored"),
        }
    }
}

/// The variables of clients, and of the commands of workers.
fn besides_flags() -> impl Iterator<Item = &'static str> {
    VARIABLES.into_iter().chain(RUN_VARIABLES).chain(OF_WORKERS)
}

/// All that have a meaning.
fn known() -> Vec<String> {
    let mut known: Vec<String> = besides_flags().map(str::to_owned).collect();
    add_variables(&args::command_line(), &mut known);
    known
}

/// The variables of all flags.
fn add_variables(command: &clap::Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|inner| add_variables(inner, known));
}

/// Those that nobody knows, each with the one that may be meant.
fn unknown(names: impl Iterator<Item = OsString>, known: &[String]) -> Vec<(String, Option<String>)> {
    let texts = names.filter_map(|name| name.into_string().ok());
    let mut unknown: Vec<String> =
        texts.filter(|name| name.starts_with(PREFIX) && !known.iter().any(|other| other == name)).collect();
    unknown.sort();
    let known: Vec<&str> = known.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    let meant = |name: &str| similar_names(&name[PREFIX.len()..], &known).first().map(|word| format!("{PREFIX}{word}"));
    unknown.into_iter().map(|name| (name.clone(), meant(&name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_no_flag_and_no_command_knows_is_found_with_the_one_that_may_be_meant() {
        let names = ["TASKQUEUE_LISTEN", "TASKQUEUE_TOKEN", "TASKQUEUE_LISTENS", "PATH", "TASKQUEUE_XYZ", "TASKQUEUE"];
        let found = unknown(names.into_iter().map(Into::into), &known());
        let expected = [("TASKQUEUE_LISTENS", Some("TASKQUEUE_LISTEN")), ("TASKQUEUE_XYZ", None)];
        assert_eq!(found, expected.map(|(name, meant)| (name.to_owned(), meant.map(str::to_owned))));
    }

    #[test]
    fn settings_of_clients_and_what_commands_are_given_are_known() {
        assert!(unknown(besides_flags().map(Into::into), &known()).is_empty());
        assert!(besides_flags().all(|name| name.starts_with(PREFIX)));
    }
}
