//! What the commands of the binary do in a second: `task submit --from`, and the worker of `loop`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::Result;
use crate::bench::{Bench, On};
use crate::figures::{Found, median};
use crate::load::Load;
use crate::measures::{SETTLING, idle};
use crate::request::{self, OTHER, Operation, QUEUE};
use crate::server::{Process, scratch};

/// The program of every run of the worker, and how many it runs at the same time.
const PROGRAM: &str = "true";
const SLOTS: u32 = 8;

/// Measures how fast `task submit --from` creates the tasks of a file, against batches on a server of their own.
pub(crate) async fn submit(bench: &Bench, lines: u64, found: &mut Found<'_>) -> Result<()> {
    let folder = scratch(&bench.args.database_dir)?;
    let path = folder.path().join("tasks.jsonl");
    let mut file = BufWriter::new(File::create(&path)?);
    for number in 0..lines {
        // No two are alike.
        let args = request::args().replacen(&"x".repeat(20), &format!("{number:020}"), 1);
        writeln!(file, r#"{{"name":"bench","args":{args}}}"#)?;
    }
    file.flush()?;
    let (batches, server) = (bench.start(On::Disk).await?, bench.start(On::Disk).await?);
    let load = Load { batch: 100, ..Load::new(&batches, &[Operation::Create], 16, bench.seconds(3.0)) };
    let batch_rate = load.run().await?.without_errors()?.rate();
    drop(batches);
    let mut command = Command::new(&bench.args.binary);
    let url = format!("http://{}", server.endpoint.address);
    command.args(["task", "submit", "--url", &url, "--queue", QUEUE, "--from"]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let (begin, before) = (Instant::now(), server.usage()?);
    let status = spawn_blocking(move || command.status()).await??;
    let (seconds, usage) = (begin.elapsed().as_secs_f64(), server.usage()?.since(before));
    let created = server.count("pending").await?;
    if !status.success() || created != lines {
        return Err(format!("task submit ended with {status}, and {created} tasks are there").into());
    }
    found.add("lines/s", lines as f64 / seconds);
    found.add("tasks/s of batches", batch_rate);
    found.add("lines/s over tasks/s of batches", lines as f64 / seconds / batch_rate);
    found.add("CPU of the server for a line, us", usage.cpu_seconds * 1e6 / lines as f64);
    Ok(())
}

/// Measures how many runs of `true` a worker makes, over loops that only start and reap it; and what an idle worker costs.
pub(crate) async fn worker(bench: &Bench, runs: u32, found: &mut Found<'_>) -> Result<()> {
    let server = bench.start(On::Disk).await?;
    let folder = scratch(&bench.args.database_dir)?;
    let start = |queue: &str, more: &[&str]| -> Result<Process> {
        let mut command = Command::new(&bench.args.binary);
        command.args(["loop", "--url", &format!("http://{}", server.endpoint.address), "--queue", queue]);
        command.args(["--jobs", &SLOTS.to_string(), "--run-dir"]).arg(folder.path().join("runs"));
        Ok(Process(quiet(command.args(more).args(["--", PROGRAM])).spawn()?))
    };
    let mut over = [Vec::new(), Vec::new()];
    for _ in 0..bench.args.rounds.unwrap_or(3) {
        server.fill(runs.into()).await?;
        let loops = [bare_loops(runs, 1).await?, bare_loops(runs, SLOTS).await?];
        let begin = Instant::now();
        let mut worker = start(QUEUE, &["--max-tasks", &runs.to_string()])?;
        let ended = spawn_blocking(move || worker.0.wait()).await??;
        if !ended.success() {
            return Err(format!("the worker ended with {ended}").into());
        }
        let rate = f64::from(runs) / begin.elapsed().as_secs_f64();
        over.iter_mut().zip(loops).for_each(|(over, bare)| over.push(rate / bare));
    }
    let [over_one, over_many] = over.map(median);
    found.add("runs of true over one loop", over_one);
    found.add("runs of true over as many loops as slots", over_many);
    let keeper = start(OTHER, &[])?;
    sleep(SETTLING).await;
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", keeper.0.id()))?;
    let worker = children.split_whitespace().next().ok_or("the worker has no second process")?.parse()?;
    let ([rss, share], [keeper_rss, keeper_share]) = (idle(worker).await?, idle(keeper.0.id()).await?);
    found.add("idle worker: RSS MiB", rss);
    found.add("idle worker: RSS MiB of its keeper", keeper_rss);
    found.add("idle worker: share of a core", share + keeper_share);
    Ok(())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Starts and reaps so many processes, in so many loops at once; how many of them in a second.
async fn bare_loops(processes: u32, loops: u32) -> Result<f64> {
    let begin = Instant::now();
    let run = move || (0..processes / loops).try_for_each(|_| quiet(&mut Command::new(PROGRAM)).status().map(drop));
    let all: Vec<_> = (0..loops).map(|_| spawn_blocking(run)).collect();
    for one in all {
        one.await??;
    }
    Ok(f64::from(processes) / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bare_loop_runs_as_many_as_it_says() {
        assert!(bare_loops(4, 2).await.unwrap() > 0.0);
    }
}
