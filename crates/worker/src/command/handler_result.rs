//! The result of a run, from the end of its command: exit code 0 completes with the result file, exit code 75 releases, everything else
//! fails.

use std::ffi::OsStr;

use taskqueue_client::Failure;

use super::run_folder::RunFolder;
use crate::handler::HandlerResult;
use crate::process::{CommandEnd, Exit, StartError};
use crate::template::FillError;

/// From sysexits.h: a temporary failure.
const EX_TEMPFAIL: i32 = 75;

pub(super) fn of_end(end: &CommandEnd, folder: &RunFolder) -> HandlerResult {
    if end.was_stopped {
        return HandlerResult::Stopped;
    }
    let (kind, message) = match end.status {
        Exit::Code(0) => {
            return match folder.read_result() {
                Ok(result) => HandlerResult::Complete(result),
                Err(failure) => HandlerResult::Fail(failure),
            };
        }
        Exit::Code(EX_TEMPFAIL) => return HandlerResult::Release,
        Exit::Code(code) => ("ExitCode", format!("the command ended with exit code {code}")),
        Exit::Signal(signal) => ("Signal", format!("the command was ended by {}", signal_name(signal))),
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
    fail(kind, message)
}

pub(super) fn of_fill_error(error: &FillError) -> HandlerResult {
    match error {
        FillError::Missing(path) => fail("MissingArgument", format!("the command needs the argument {path}")),
        FillError::Nul(path) => {
            fail("InvalidArgument", format!("the argument {path} contains U+0000, which no command line can"))
        }
    }
}

fn fail(kind: &str, message: String) -> HandlerResult {
    HandlerResult::Fail(Failure { kind: kind.into(), message: message.into(), traceback: None })
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
