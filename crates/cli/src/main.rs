//! The binary `taskqueue`: reads the command line, does what it says, and is the only place that knows exit codes.

mod args;
mod commands;
mod config;
mod confirm;
mod explain_error;
mod failure;
mod file_limit;
mod json_args;
mod live;
mod logging;
mod open_store;
mod output;
mod progress;
mod session;
mod sweep;
mod task_ids;
mod token;

use std::process::ExitCode;

use self::args::Parsed;
use self::failure::Failure;

/// Serving allocates and frees small pieces on several threads, which this does faster and in less memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, so that a supervisor stays as small as a process can be.
    if let Some(code) = taskqueue_worker::supervise_if_started_for_it() {
        return code;
    }
    let outcome = args::parse(std::env::args_os()).and_then(|parsed| match parsed {
        Parsed::Command(command) => commands::run(*command),
        Parsed::Text(text) => {
            output::data(&text);
            Ok(())
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(exit_code(&failure))
        }
    }
}

/// 0: done, as far as anybody wanted to see it. 1: the command line is right, but what it asks for was refused or failed.
/// 2: the command line or the configuration is wrong. 3: the server was not reached.
/// A worker that was killed gives 128 and the number of the signal, as shells do.
fn exit_code(failure: &Failure) -> u8 {
    match failure {
        Failure::ReaderGone => 0,
        Failure::Refused(_) | Failure::RefusedAt { .. } | Failure::Unfinished => 1,
        Failure::Usage(_) => 2,
        Failure::Unreachable(_) => 3,
        Failure::Told(code) => *code,
    }
}
