//! The binary `taskqueue-bench`: puts load on the server, compares it with a server that does nothing, and judges.
//! An instrument, never a part of the product.

mod args;
mod backlog;
mod client;
mod cost;
mod disk;
mod failure;
mod figure;
mod fill;
mod findings;
mod goals;
mod histogram;
mod ledger;
mod load;
mod measure;
mod number;
mod operation;
mod output;
mod pace;
mod peers;
mod pickup;
mod plots;
mod postgres;
mod process;
mod reference;
mod report;
mod request;
mod syncs;
mod table;
mod threads;
mod usage;
mod wait;
mod wire;
mod work;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use self::args::{Command, CommandLine, Shown};
use self::failure::Outcome;
use self::findings::Findings;

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Reference => reference::run().map(|()| true),
        Command::Run(args) => show(measure::run(&args), &args.shown),
        Command::Backlog(args) => show(backlog::run(&args), &args.shown),
        Command::Postgres(args) => show(postgres::run(&args), &args.shown),
        Command::Wait(args) => show(wait::run(&args), &args.shown),
        Command::Work(args) => show(work::run(&args), &args.shown),
        Command::Cost(args) => show(cost::run(&args), &args.shown),
        Command::Peers(args) => show(peers::run(&args), &args.shown),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            output::progress(&format!("error: {failure}"));
            // Not 1: nothing was found wanting, there is just no answer.
            ExitCode::from(2)
        }
    }
}

/// Measures on one thread and shows what was found; whether all musts were reached.
fn show(measurement: impl Future<Output = Outcome<Findings>>, shown: &Shown) -> Outcome<bool> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(LocalSet::new().block_on(&runtime, measurement)?.show(shown.output))
}
