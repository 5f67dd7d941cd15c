//! How the scenarios are measured that are not a load in turns: each prepares a server, lets something happen, and adds its figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};

use crate::bench::{Bench, On};
use crate::beside::{self, FOLLOWERS, Others, PIECE_BYTES, Printer, running_task};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::figures::{Goal, Latencies, Report, mebibytes, progress};
use crate::load::Load;
use crate::numbered_ids::task_id;
use crate::request::{self, OTHER, Operation, QUEUE, WAIT_SECONDS, tasks};
use crate::server::{Prepared, Server};
use crate::shapes::probes::{Probed, Probes, longest, p99};
use crate::usage::Usage;

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
/// Followers come in groups: what a crowd of reads leaves of memory behind has nothing to do with their waiting.
const FOLLOWERS_AT_ONCE: usize = 50;
/// Longer than the text of metrics is given again.
const SCRAPE_PAUSE: Duration = Duration::from_millis(1_050);

/// Where the figures of a scenario go.
pub(crate) struct Found<'r> {
    pub(crate) report: &'r mut Report,
    pub(crate) scenario: &'static str,
    pub(crate) goals: &'static [Goal],
}

impl Found<'_> {
    pub(crate) fn add(&mut self, name: &str, measured: f64) {
        self.report.add(self.scenario, name, measured, self.goals);
    }

    fn latencies(&mut self, name: &str, latencies: &Latencies) {
        for (what, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.add(&format!("{name}, {what} ms"), latencies.millis(share));
        }
    }

    /// Adds what others saw meanwhile.
    fn others(&mut self, probed: &Probed) {
        let millis = |taken: Duration| taken.as_secs_f64() * 1e3;
        self.add("longest creation or claim of others, ms", millis(longest(&probed.writes)));
        self.add("creations and claims of others, p99 ms", millis(p99(&probed.writes)));
        self.add("health and heartbeats of others, p99 ms", millis(p99(&probed.health).max(p99(&probed.heartbeats))));
    }
}

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
}

/// Measures what requests, memory and a start cost on servers with different piles of tasks. All are filled and started again first and then take
/// turns, so that a busy minute of the machine does not hit only one.
pub(crate) async fn piles(
    bench: &Bench,
    on: On,
    piles: &[(&str, Prepared)],
    samples: &[Sample],
    found: &mut Found<'_>,
) -> Result<()> {
    let mut servers = Vec::new();
    for (name, prepared) in piles {
        let mut server = bench.start(on).await?;
        found.add(&format!("{name}: RSS MiB before"), mebibytes(server.usage()?.rss_bytes));
        server.prepare(&bench.prepared(prepared)).await?;
        found.add(&format!("{name}: RSS MiB filled"), mebibytes(server.usage()?.rss_bytes));
        let server = server.restart().await?;
        found.add(&format!("{name}: start to healthy ms"), server.healthy_after.as_secs_f64() * 1e3);
        let (begin, mut highest) = (Instant::now(), 0);
        while begin.elapsed() < WATCHING {
            highest = highest.max(server.usage()?.rss_bytes);
            sleep(WATCHING / 100).await;
        }
        found.add(&format!("{name}: RSS MiB after the start"), mebibytes(highest));
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
            found.add(&format!("{name}: {what} p50 ms"), latencies.millis(0.5));
            found.add(&format!("{name}: {what} over the first"), latencies.millis(0.5) / first.millis(0.5));
        }
    }
    Ok(())
}

impl Sample {
    async fn take(&self, server: &Server) -> Result<Latencies> {
        let (mut client, mut requests) = (server.client().await?, server.requests(QUEUE));
        let mut latencies = Latencies::default();
        for _ in 0..self.2 {
            let (run, begin) = (server.numbers.next_run(), Instant::now());
            let answer = match self.1 {
                Ask::Claim => client.operate(&mut requests, Operation::Claim, (0, run)).await?,
                Ask::Create => {
                    client.operate(&mut requests, Operation::Create, (server.numbers.next_task(), 0)).await?
                }
                Ask::Tasks(path) => client.get(&tasks(QUEUE, path)).await?,
            };
            latencies.record(begin.elapsed());
            if let Ask::Claim = self.1 {
                let task = answer.claimed_task().ok_or_else(|| Failure::new("a claim found no task".to_owned()))?;
                client.operate(&mut requests, Operation::Unclaim, (task, run)).await?;
            }
        }
        Ok(latencies)
    }
}

