//! The binary `taskqueue`: parses the command line, runs the command and chooses the exit code.

mod args;
mod commands;
mod config;
mod explained_reasons;
mod failure;
mod field_path;
mod files;
mod installation;
mod json_args;
mod live;
mod logging;
mod open_store;
mod output;
mod server_process;
mod server_tls;
mod token;
mod tokens_file;

use std::process::ExitCode;

use crate::args::Parsed;
use crate::failure::Failure;

/// The server allocates and frees many small objects on several threads. mimalloc is faster at that and uses less memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else, so that a supervisor process stays as small as possible.
    if let Some(code) = taskqueue_worker::run_if_supervisor() {
        return code;
    }
    let outcome = args::parse(std::env::args_os()).and_then(|parsed| match parsed {
        Parsed::Command { command, hint } => {
            if let Some(hint) = hint {
                output::note(&hint);
            }
            commands::run(*command)
        }
        Parsed::Text(text) => {
            output::text(&text);
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

/// 0: success; also when the reader of standard output closed the pipe. 1: refused or failed. 2: wrong command line or
/// configuration. 3: the server was not reached. 130: ended by Ctrl-C. A worker that a signal killed: 128 plus the signal, as in shells.
fn exit_code(failure: &Failure) -> u8 {
    match failure {
        Failure::BrokenPipe => 0,
        Failure::Refused(_) | Failure::RefusedAt { .. } | Failure::Unfinished => 1,
        Failure::Usage(_) => 2,
        Failure::Unreachable(_) => 3,
        // As shells say it of a program that Ctrl-C ended.
        Failure::Interrupted(_) => 130,
        Failure::ChildExit(code) => *code,
    }
}
