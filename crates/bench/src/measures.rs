//! How the scenarios are measured that are not a load in turns: each prepares a server, lets something happen, and adds its figures.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::beside::{self, FOLLOWERS, Others, PIECE_BYTES, Printer, running_task};
use crate::figures::{Latencies, median, progress};
use crate::load::Load;
use crate::request::{self, OTHER, Operation, PAIRS, QUEUE, TASKS, WAIT_SECONDS, tasks};
use crate::server::{Bench, On, Pile, Process, Server, scratch};
use crate::shapes::probes::{Probed, Probes};
use crate::usage::{Usage, quiet};

/// How often those with different piles take turns.
const TURNS: u32 = 10;
/// For how long memory is watched after a start: a server may prepare something in the background.
const WATCHING: Duration = Duration::from_secs(10);
/// How long a process may take to become idle.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);
/// For how long an idle process is measured; claims wait for 30 seconds at most.
const IDLE_SECONDS: f64 = 10.0;
/// Waiting claims of which one picks each task up, and how many tasks.
const PICKERS: usize = 16;
const PICKUPS: u32 = 1_000;
/// Windows of a long run, of which the first is compared with the last.
const WINDOWS: u32 = 6;
/// Requests that are held come in groups: what a crowd of reads leaves of memory behind has nothing to do with their waiting.
const HELD_AT_ONCE: usize = 50;
/// Longer than the text of metrics is given again.
const SCRAPE_PAUSE: Duration = Duration::from_millis(1_050);

/// A request that is sampled so often in each turn; its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample(pub(crate) &'static str, pub(crate) Ask, pub(crate) u32);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// A claim, given back at once.
    Claim,
    Create,
    /// A read of tasks, by the rest of its address.
    Tasks(&'static str),
    /// `GET /metrics` after somebody worked, and when its last text is not given again any more.
    NewMetrics,
    Metrics,
}

/// Measures what requests, memory and a start cost on servers with different piles of tasks. All are filled and started again first and then take
/// turns, so that a busy minute of the machine does not hit only one.
pub(crate) async fn piles(bench: &mut Bench, on: On, piles: &[(&str, &[Pile])], samples: &[Sample]) -> Result<()> {
    let mut servers = Vec::new();
    for (name, prepared) in piles {
        let server = bench.start(on).await?;
        bench.add(&format!("{name}: RSS MiB before"), server.usage()?.rss_mebibytes());
        server.prepare(bench, prepared).await?;
        bench.add(&format!("{name}: RSS MiB filled"), server.usage()?.rss_mebibytes());
        let server = server.restart().await?;
        bench.add(&format!("{name}: start to healthy ms"), server.healthy_after.as_secs_f64() * 1e3);
        let (begin, mut highest) = (Instant::now(), 0.0_f64);
        while begin.elapsed() < WATCHING {
            highest = highest.max(server.usage()?.rss_mebibytes());
            sleep(WATCHING / 100).await;
        }
        bench.add(&format!("{name}: RSS MiB after the start"), highest);
        servers.push((server, vec![Latencies::default(); samples.len()]));
    }
    for turn in 0..=bench.args.rounds.unwrap_or(TURNS) {
        for (server, latencies) in &mut servers {
            for (sample, latencies) in samples.iter().zip(latencies) {
                let taken = sample.take(server).await?;
                // The first turn is the warm-up.
                if turn > 0 {
                    latencies.merge(&taken);
                }
            }
        }
    }
    for ((name, _), (_, latencies)) in piles.iter().zip(&servers) {
        for ((Sample(what, ..), latencies), first) in samples.iter().zip(latencies).zip(&servers[0].1) {
            bench.latencies(&format!("{name}: {what}"), latencies);
            bench.add(&format!("{name}: {what} over the first"), latencies.millis(0.5) / first.millis(0.5));
        }
    }
    Ok(())
}

impl Sample {
    async fn take(&self, server: &Server) -> Result<Latencies> {
        let (mut client, mut latencies) = (server.client().await?, Latencies::default());
        for _ in 0..self.2 {
            let run = server.numbers.next_run();
            if let Ask::NewMetrics = self.1 {
                client.operate(Operation::Create, OTHER, (server.numbers.next_task(), 0)).await?;
                sleep(SCRAPE_PAUSE).await;
            }
            let ask = async {
                match self.1 {
                    Ask::Claim => client.operate(Operation::Claim, QUEUE, (0, run)).await,
                    Ask::Create => client.operate(Operation::Create, QUEUE, (server.numbers.next_task(), 0)).await,
                    Ask::Tasks(path) => client.get(&tasks(QUEUE, path)).await,
                    Ask::NewMetrics | Ask::Metrics => client.get("/metrics").await,
                }
            };
            let answer = latencies.time(ask).await?;
            match self.1 {
                Ask::Claim => {
                    let task = answer.claimed_task().ok_or("a claim found no task")?;
                    client.operate(Operation::Unclaim, QUEUE, (task, run)).await?;
                }
                Ask::NewMetrics | Ask::Metrics if !answer.text().contains("taskqueue_figures_up 1") => {
                    return Err("a scrape was answered without figures".into());
                }
                _ => {}
            }
        }
        Ok(latencies)
    }
}