/// The memory and the share of a core of a process that is left alone; both in MiB and cores.
pub(crate) async fn idle(usage: impl Fn() -> Result<Usage>) -> Result<(f64, f64)> {
    sleep(SETTLING).await;
    let (before, begin) = (usage()?, Instant::now());
    sleep(Duration::from_secs_f64(IDLE_SECONDS)).await;
    let after = usage()?;
    Ok((mebibytes(after.rss_bytes), (after.cpu_seconds - before.cpu_seconds) / begin.elapsed().as_secs_f64()))
}

/// Measures what connections cost that ask nothing, claims that wait for a task, heartbeats of running tasks that are held, and followers.
pub(crate) async fn connections(bench: &Bench, count: u64, found: &mut Found<'_>) -> Result<()> {
    let mut add = |what: &str, (rss, share): (f64, f64)| {
        found.add(&format!("{what}: RSS MiB"), rss);
        found.add(&format!("{what}: share of a core"), share);
        (rss, share)
    };
    let server = bench.start(On::Disk).await?;
    let (mut clients, mut requests) = (Vec::new(), server.requests(OTHER));
    for _ in 0..count {
        // Each has been used once.
        let mut client = server.client().await?;
        client.operate(&mut requests, Operation::Poll, (0, server.numbers.next_run())).await?;
        clients.push(client);
    }
    let connected = add("idle connections", idle(|| server.usage()).await?);
    for client in &mut clients {
        client.write(&requests.waiting(Operation::Claim, 0, server.numbers.next_run())).await?;
    }
    let waiting = add("waiting claims", idle(|| server.usage()).await?);
    all_held(&mut clients).await?;
    drop(clients);
    let mut runs = Vec::new();
    for _ in 0..count {
        let mut client = server.client().await?;
        runs.push((running_task(&server, &mut client, &server.numbers).await?, client));
    }
    let running = add("idle connections of workers with a running task each", idle(|| server.usage()).await?);
    for ((task, run), client) in &mut runs {
        client.write(&requests.waiting(Operation::Heartbeat, *task, *run)).await?;
    }
    let held = add("held heartbeats", idle(|| server.usage()).await?);
    all_held(runs.iter_mut().map(|(_, client)| client)).await?;
    drop((runs, server));
    // On a server of its own: memory that others gave back would hide what this takes.
    let server = bench.start(On::Disk).await?;
    let (printers, mut clients) = (Printer::running(&server, count, PIECE_BYTES).await?, Vec::new());
    let read = |printer: &Printer| {
        request::get(server.endpoint.address, &format!("{}?offset={}", printer.path("output"), printer.offset))
    };
    for printer in &printers {
        // Used once for the same, so that what all of them share is there already.
        let mut client = server.client().await?;
        client.send(&read(printer)).await?.succeed()?;
        clients.push(client);
    }
    let beside = add("idle connections beside tasks that have printed", idle(|| server.usage()).await?);
    for (number, (client, printer)) in clients.iter_mut().zip(&printers).enumerate() {
        client.write(&request::with_wait(&read(printer))).await?;
        if number % FOLLOWERS_AT_ONCE == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    let following = add("followers", idle(|| server.usage()).await?);
    all_held(&mut clients).await?;
    // The lease scan looks at the running tasks, held or not.
    found.add("held heartbeats: share of a core more", held.1 - running.1);
    found.add("followers: share of a core more", following.1 - beside.1);
    found.add("followers: memory over that of waiting claims", (following.0 - beside.0) / (waiting.0 - connected.0));
    Ok(())
}

/// Fails if one of the requests that are to be held is answered already.
async fn all_held<'c>(clients: impl IntoIterator<Item = &'c mut Client>) -> Result<()> {
    for client in clients {
        // Not a timer, of which the shortest is a millisecond: thousands are held for half a minute.
        tokio::select! {
            biased;
            answer = client.answer() => {
                return Err(Failure::new(format!("a request was not held, but answered {}", answer?.status)));
            }
            () = yield_now() => {}
        }
    }
    Ok(())
}

