//! How the scenarios are measured that are not a load in turns: each prepares a server, lets something happen, and adds its figures.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::figures::{Latencies, median};
use crate::load::Load;
use crate::request::{self, OTHER, Operation, QUEUE, TASKS, WAIT_SECONDS, tasks};
use crate::server::{Bench, On, Process, Server, scratch};
use crate::shapes::probes::Probes;
use crate::usage::{Usage, quiet};

/// How long a process may take to become idle, and a request to be held.
const SETTLING: Duration = Duration::from_secs(2);
const HOLDING: Duration = Duration::from_millis(20);
/// For how long an idle process is measured; claims wait for 30 seconds at most.
const IDLE_SECONDS: f64 = 10.0;
/// How many tasks a waiting claim picks up.
const PICKUPS: u32 = 1_000;
/// Requests that are held come in groups: what a crowd of reads leaves of memory behind has nothing to do with their waiting.
const HELD_AT_ONCE: usize = 50;

/// The memory in MiB and the share of a core of a process that is left alone.
async fn idle(pid: u32) -> Result<[f64; 2]> {
    sleep(SETTLING).await;
    let (before, begin) = (Usage::of(pid)?, Instant::now());
    sleep(Duration::from_secs_f64(IDLE_SECONDS)).await;
    let usage = Usage::of(pid)?.since(before);
    Ok([usage.rss_mebibytes(), usage.cpu_seconds / begin.elapsed().as_secs_f64()])
}

/// Measures what so many connections cost of which each has asked once, and then claims that wait on them for a task.
pub(crate) async fn held(bench: &mut Bench, count: u64) -> Result<()> {
    let (server, count) = (bench.start(On::Disk).await?, bench.scaled(count));
    let claim = || Operation::Claim.request(server.endpoint.address, OTHER, (0, server.numbers.next_run()));
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = server.client().await?;
        client.send(&claim()).await?.succeed()?;
        clients.push(client);
    }
    let connected = idle(server.pid()).await?;
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(&request::with_wait(&claim())).await?;
        if number % HELD_AT_ONCE == 0 {
            sleep(HOLDING).await;
        }
    }
    let waiting = idle(server.pid()).await?;
    for client in &mut clients {
        // Not a timer, of which the shortest is a millisecond: thousands are held for half a minute.
        tokio::select! {
            biased;
            answer = client.answer() => return Err(format!("a waiting claim was answered {}", answer?.status).into()),
            () = yield_now() => {}
        }
    }
    for (name, [rss, share]) in [("idle connections", connected), ("waiting claims", waiting)] {
        bench.add(&format!("{name}: RSS MiB"), rss);
        bench.add(&format!("{name}: share of a core"), share);
    }
    Ok(())
}

/// Measures how soon a waiting claim has a task, from the answer to its creation. On PostgreSQL it waits at another server.
pub(crate) async fn pickups(bench: &mut Bench, on: On) -> Result<()> {
    let server = bench.start(on).await?;
    let another = if on == On::Postgres { Some(server.another().await?) } else { None };
    let at = another.as_ref().unwrap_or(&server);
    let (mut client, mut picker, mut latencies) = (server.client().await?, at.client().await?, Latencies::default());
    for _ in 0..PICKUPS {
        let (task, run) = (server.numbers.next_task(), server.numbers.next_run());
        picker.write(&request::with_wait(&Operation::Claim.request(at.endpoint.address, OTHER, (0, run)))).await?;
        sleep(HOLDING).await;
        let create = async { client.operate(Operation::Create, OTHER, (task, 0)).await.map(|_| Instant::now()) };
        let pick = timeout(Duration::from_secs(WAIT_SECONDS), async { (picker.answer().await, Instant::now()) });
        let (acknowledged, picked) = tokio::join!(create, pick);
        let (acknowledged, (answer, at)) = (acknowledged?, picked?);
        let picked = answer?.claimed_task();
        if picked != Some(task) {
            return Err(format!("task {task} was not picked up, but {picked:?}").into());
        }
        // A claim may be answered before the creation is.
        latencies.record(at.saturating_duration_since(acknowledged));
        client.operate(Operation::Complete, OTHER, (task, run)).await?;
    }
    bench.add("picked up, p50 ms", latencies.millis(0.5));
    bench.add("picked up, p99 ms", latencies.millis(0.99));
    Ok(())
}

/// Lets others work in a queue of their own until something is over, adds what they saw, and returns what that returns.
async fn beside_others<T>(bench: &mut Bench, server: &Server, work: impl Future<Output = Result<T>>) -> Result<T> {
    let address = server.endpoint.address;
    spawn_blocking(move || Probes::prepare(address)).await??;
    let probes = Probes::start(address);
    // They are at work before.
    sleep(SETTLING).await;
    let done = work.await;
    let probed = probes.end();
    bench.add("longest creation or claim of others, ms", probed.write_millis(1.0));
    bench.add("creations and claims of others, p99 ms", probed.write_millis(0.99));
    bench.add("health and heartbeats of others, p99 ms", probed.read_p99_millis());
    done
}

/// Measures how fast one bulk action changes all pending tasks, and what others see meanwhile.
pub(crate) async fn bulk(bench: &mut Bench, method: &str, path: &str, body: &str) -> Result<()> {
    let server = bench.start(On::Disk).await?;
    server.prepare(bench, bench.piles).await?;
    let (pending, mut client) = (server.count("pending").await?, server.client().await?);
    let change = async {
        let begin = Instant::now();
        let answer = client.call(method, &tasks(QUEUE, path), body).await?.json();
        match answer["changed"].as_u64().or_else(|| answer["updated"].as_u64()) {
            Some(changed) if changed == pending => Ok(pending as f64 / begin.elapsed().as_secs_f64()),
            _ => Err(answer.to_string().into()),
        }
    };
    let rate = beside_others(bench, &server, change).await?;
    bench.add("tasks/s", rate);
    Ok(())
}

