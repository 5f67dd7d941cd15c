//! The result of a run, from the end of its command: exit code 0 completes with the result file, exit code 75 releases, everything else
//! fails.

use std::ffi::OsStr;

use taskqueue_client::Failure;

use super::run_folder::RunFolder;
use super::time_limit::TimeLimit;
use crate::handler::HandlerResult;
use crate::process::{CommandEnd, Exit, StartError};
use crate::template::FillError;

/// From sysexits.h: a temporary failure.
const EX_TEMPFAIL: i32 = 75;

/// The type of the error of a run that took too long. The server uses the same word.
const TIMEOUT_KIND: &str = "ExecutionTimeout";

/// The result, and a note about it that was also added to the log. `exceeded` is the time limit that ended the run, if one did.
/// Blocks.
pub(super) fn of_end(
    end: &CommandEnd,
    folder: &RunFolder,
    exceeded: Option<TimeLimit>,
) -> (HandlerResult, Option<String>) {
    folder.mark_ended();
    if !end.was_stopped && end.status == Exit::Code(0) {
        return match folder.read_result() {
            Ok((result, note)) => {
                note.iter().for_each(|note| folder.append_to_log(note));
                (HandlerResult::Complete(result), note)
            }
            Err(failure) => (HandlerResult::Fail(failure), None),
        };
    }
    (without_success(end, exceeded), None)
}

fn without_success(end: &CommandEnd, exceeded: Option<TimeLimit>) -> HandlerResult {
    let (kind, message) = match (end.status, exceeded) {
        (_, Some(limit)) if end.was_stopped => {
            (TIMEOUT_KIND, format!("the run took longer than {limit} and was stopped"))
        }
        _ if end.was_stopped => return HandlerResult::Stopped,
        (Exit::Code(EX_TEMPFAIL), _) => return HandlerResult::Release,
        (Exit::Code(code), _) => ("ExitCode", format!("the command ended with exit code {code}")),
        (Exit::Signal(signal), _) => ("Signal", format!("the command was ended by {}", signal_name(signal))),
    };
    let traceback = (!end.tail.is_empty()).then(|| end.tail.as_str().into());
    HandlerResult::Fail(Failure { kind: kind.into(), message: message.into(), traceback })
}

pub(super) fn of_start_error(program: &OsStr, error: &StartError) -> HandlerResult {
    let program = program.to_string_lossy();
    let (kind, message) = match error {
        StartError::NotFound(_) => ("CommandNotFound", format!("{program} was not found on the worker's machine")),
        StartError::NotExecutable(_, error) => {
            ("CommandNotExecutable", format!("{program} cannot be executed on the worker's machine: {error}"))
        }
        StartError::TooLong => {
            ("CommandTooLong", "the arguments are too long for a command; read TASKQUEUE_ARGS_FILE instead".to_owned())
        }
        // Too many processes or no memory: the task can run elsewhere or later.
        StartError::Other(error) => {
            return HandlerResult::CannotRun(format!("{program} could not be started: {error}"));
        }
    };
    reject(kind, message)
}

pub(super) fn of_fill_error(error: &FillError) -> HandlerResult {
    match error {
        FillError::Missing(path) => reject("MissingArgument", format!("the command needs the argument {path}")),
        FillError::Nul(path) => {
            reject("InvalidArgument", format!("the argument {path} contains U+0000, which no command line can"))
        }
    }
}

/// Running the task again would end in the same way.
fn reject(kind: &str, message: String) -> HandlerResult {
    HandlerResult::Reject(Failure { kind: kind.into(), message: message.into(), traceback: None })
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL (out of memory?)",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}
