//! `taskqueue-bench`: puts load on the server, compares it with a server that does nothing, and judges. An instrument, never a part
//! of the product. A library for the sake of one test of the binary, which sends the same requests (`shapes`).

mod another_client;
mod answer_parser;
mod args;
mod backlog;
mod bare_http_server;
mod batch_answer;
mod batch_request;
mod bulk_cancel;
mod claim_turns;
mod client;
mod compare;
mod cost;
mod dashboard;
mod dependents;
mod disk;
mod double_claim_check;
mod encryption;
mod failure;
mod fill;
mod goals;
mod history;
mod latencies;
mod load;
mod measure;
mod measurement;
mod numbered_ids;
mod open_loop;
mod operation;
mod output;
mod peers;
mod perf;
mod pickup;
mod plots;
mod postgres;
mod process;
mod report;
mod request;
mod results;
mod run_output;
mod scrape;
pub mod shapes;
mod submit;
mod table;
mod tls_cost;
mod usage;
mod wait;
mod waiting_tasks;
mod worker_command;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use self::args::{Command, CommandLine, Output};
use self::failure::Result;
use self::results::Results;

/// What the command line asks for.
pub fn run() -> ExitCode {
    let CommandLine { command, output, plots } = CommandLine::parse();
    let plots = plots.as_deref();
    let result = match command {
        Command::Reference => bare_http_server::run().map(|()| true),
        Command::Run(args) => show(measure::run(&args, plots), output),
        Command::Backlog(args) => show(backlog::run(&args, plots), output),
        Command::Postgres(args) => show(postgres::run(&args), output),
        Command::Wait(args) => show(wait::run(&args), output),
        Command::Work(args) => show(worker_command::run(&args), output),
        Command::Cost(args) => show(cost::run(&args, plots), output),
        Command::Bulk(args) => show(bulk_cancel::run(&args), output),
        Command::Submit(args) => show(submit::run(&args), output),
        Command::History(args) => show(history::run(&args), output),
        Command::RunOutput(args) => show(run_output::run(&args), output),
        Command::Dashboard(args) => show(dashboard::run(&args), output),
        Command::Scrape(args) => show(scrape::run(&args), output),
        Command::Compare(args) => show(compare::run(&args), output),
        Command::Tls(args) => show(tls_cost::run(&args), output),
        Command::Waiting(args) => show(waiting_tasks::run(&args), output),
        Command::Dependents(args) => show(dependents::run(&args), output),
        Command::Shapes(args) => show(shapes::run(&args), output),
        Command::Peers(args) => show(peers::run(&args), output),
    };
    match result {
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
fn show(measurement: impl Future<Output = Result<Results>>, output: Output) -> Result<bool> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(LocalSet::new().block_on(&runtime, measurement)?.show(output))
}
