//! `taskqueue-bench`: puts load on the server, compares it with others, and judges. An instrument, never a part of the product. A
//! library for the sake of one test of the binary, which sends the same requests (`shapes`).
//!
//! All figures are rows of one table, `scenarios.rs`: what is prepared, what is sent, what is measured, must and aim. `taskqueue-bench
//! list` prints it. The commands run parts of it: `run` (against bare HTTP), `compare --baseline PATH` (the same rows against another
//! build), `postgres`, `peers`, `shapes`, and `scenarios` (everything else); `--only TEXT` picks rows by their names.

mod args;
mod beside;
mod client;
mod figures;
mod instructions;
mod load;
mod measures;
mod peers;
mod reference;
mod request;
mod scenarios;
mod server;
pub mod shapes;
mod turns;
mod usage;

use std::error::Error;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use self::args::{Command, CommandLine};

/// Runs those who are beside the load. Never dropped, which async code may not do.
static BESIDE: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().unwrap_or_else(|error| panic!("threads cannot be started: {error}")));

/// A measurement that could not be taken says why. A figure that misses its goal is no failure.
type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let CommandLine { command, args } = CommandLine::parse();
    let result = match command {
        Command::Reference => reference::run().map(|()| true),
        Command::List => {
            scenarios::list();
            Ok(true)
        }
        _ => block_on(scenarios::run(command, args)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            figures::progress(&format!("error: {failure}"));
            // Not 1: nothing was found wanting, there is just no answer.
            ExitCode::from(2)
        }
    }
}

/// Waits for something on this thread.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    LocalSet::new().block_on(&Builder::new_current_thread().enable_all().build()?, work)
}
