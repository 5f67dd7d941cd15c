//! The instructions that a server runs for one request, counted by callgrind. CPU time differs by some percents from one turn to the next;
//! these differ by far less, so that a change of 2 % is seen.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::Result;
use crate::client::Client;
use crate::figures::{cell, progress};
use crate::request::{Operation, PAIRS, QUEUE};
use crate::server::{Bench, On, Server, scratch};
use crate::usage::quiet;

/// The rows: their names, and what is sent for each.
const COUNTED: [(&str, &[Operation]); 3] =
    [("claim and completion", PAIRS), ("creation", &[Operation::Create]), ("get", &[Operation::Get])];
pub(crate) const HEADING: &[&str] = &["instructions of one", "this build", "baseline", "ratio"];

/// How often it is sent: few and many times, so that the difference is free of what counting itself costs. Each is counted several times,
/// and the least of them is taken: what the server does beside it, such as upkeep, only adds to it.
const FEW: u32 = 100;
const MANY: u32 = 300;
const ROUNDS: usize = 4;
/// More than are claimed.
const TASKS: u64 = 2_000;

/// Counts them for this build and, if there is one, for the other.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    if !succeeds(Command::new("valgrind").arg("--version"))? {
        let row = ["not counted: valgrind is not installed", "-", "-", "-"].map(str::to_owned);
        bench.report.instructions.rows.push(row.into());
        return Ok(());
    }
    let ours = count(bench, On::Disk).await?;
    let theirs = match bench.args.baseline {
        Some(_) => count(bench, On::Baseline).await?,
        None => vec![f64::NAN; COUNTED.len()],
    };
    for (((name, _), ours), theirs) in COUNTED.iter().zip(ours).zip(theirs) {
        let row = vec![(*name).to_owned(), cell(0, ours), cell(0, theirs), cell(3, ours / theirs)];
        bench.report.instructions.rows.push(row);
    }
    Ok(())
}

/// The instructions of each row, on one connection to a server of this kind.
async fn count(bench: &Bench, on: On) -> Result<Vec<f64>> {
    let (folder, mut dumps) = (scratch(&bench.args.database_dir)?, 0);
    let file = folder.path().join("callgrind.out");
    let out = format!("--callgrind-out-file={}", file.display());
    progress(&format!("{on:?} under callgrind, which is some fifty times as slow"));
    let mut server =
        bench.start_under(&["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", &out], on).await?;
    // The last one is pending all the while, so every read finds the same.
    let known = server.fill(TASKS).await?.end - 1;
    let (mut client, mut counted) = (server.client().await?, Vec::new());
    for (_, cycle) in COUNTED {
        let mut least = [f64::INFINITY; 2];
        for place in (0..ROUNDS).flat_map(|_| 0..2) {
            control(&server, "--instr=on")?;
            send(&server, &mut client, cycle, [FEW, MANY][place], known).await?;
            control(&server, "--instr=off")?;
            // What was counted goes into the next file, and counting begins at zero again.
            control(&server, "--dump")?;
            dumps += 1;
            least[place] = least[place].min(total(&file.with_extension(format!("out.{dumps}")))?);
        }
        counted.push((least[1] - least[0]) / f64::from(MANY - FEW));
    }
    // It removes the pipes by which it is controlled.
    server.stop()?;
    Ok(counted)
}

/// Sends the requests of a row so many times, one after the other.
async fn send(server: &Server, client: &mut Client, cycle: &[Operation], times: u32, known: u64) -> Result<()> {
    for _ in 0..times {
        let run = server.numbers.next_run();
        let mut task = if *cycle == [Operation::Create] { server.numbers.next_task() } else { known };
        for operation in cycle {
            let answer = client.operate(*operation, QUEUE, (task, run)).await?;
            task = answer.claimed_task().unwrap_or(task);
        }
    }
    Ok(())
}

fn control(server: &Server, command: &str) -> Result<()> {
    match succeeds(Command::new("callgrind_control").args([command, &server.pid().to_string()]))? {
        true => Ok(()),
        false => Err(format!("callgrind_control {command} failed").into()),
    }
}

/// Runs a command in silence; returns false if it fails or is not installed.
fn succeeds(command: &mut Command) -> Result<bool> {
    match quiet(command).status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        status => Ok(status?.success()),
    }
}

/// The sum of all instructions in a file of callgrind.
fn total(file: &Path) -> Result<f64> {
    let text = fs::read_to_string(file)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
    Ok(total.ok_or_else(|| format!("{} has no totals", file.display()))?)
}