/// Measures how long the completion of a task takes for which many others wait, and how soon all of them can be claimed.
pub(crate) async fn dependents(bench: &mut Bench, on: On, count: u64) -> Result<()> {
    let (server, count) = (bench.start(on).await?, bench.scaled(count));
    let (mut client, run) = (server.client().await?, server.numbers.next_run());
    let first = server.fill(1).await?.start;
    client.operate(Operation::Claim, QUEUE, (0, run)).await?;
    let mut last = 0;
    // The last one by itself: several connections create the others.
    for count in [count - 1, 1] {
        let waits = move |_| format!(r#","dependencies":["{}"]"#, TASKS.id(first));
        last = server.create(QUEUE, count, waits).await?.start;
    }
    let complete = async {
        let begin = Instant::now();
        client.operate(Operation::Complete, QUEUE, (first, run)).await?;
        let completion = begin.elapsed();
        // They are settled in the order in which they were created.
        let explain = tasks(QUEUE, &format!("/{}/explain", TASKS.id(last)));
        while !client.get(&explain).await?.text().contains(r#""claimable":true"#) {
            sleep(HOLDING / 2).await;
        }
        Ok((completion, begin.elapsed()))
    };
    let (completion, claimable) = beside_others(bench, &server, complete).await?;
    bench.add("completion ms", completion.as_secs_f64() * 1e3);
    bench.add("all can be claimed after s", claimable.as_secs_f64());
    Ok(())
}

/// Measures how fast `task submit --from` creates the tasks of a file, against batches on a server of their own.
pub(crate) async fn submit(bench: &mut Bench, lines: u64) -> Result<()> {
    let (folder, lines) = (scratch(&bench.args.database_dir)?, bench.scaled(lines));
    let path = folder.path().join("tasks.jsonl");
    let mut file = BufWriter::new(File::create(&path)?);
    for number in 0..lines {
        // No two are alike.
        let args = request::args().replacen(&"x".repeat(20), &format!("{number:020}"), 1);
        writeln!(file, r#"{{"name":"bench","args":{args}}}"#)?;
    }
    file.flush()?;
    let (batches, server) = (bench.start(On::Disk).await?, bench.start(On::Disk).await?);
    let mut load = Load::new(&batches, &[Operation::Create], 16, bench.seconds(3.0));
    load.batch = 100;
    let batch_rate = load.run().await?.rate();
    drop(batches);
    let mut command = Command::new(&bench.args.binary);
    command.args(["task", "submit", "--url", &server.url(), "--queue", QUEUE, "--from"]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let (begin, before) = (Instant::now(), server.usage()?);
    let status = spawn_blocking(move || command.status()).await??;
    let (rate, usage) = (lines as f64 / begin.elapsed().as_secs_f64(), server.usage()?.since(before));
    let created = server.count("pending").await?;
    if !status.success() || created != lines {
        return Err(format!("task submit ended with {status}, and {created} tasks are there").into());
    }
    bench.add("lines/s", rate);
    bench.add("lines/s over tasks/s of batches", rate / batch_rate);
    bench.add("CPU of the server for a line, us", usage.cpu_seconds * 1e6 / lines as f64);
    Ok(())
}

/// Measures how many runs of `true` a worker makes, over a loop that only starts and reaps it; and what an idle worker costs.
pub(crate) async fn worker(bench: &mut Bench, runs: u32) -> Result<()> {
    let server = bench.start(On::Disk).await?;
    let (binary, folder) = (bench.args.binary.clone(), scratch(&bench.args.database_dir)?);
    let start = |queue: &str, most: &str| -> Result<Process> {
        let mut command = Command::new(&binary);
        command.args(["loop", "--url", &server.url(), "--queue", queue, "--jobs", "8", "--max-tasks", most]);
        command.arg("--run-dir").arg(folder.path().join("runs")).args(["--", "true"]);
        Ok(Process(quiet(&mut command).spawn()?))
    };
    let mut over = Vec::new();
    for _ in 0..bench.args.rounds.unwrap_or(3) {
        server.fill(runs.into()).await?;
        let begin = Instant::now();
        let bare = move || (0..runs).try_for_each(|_| quiet(&mut Command::new("true")).status().map(drop));
        spawn_blocking(bare).await??;
        let (bare, begin) = (begin.elapsed(), Instant::now());
        let mut worker = start(QUEUE, &runs.to_string())?;
        let ended = spawn_blocking(move || worker.0.wait()).await??;
        if !ended.success() {
            return Err(format!("the worker ended with {ended}").into());
        }
        over.push(bare.as_secs_f64() / begin.elapsed().as_secs_f64());
    }
    bench.add("runs of true over one loop", median(over));
    let keeper = start(OTHER, "1")?;
    sleep(SETTLING).await;
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", keeper.0.id()))?;
    let worker = children.split_whitespace().next().ok_or("the worker has no second process")?.parse()?;
    let [rss, share] = idle(worker).await?;
    bench.add("idle worker: RSS MiB", rss);
    bench.add("idle worker: share of a core", share + idle(keeper.0.id()).await?[1]);
    Ok(())
}