/// Measures how soon a waiting claim has a task, from the answer to its creation. On PostgreSQL the claims wait at another server.
pub(crate) async fn pickups(bench: &Bench, on: On, found: &mut Found<'_>) -> Result<()> {
    let server = bench.start(on).await?;
    let another = if on == On::Postgres { Some(server.another().await?) } else { None };
    let (sender, mut picked) = unbounded_channel();
    let mut pickers = JoinSet::new();
    for _ in 0..PICKERS {
        let at = another.as_ref().unwrap_or(&server);
        let (mut client, mut requests) = (at.client().await?, at.requests(OTHER));
        let (numbers, sender) = (server.numbers.clone(), sender.clone());
        // One waiting claim after the other; each task is completed.
        pickers.spawn_local(async move {
            loop {
                let run = numbers.next_run();
                let Ok(answer) = client.send(&requests.waiting(Operation::Claim, 0, run)).await else { return };
                let Some(task) = answer.claimed_task() else { continue };
                let sent = sender.send((task, Instant::now()));
                if sent.is_err() || client.send(requests.fill(Operation::Complete, task, run)).await.is_err() {
                    return;
                }
            }
        });
    }
    let (mut client, mut requests, mut latencies) =
        (server.client().await?, server.requests(OTHER), Latencies::default());
    for _ in 0..PICKUPS {
        let task = server.numbers.next_task();
        client.operate(&mut requests, Operation::Create, (task, 0)).await?;
        let acknowledged = Instant::now();
        match timeout(Duration::from_secs(WAIT_SECONDS), picked.recv()).await {
            // A claim may be answered before the creation is.
            Ok(Some((picked, at))) if picked == task => latencies.record(at.saturating_duration_since(acknowledged)),
            other => return Err(Failure::new(format!("task {task} was not picked up, but {other:?}"))),
        }
    }
    found.latencies("picked up", &latencies);
    Ok(())
}

/// Measures how old what runs print at one server is when those who follow at another have it.
pub(crate) async fn following(bench: &Bench, found: &mut Found<'_>) -> Result<()> {
    let server = bench.start(On::Postgres).await?;
    let another = server.another().await?;
    let printers = Printer::running(&server, FOLLOWERS as u64, PIECE_BYTES).await?;
    let others = Others::printing(printers, (server.endpoint.clone(), another.endpoint.clone()));
    others.begin().await;
    sleep(2 * WATCHING).await;
    others.pause().await?;
    others.end()?.into_iter().for_each(|(name, measured)| found.add(name, measured));
    Ok(())
}

/// Lets others work in a queue of their own until something is over; what it returns, and what they saw.
async fn beside_others<T>(server: &Server, work: impl Future<Output = Result<T>>) -> Result<(T, Probed)> {
    let (address, over) = (server.endpoint.address, Arc::new(AtomicBool::new(false)));
    let is_over = over.clone();
    let probing = spawn_blocking(move || Ok(Probes::new(address)?.measure(&is_over, &AtomicUsize::new(0))));
    let done = work.await;
    over.store(true, Ordering::Relaxed);
    let probed: Result<Probed> = probing.await?;
    Ok((done?, probed?))
}

/// Measures how fast one bulk action changes many tasks, and what others see meanwhile.
pub(crate) async fn bulk(
    bench: &Bench,
    prepared: &Prepared,
    (request, body): (&str, &str),
    found: &mut Found<'_>,
) -> Result<()> {
    let mut server = bench.start(On::Disk).await?;
    server.prepare(prepared).await?;
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let change = async {
        // The others are at work before.
        sleep(SETTLING).await;
        let (mut client, begin) = (server.client().await?, Instant::now());
        let answer = client.call(method, &tasks(QUEUE, path), body).await?;
        let changed = answer.number("changed").or_else(|| answer.number("updated"));
        match changed == Some(prepared.pending) {
            true => Ok(prepared.pending as f64 / begin.elapsed().as_secs_f64()),
            false => Err(Failure::new(answer.text().into_owned())),
        }
    };
    let (rate, probed) = beside_others(&server, change).await?;
    found.add("tasks/s", rate);
    found.others(&probed);
    Ok(())
}

