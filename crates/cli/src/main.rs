//! The binary `taskqueue`: reads the command line, does what it says, and is the only place that knows exit codes.

mod args;
mod commands;
mod failure;
mod logging;
mod open_files;
mod open_store;
mod output;
mod token;

use std::process::ExitCode;

use self::args::Parsed;
use self::failure::Failure;

/// Serving allocates and frees small pieces on several threads, which this does faster and in less memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = args::parse(std::env::args_os()).and_then(|parsed| match parsed {
        Parsed::Command(command) => commands::run(command),
        Parsed::Text(text) => {
            output::data(&text);
            Ok(())
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(failure.message());
            ExitCode::from(exit_code(&failure))
        }
    }
}

/// 2: the command line is wrong. 1: it is right, but what it asks for was refused.
fn exit_code(failure: &Failure) -> u8 {
    match failure {
        Failure::Usage(_) => 2,
        Failure::Refused(_) => 1,
    }
}
