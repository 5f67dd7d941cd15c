//! The binary `taskqueue-bench`: puts load on the server, compares it with a server that does nothing, and judges.
//! An instrument, never a part of the product.

mod args;
mod backlog;
mod client;
mod disk;
mod failure;
mod figure;
mod fill;
mod goals;
mod histogram;
mod ledger;
mod load;
mod measure;
mod number;
mod operation;
mod output;
mod pace;
mod postgres;
mod process;
mod reference;
mod report;
mod request;
mod syncs;
mod table;
mod usage;
mod wire;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use self::args::{Command, CommandLine, Output, RunArgs};
use self::failure::Outcome;
use self::goals::Judged;

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Reference => reference::run().map(|()| true),
        Command::Run(args) => run(&args),
        Command::Backlog(args) => on_one_thread(backlog::run(&args)).map(show),
        Command::Postgres(args) => on_one_thread(postgres::run(&args)).map(show),
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

/// Whether all musts were reached.
fn run(args: &RunArgs) -> Outcome<bool> {
    let figures = on_one_thread(measure::run(args))?;
    let judged = goals::judge(&figures);
    output::line(&match args.output {
        Output::Text => report::text(&figures, &judged),
        Output::Json => format!("{:#}", report::json(&figures, &judged)),
    });
    Ok(reaches_all(&judged))
}

/// Shows tables and verdicts; whether all musts were reached.
fn show((text, judged): (String, Vec<Judged>)) -> bool {
    output::line(&format!("{text}\n\n{}", report::goals(&judged)));
    reaches_all(&judged)
}

/// Whether no must is missed; names those that are.
fn reaches_all(judged: &[Judged]) -> bool {
    let missed = report::missed(judged);
    missed.iter().for_each(|line| output::progress(&format!("missed: {line}")));
    missed.is_empty()
}

fn on_one_thread<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}