/// Measures how long the completion of a task takes for which many others wait, and how soon all of them can be claimed.
pub(crate) async fn dependents(bench: &Bench, on: On, count: u64, found: &mut Found<'_>) -> Result<()> {
    let server = bench.start(on).await?;
    let (mut client, mut requests, run) = (server.client().await?, server.requests(QUEUE), server.numbers.next_run());
    let first = server.fill(1).await?.start;
    client.operate(&mut requests, Operation::Claim, (0, run)).await?;
    let waits = format!(r#","dependencies":["{}"]"#, task_id(first));
    server.create(QUEUE, count - 1, &|_| waits.clone()).await?;
    // By itself, so that it is the last one: several connections create the others.
    let last = server.create(QUEUE, 1, &|_| waits.clone()).await?.start;
    let complete = async {
        let begin = Instant::now();
        client.operate(&mut requests, Operation::Complete, (first, run)).await?;
        let completion = begin.elapsed();
        // They are settled in the order in which they were created.
        let explain = tasks(QUEUE, &format!("/{}/explain", task_id(last)));
        while !client.get(&explain).await?.text().contains(r#""claimable":true"#) {
            sleep(Duration::from_millis(10)).await;
        }
        Ok((completion, begin.elapsed()))
    };
    let ((completion, claimable), probed) = beside_others(&server, complete).await?;
    found.add("completion ms", completion.as_secs_f64() * 1e3);
    found.add("all can be claimed after s", claimable.as_secs_f64());
    found.others(&probed);
    Ok(())
}

/// Measures how long `GET /metrics` takes while somebody works: computed, and given again within a second.
pub(crate) async fn scrapes(bench: &Bench, prepared: &Prepared, count: u32, found: &mut Found<'_>) -> Result<()> {
    let mut server = bench.start(On::Disk).await?;
    server.prepare(prepared).await?;
    let (mut client, mut requests) = (server.client().await?, server.requests(OTHER));
    let mut latencies = [("computed", Latencies::default()), ("given again", Latencies::default())];
    for _ in 0..count {
        client.operate(&mut requests, Operation::Create, (server.numbers.next_task(), 0)).await?;
        sleep(SCRAPE_PAUSE).await;
        for (_, latencies) in &mut latencies {
            let begin = Instant::now();
            let answer = client.get("/metrics").await?;
            latencies.record(begin.elapsed());
            if !answer.text().contains("taskqueue_figures_up 1") {
                return Err(Failure::new("a scrape was answered without figures".to_owned()));
            }
        }
    }
    latencies.iter().for_each(|(name, latencies)| found.latencies(name, latencies));
    Ok(())
}

/// Measures how long the pages of the dashboard take, and what one costs that is left open.
pub(crate) async fn pages(bench: &Bench, prepared: &Prepared, count: u32, found: &mut Found<'_>) -> Result<()> {
    let mut server = bench.start(On::Disk).await?;
    server.prepare(prepared).await?;
    let (mut client, mut slowest) = (server.client().await?, 0.0_f64);
    let pages = beside::pages(&server);
    for page in &pages {
        let (mut latencies, mut bytes) = (Latencies::default(), 0);
        for number in 0..=count {
            let begin = Instant::now();
            bytes = client.get(page).await?.body.len();
            // The first one warms up.
            if number > 0 {
                latencies.record(begin.elapsed());
            }
        }
        slowest = slowest.max(latencies.millis(0.99));
        found.latencies(&format!("{page} ({bytes} bytes)"), &latencies);
    }
    found.add("slowest page, p99 ms", slowest);
    let (_, alone) = idle(|| server.usage()).await?;
    let viewer = Others::looking(server.endpoint.clone(), vec![format!("/ui/queues/{QUEUE}/tasks")], 1);
    viewer.begin().await;
    let (_, open) = idle(|| server.usage()).await?;
    viewer.end()?;
    found.add("open page: share of a core", (open - alone).max(0.0));
    Ok(())
}

/// Measures claims and completions without a pause, in windows: rows die all the while.
pub(crate) async fn long_run(bench: &Bench, usual: f64, found: &mut Found<'_>) -> Result<()> {
    let (server, seconds) = (bench.start(On::Postgres).await?, bench.seconds(usual));
    let load = |seconds| Load::new(&server, &[Operation::Claim, Operation::Complete], 64, seconds);
    server.top_up(20_000).await?;
    let probe = load(1.0).run().await?.without_errors()?;
    let wanted = probe.rate() / 2.0 * 1.5 * seconds;
    progress(&format!("preparing {wanted:.0} tasks"));
    server.top_up(wanted as u64).await?;
    let mut rates = Vec::new();
    for window in 1..=WINDOWS {
        let measured = load(seconds / f64::from(WINDOWS)).run().await?.without_errors()?;
        rates.push(measured.rate() / 2.0);
        found.add(&format!("pairs/s in window {window}"), measured.rate() / 2.0);
    }
    found.add("pairs in the last window over the first", rates[rates.len() - 1] / rates[0]);
    Ok(())
}
