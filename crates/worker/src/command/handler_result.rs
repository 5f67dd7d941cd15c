//! From the end of a child to the outcome of its run: exit 0 with its result, exit 75 back to the queue, everything else a
//! failure whose type says what happened.

use std::ffi::OsStr;

use taskqueue_client::Failure;

use super::run_folder::RunFolder;
use crate::handler::Outcome;
use crate::process::{Ended, Exit, StartError};
use crate::template::FillError;

/// EX_TEMPFAIL of sysexits: not now, and not the task's fault.
const TRY_AGAIN_LATER: i32 = 75;

/// The outcome of a child that ran.
pub(super) fn of(ended: &Ended, folder: &RunFolder) -> Outcome {
    if ended.stopped {
        return Outcome::Stopped;
    }
    let (kind, message) = match ended.status {
        Exit::Code(0) => {
            return match folder.read_result() {
                Ok(result) => Outcome::Complete(result),
                Err(failure) => Outcome::Fail(failure),
            };
        }
        Exit::Code(TRY_AGAIN_LATER) => return Outcome::Release,
        Exit::Code(code) => ("ExitCode", format!("the command ended with exit code {code}")),
        Exit::Signal(signal) => ("Signal", format!("the command was ended by {}", signal_name(signal))),
    };
    let traceback = (!ended.tail.is_empty()).then(|| ended.tail.as_str().into());
    Outcome::Fail(Failure { kind: kind.into(), message: message.into(), traceback })
}

/// The outcome of a command that could not be started.
pub(super) fn not_started(program: &OsStr, error: &StartError) -> Outcome {
    let program = program.to_string_lossy();
    let (kind, message) = match error {
        StartError::NotFound(_) => ("CommandNotFound", format!("{program} was not found on the worker's machine")),
        StartError::NotExecutable(_, error) => {
            ("CommandNotExecutable", format!("{program} cannot be executed on the worker's machine: {error}"))
        }
        StartError::TooLong => {
            ("CommandTooLong", "the arguments are too long for a command; read TASKQUEUE_ARGS_FILE instead".to_owned())
        }
        // Too many processes, no memory: another machine, or this one later, will do better.
        StartError::Other(error) => return Outcome::Unable(format!("{program} could not be started: {error}")),
    };
    fail(kind, message)
}

/// The outcome for a task whose args do not fill the template.
pub(super) fn unfilled(error: &FillError) -> Outcome {
    match error {
        FillError::Missing(path) => fail("MissingArgument", format!("the command needs the argument {path}")),
        FillError::Nul(path) => {
            fail("InvalidArgument", format!("the argument {path} contains U+0000, which no command line can"))
        }
    }
}

fn fail(kind: &str, message: String) -> Outcome {
    Outcome::Fail(Failure { kind: kind.into(), message: message.into(), traceback: None })
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