/// The memory in MiB and the share of a core of a process that is left alone.
pub(crate) async fn idle(pid: u32) -> Result<[f64; 2]> {
    sleep(SETTLING).await;
    let (before, begin) = (Usage::of(pid)?, Instant::now());
    sleep(Duration::from_secs_f64(IDLE_SECONDS)).await;
    let usage = Usage::of(pid)?.since(before);
    Ok([usage.rss_mebibytes(), usage.cpu_seconds / begin.elapsed().as_secs_f64()])
}

/// Measures a server with as many connections as there are requests, of which each has sent its own once, and then with these requests
/// held; each time memory and the share of a core.
async fn hold(bench: &mut Bench, server: &Server, requests: &[Vec<u8>], names: [&str; 2]) -> Result<[[f64; 2]; 2]> {
    let mut clients = Vec::new();
    for request in requests {
        let mut client = server.client().await?;
        client.send(request).await?.succeed()?;
        clients.push(client);
    }
    let before = idle(server.pid()).await?;
    for (number, (client, request)) in clients.iter_mut().zip(requests).enumerate() {
        client.write(&request::with_wait(request)).await?;
        if number % HELD_AT_ONCE == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    let held = idle(server.pid()).await?;
    for client in &mut clients {
        // Not a timer, of which the shortest is a millisecond: thousands are held for half a minute.
        tokio::select! {
            biased;
            answer = client.answer() => return Err(format!("{}: one was answered {}", names[1], answer?.status).into()),
            () = yield_now() => {}
        }
    }
    for (name, [rss, share]) in names.into_iter().zip([before, held]) {
        bench.add(&format!("{name}: RSS MiB"), rss);
        bench.add(&format!("{name}: share of a core"), share);
    }
    Ok([before, held])
}

/// Measures what connections cost that ask nothing, claims that wait for a task, heartbeats of running tasks that are held, and followers.
pub(crate) async fn connections(bench: &mut Bench, count: u64) -> Result<()> {
    let server = bench.start(On::Disk).await?;
    let (address, numbers) = (server.endpoint.address, &server.numbers);
    let claim = |_| Operation::Claim.request(address, OTHER, (0, numbers.next_run()));
    let claims: Vec<Vec<u8>> = (0..count).map(claim).collect();
    let [connected, waiting] = hold(bench, &server, &claims, ["idle connections", "waiting claims"]).await?;
    let (mut client, mut heartbeats) = (server.client().await?, Vec::new());
    for _ in 0..count {
        let ids = running_task(&server, &mut client).await?;
        heartbeats.push(Operation::Heartbeat.request(address, OTHER, ids));
    }
    let names = ["idle connections of workers with a running task each", "held heartbeats"];
    let [running, held] = hold(bench, &server, &heartbeats, names).await?;
    drop(server);
    // On a server of its own: memory that others gave back would hide what this takes.
    let server = bench.start(On::Disk).await?;
    let read = |printer: &Printer| {
        let path = format!("{}?offset={}", printer.path("output"), printer.offset);
        request::with_body("GET", server.endpoint.address, &path, "")
    };
    let reads: Vec<Vec<u8>> = Printer::running(&server, count, PIECE_BYTES).await?.iter().map(read).collect();
    let names = ["idle connections beside tasks that have printed", "followers"];
    let [beside, following] = hold(bench, &server, &reads, names).await?;
    // The lease scan looks at the running tasks, held or not.
    bench.add("held heartbeats: share of a core more", held[1] - running[1]);
    bench.add("followers: share of a core more", following[1] - beside[1]);
    bench
        .add("followers: memory over that of waiting claims", (following[0] - beside[0]) / (waiting[0] - connected[0]));
    Ok(())
}

/// Measures how soon a waiting claim has a task, from the answer to its creation. On PostgreSQL the claims wait at another server.
pub(crate) async fn pickups(bench: &mut Bench, on: On) -> Result<()> {
    let server = bench.start(on).await?;
    let another = if on == On::Postgres { Some(server.another().await?) } else { None };
    let (sender, mut picked) = unbounded_channel();
    let mut pickers: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..PICKERS {
        let at = another.as_ref().unwrap_or(&server);
        let (address, mut client) = (at.endpoint.address, at.client().await?);
        let (numbers, sender) = (server.numbers.clone(), sender.clone());
        // One waiting claim after the other; each task is completed.
        pickers.spawn_local(async move {
            loop {
                let run = numbers.next_run();
                let claim = request::with_wait(&Operation::Claim.request(address, OTHER, (0, run)));
                let Some(task) = client.send(&claim).await?.claimed_task() else { continue };
                sender.send((task, Instant::now()))?;
                client.operate(Operation::Complete, OTHER, (task, run)).await?;
            }
        });
    }
    let (mut client, mut latencies) = (server.client().await?, Latencies::default());
    for _ in 0..PICKUPS {
        let task = server.numbers.next_task();
        client.operate(Operation::Create, OTHER, (task, 0)).await?;
        let acknowledged = Instant::now();
        match timeout(Duration::from_secs(WAIT_SECONDS), picked.recv()).await {
            // A claim may be answered before the creation is.
            Ok(Some((picked, at))) if picked == task => latencies.record(at.saturating_duration_since(acknowledged)),
            other => return Err(format!("task {task} was not picked up, but {other:?}").into()),
        }
    }
    bench.latencies("picked up", &latencies);
    Ok(())
}

/// Measures how old what runs print at one server is when those who follow at another have it.
pub(crate) async fn following(bench: &mut Bench) -> Result<()> {
    let server = bench.start(On::Postgres).await?;
    let another = server.another().await?;
    let printers = Printer::running(&server, FOLLOWERS as u64, PIECE_BYTES).await?;
    let mut others = Others::printing(printers, &server.endpoint, &another.endpoint);
    others.begin().await;
    sleep(2 * WATCHING).await;
    others.pause().await?;
    others.figures().into_iter().for_each(|(name, measured)| bench.add(name, measured));
    Ok(())
}

/// Lets others work in a queue of their own until something is over, adds what they saw, and returns what that returns.
async fn beside_others<T>(bench: &mut Bench, server: &Server, work: impl Future<Output = Result<T>>) -> Result<T> {
    let address = server.endpoint.address;
    spawn_blocking(move || Probes::prepare(address)).await??;
    let probes = Probes::start(address);
    let done = work.await;
    let Probed { health, heartbeats, writes, .. } = probes.end();
    bench.add("longest creation or claim of others, ms", writes.millis(1.0));
    bench.add("creations and claims of others, p99 ms", writes.millis(0.99));
    bench.add("health and heartbeats of others, p99 ms", health.millis(0.99).max(heartbeats.millis(0.99)));
    done
}

/// Measures how fast one bulk action changes many tasks, and what others see meanwhile.
pub(crate) async fn bulk(bench: &mut Bench, request: &str, body: &str) -> Result<()> {
    let server = bench.prepared(On::Disk).await?;
    let pending = server.count("pending").await?;
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let change = async {
        // The others are at work before.
        sleep(SETTLING).await;
        let (mut client, begin) = (server.client().await?, Instant::now());
        let answer = client.call(method, &tasks(QUEUE, path), body).await?;
        let (body, seconds) = (answer.json(), begin.elapsed().as_secs_f64());
        match body["changed"].as_u64().or_else(|| body["updated"].as_u64()) {
            Some(changed) if changed == pending => Ok(pending as f64 / seconds),
            _ => Err(answer.excerpt().into()),
        }
    };
    let rate = beside_others(bench, &server, change).await?;
    bench.add("tasks/s", rate);
    Ok(())
}

/// Measures how long the completion of a task takes for which many others wait, and how soon all of them can be claimed.
pub(crate) async fn dependents(bench: &mut Bench, on: On, count: u64) -> Result<()> {
    let server = bench.start(on).await?;
    let (mut client, run) = (server.client().await?, server.numbers.next_run());
    let first = server.fill(1).await?.start;
    client.operate(Operation::Claim, QUEUE, (0, run)).await?;
    let waits = format!(r#","dependencies":["{}"]"#, TASKS.id(first));
    server.create(QUEUE, count - 1, &|_| waits.clone()).await?;
    // By itself, so that it is the last one: several connections create the others.
    let last = server.create(QUEUE, 1, &|_| waits.clone()).await?.start;
    let complete = async {
        let begin = Instant::now();
        client.operate(Operation::Complete, QUEUE, (first, run)).await?;
        let completion = begin.elapsed();
        // They are settled in the order in which they were created.
        let explain = tasks(QUEUE, &format!("/{}/explain", TASKS.id(last)));
        while !client.get(&explain).await?.text().contains(r#""claimable":true"#) {
            sleep(Duration::from_millis(10)).await;
        }
        Ok((completion, begin.elapsed()))
    };
    let (completion, claimable) = beside_others(bench, &server, complete).await?;
    bench.add("completion ms", completion.as_secs_f64() * 1e3);
    bench.add("all can be claimed after s", claimable.as_secs_f64());
    Ok(())
}

/// Measures how long the pages of the dashboard take, and what one costs that is left open.
pub(crate) async fn pages(bench: &mut Bench, count: u32) -> Result<()> {
    let server = bench.prepared(On::Disk).await?;
    let (mut client, mut slowest) = (server.client().await?, 0.0_f64);
    let pages = beside::pages(&server);
    for page in &pages {
        let mut latencies = Latencies::default();
        let bytes = client.get(page).await?.body().len();
        for _ in 0..count {
            latencies.time(client.get(page)).await?;
        }
        slowest = slowest.max(latencies.millis(0.99));
        bench.latencies(&format!("{page} ({bytes} bytes)"), &latencies);
    }
    bench.add("slowest page, p99 ms", slowest);
    let [_, alone] = idle(server.pid()).await?;
    let mut viewer = Others::looking(&server.endpoint, vec![format!("/ui/queues/{QUEUE}/tasks")], 1);
    viewer.begin().await;
    let [_, open] = idle(server.pid()).await?;
    drop(viewer);
    bench.add("open page: share of a core", (open - alone).max(0.0));
    Ok(())
}

/// Measures claims and completions without a pause, in windows: rows die all the while.
pub(crate) async fn long_run(bench: &mut Bench, usual: f64) -> Result<()> {
    let (server, seconds) = (bench.start(On::Postgres).await?, bench.seconds(usual));
    let load = |seconds| Load::new(&server, PAIRS, 64, seconds);
    server.top_up(20_000).await?;
    let probe = load(1.0).run().await?.without_errors()?;
    let wanted = probe.rate() / 2.0 * 1.5 * seconds;
    progress(&format!("preparing {wanted:.0} tasks"));
    server.top_up(wanted as u64).await?;
    let mut rates = Vec::new();
    for window in 1..=WINDOWS {
        let measured = load(seconds / f64::from(WINDOWS)).run().await?.without_errors()?;
        rates.push(measured.rate() / 2.0);
        bench.add(&format!("pairs/s in window {window}"), measured.rate() / 2.0);
    }
    bench.add("pairs in the last window over the first", rates[rates.len() - 1] / rates[0]);
    Ok(())
}

/// The program of every run of the worker, and how many it runs at the same time.
const PROGRAM: &str = "true";
const SLOTS: u32 = 8;

/// Measures how fast `task submit --from` creates the tasks of a file, against batches on a server of their own.
pub(crate) async fn submit(bench: &mut Bench, lines: u64) -> Result<()> {
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
    let mut load = Load::new(&batches, &[Operation::Create], 16, bench.seconds(3.0));
    load.batch = 100;
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
    bench.add("lines/s", lines as f64 / seconds);
    bench.add("tasks/s of batches", batch_rate);
    bench.add("lines/s over tasks/s of batches", lines as f64 / seconds / batch_rate);
    bench.add("CPU of the server for a line, us", usage.cpu_seconds * 1e6 / lines as f64);
    Ok(())
}

/// Measures how many runs of `true` a worker makes, over loops that only start and reap it; and what an idle worker costs.
pub(crate) async fn worker(bench: &mut Bench, runs: u32) -> Result<()> {
    let server = bench.start(On::Disk).await?;
    let (binary, folder) = (bench.args.binary.clone(), scratch(&bench.args.database_dir)?);
    let start = |queue: &str, more: &[&str]| -> Result<Process> {
        let mut command = Command::new(&binary);
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
    bench.add("runs of true over one loop", over_one);
    bench.add("runs of true over as many loops as slots", over_many);
    let keeper = start(OTHER, &[])?;
    sleep(SETTLING).await;
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", keeper.0.id()))?;
    let worker = children.split_whitespace().next().ok_or("the worker has no second process")?.parse()?;
    let ([rss, share], [keeper_rss, keeper_share]) = (idle(worker).await?, idle(keeper.0.id()).await?);
    bench.add("idle worker: RSS MiB", rss);
    bench.add("idle worker: RSS MiB of its keeper", keeper_rss);
    bench.add("idle worker: share of a core", share + keeper_share);
    Ok(())
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
