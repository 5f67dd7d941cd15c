//! `taskqueue-bench submit`: how fast `task submit --from` creates the tasks of a file, against batches that the load program
//! sends to a server of its own, in turns (row 23 of the goals).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use serde_json::json;

use crate::args::SubmitArgs;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::load::{self, Load};
use crate::measurement::median;
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::usage::Usage;
use crate::{fill, output, request, table};

/// As batches are measured elsewhere.
const CONNECTIONS: usize = 16;

struct Round {
    lines: f64,
    /// CPU of the server for one line, in microseconds; the command's own is not seen from here.
    server_cpu_micros: f64,
    batches: f64,
}

pub(crate) async fn run(args: &SubmitArgs) -> Result<Results> {
    let folder = scratch(&args.server.database_dir)?;
    let file = folder.path().join("tasks.jsonl");
    output::progress(&format!("writing {} lines", args.lines));
    write_lines(&file, args.lines)?;
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        output::progress(&format!("round {round} of {}", args.rounds));
        let batches = batches(args).await?;
        let (lines, server_cpu_micros) = submit(args, &file).await?;
        rounds.push(Round { lines, server_cpu_micros, batches });
    }
    let of = |quantity: fn(&Round) -> f64| median(rounds.iter().map(quantity).collect());
    let (lines, batches, ratio) =
        (of(|round| round.lines), of(|round| round.batches), of(|round| round.lines / round.batches));
    let cpu = of(|round| round.server_cpu_micros);
    let row = |what: &str, rate: f64, ratio: f64| vec![what.to_owned(), format!("{rate:.0}"), format!("{ratio:.2}")];
    let rows = [
        row("batch-create, 16 connections", batches, 1.0),
        row(&format!("task submit --from, {} lines", args.lines), lines, ratio),
    ];
    let table = table::render(&["what", "tasks per second", "over batches"], &rows, 1);
    let text = format!("{table}\n\nCPU of the server for one line: {cpu:.1} us");
    let figures = json!({
        "lines": args.lines, "lines_per_second": lines, "batch_create_per_second": batches, "ratio": ratio,
        "server_cpu_microseconds_per_line": cpu,
    });
    let what = format!("task submit --from, {} lines: lines/s over tasks/s of batch-create", args.lines);
    Ok(Results { text, figures, judged: vec![Judged::at_least(23, &what, ratio, 0.5, 0.8)] })
}

/// Row 20, as `run` measures it: batches on a fresh database.
async fn batches(args: &SubmitArgs) -> Result<f64> {
    let folder = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, folder.path())?;
    let load = Load::new(&server, Phase::BatchCreate, CONNECTIONS, args.seconds);
    Ok(load::run(load, Rc::default(), Rc::default()).await?.require_no_errors()?.rate())
}

/// Lines per second from the start of the command to its end, on a fresh database, and the CPU of the server.
async fn submit(args: &SubmitArgs, file: &Path) -> Result<(f64, f64)> {
    let folder = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, folder.path())?;
    let queue = Phase::Create.queue();
    let mut command = Command::new(&args.server.binary);
    command.args(["task", "submit", "--url", &format!("http://{}", server.address), "--queue", queue, "--from"]);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let (begin, before) = (Instant::now(), Usage::of(server.pid())?);
    let status = tokio::task::spawn_blocking(move || command.status()).await;
    let status = status.map_err(|error| Failure::new(error.to_string()))??;
    let (seconds, after) = (begin.elapsed().as_secs_f64(), Usage::of(server.pid())?);
    let created = fill::pending(server.address, queue).await?;
    if !status.success() || created != args.lines {
        return Err(Failure::new(format!("task submit ended with {status}, and {created} tasks are there")));
    }
    let lines = args.lines as f64;
    Ok((lines / seconds, (after.cpu_seconds - before.cpu_seconds) * 1e6 / lines))
}

/// Lines with 200 bytes of args each, no two alike.
fn write_lines(path: &Path, count: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..count {
        writeln!(file, "{}", line(number))?;
    }
    Ok(file.flush()?)
}

fn line(number: u64) -> String {
    let args = request::args().replace('#', "0");
    let digits = format!("{number:020}");
    // Its text begins with the number instead of some of its filling.
    let args = args.replacen(&"x".repeat(digits.len()), &digits, 1);
    format!(r#"{{"name":"bench","args":{args}}}"#)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn lines_differ_and_have_args_of_200_bytes() {
        let args = |number| {
            let line: Value = serde_json::from_str(&line(number)).unwrap();
            line["args"].to_string()
        };
        assert_ne!(args(1), args(2));
        assert_eq!(args(1).len(), 200);
    }
}
