//! Variables of the environment that look like settings of this program and are none: a misspelt setting would be ignored in silence.

use std::ffi::OsString;

use tracing::warn;

use crate::args;
use crate::similar_names::similar_names;

const PREFIX: &str = "TASKQUEUE_";

/// What no flag of the command line names: settings of clients, and what commands of workers are given.
const OTHERS: [&str; 18] = [
    "TASKQUEUE_TOKEN",
    "TASKQUEUE_URL",
    "TASKQUEUE_QUEUE",
    "TASKQUEUE_TLS_PIN",
    "TASKQUEUE_TLS_CA",
    "TASKQUEUE_URL_FILE",
    "TASKQUEUE_ROUTE",
    "TASKQUEUE_TASK_ID",
    "TASKQUEUE_RUN_ID",
    "TASKQUEUE_ATTEMPT",
    "TASKQUEUE_WORKER_ID",
    "TASKQUEUE_SLOT",
    "TASKQUEUE_RUN_DIR",
    "TASKQUEUE_ARGS_FILE",
    "TASKQUEUE_RESULT_FILE",
    "TASKQUEUE_PROGRESS_FILE",
    "TASKQUEUE_TIMEOUT_SECONDS",
    "TASKQUEUE_KEPT",
];

/// Names them in the log, one line for each.
pub(crate) fn warn_of_them() {
    let command_line = args::command_line();
    let mut known = OTHERS.map(str::to_owned).to_vec();
    add_variables(&command_line, &mut known);
    for (name, similar) in unknown(std::env::vars_os().map(|(name, _)| name), &known) {
        match similar {
            Some(similar) => {
                warn!("the variable {name} is no setting of taskqueue and is ignored; do you mean {similar}?")
            }
            None => warn!("the variable {name} is no setting of taskqueue and is ignored"),
        }
    }
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
        let mut known = OTHERS.map(str::to_owned).to_vec();
        add_variables(&args::command_line(), &mut known);
        let names = ["TASKQUEUE_LISTEN", "TASKQUEUE_TOKEN", "TASKQUEUE_LISTENS", "PATH", "TASKQUEUE_XYZ", "TASKQUEUE"];
        let found = unknown(names.into_iter().map(Into::into), &known);
        let expected = [("TASKQUEUE_LISTENS", Some("TASKQUEUE_LISTEN")), ("TASKQUEUE_XYZ", None)];
        assert_eq!(found, expected.map(|(name, meant)| (name.to_owned(), meant.map(str::to_owned))));
    }
}
