//! `taskqueue-bench wait`: what 10,000 connections cost that ask nothing, what as many claims cost that wait for a task, as
//! many heartbeats of running tasks that are held, and as many followers that wait for output; and how soon a waiting claim is
//! answered once a task is there. A server that does not let claims wait says so.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::args::WaitArgs;
use crate::client::{Client, QueueClient};
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::process::{Server, scratch};
use crate::report::mebibytes;
use crate::request::Requests;
use crate::results::Results;
use crate::usage::Usage;
use crate::{answer_parser, output, pickup, run_output};

/// How long the server may take to become idle.
const SETTLING: Duration = Duration::from_secs(1);

/// Followers come in groups: what a crowd of reads leaves of memory behind has nothing to do with their waiting.
const FOLLOWERS_AT_ONCE: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);
/// What each task has printed that is followed.
const PRINTED_BYTES: usize = 1_024;

/// What so many connections cost.
struct Idle {
    rss_bytes: u64,
    core_share: f64,
}

pub(crate) async fn run(args: &WaitArgs) -> Result<Results> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    let numbers: Rc<Numbers> = Rc::default();
    output::progress(&format!("{} connections", args.connections));
    let mut clients = connect(&server, args.connections, &numbers).await?;
    let idle = idle(&server, args.seconds).await?;
    let waiting = match offers_waiting(&server, &numbers).await? {
        false => None,
        true => {
            output::progress(&format!("{} waiting claims", args.connections));
            let mut requests = Requests::new(server.address, Phase::Poll.queue());
            for client in &mut clients {
                client.write(&requests.waiting_claim(numbers.next_run(), pickup::LONGEST_SECONDS)).await?;
            }
            Some(self::idle(&server, args.seconds).await?)
        }
    };
    drop(clients);
    let mut waits = Waits { waiting, ..Waits::default() };
    if waits.waiting.is_some() {
        waits.held = Some(held_heartbeats(&server, args, &numbers).await?);
        waits.pickup = Some(pickup::pickups((server.address, server.address), args.pickups, &numbers).await?);
        drop(server);
        waits.following = following(args, &numbers).await?;
    }
    Ok(results(args, &idle, &waits))
}

/// What was found on a server that lets others wait.
#[derive(Default)]
struct Waits {
    waiting: Option<Idle>,
    held: Option<Held>,
    /// Nothing if the server keeps no output.
    following: Option<Following>,
    pickup: Option<Latencies>,
}

/// Connections, each of which has been used once.
async fn connect(server: &Server, count: u16, numbers: &Numbers) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(usize::from(count));
    let mut requests = Requests::new(server.address, Phase::Poll.queue());
    for _ in 0..count {
        let mut client = Client::connect(server.address).await?;
        let answer = client.send(requests.of(Operation::Poll).fill(0, numbers.next_run())).await?;
        if answer.status != 204 {
            return Err(Failure::new(format!("a claim on an empty queue was answered with {}", answer.status)));
        }
        clients.push(client);
    }
    Ok(clients)
}

/// What so many running tasks cost whose workers ask nothing, and what it costs when their heartbeats are held.
struct Held {
    running: Idle,
    held: Idle,
}

async fn held_heartbeats(server: &Server, args: &WaitArgs, numbers: &Numbers) -> Result<Held> {
    output::progress(&format!("{} held heartbeats", args.connections));
    let mut requests = Requests::new(server.address, Phase::ClaimComplete.queue());
    let mut runs = Vec::with_capacity(usize::from(args.connections));
    for _ in 0..args.connections {
        let (task, run, mut client) = (numbers.next_task(), numbers.next_run(), Client::connect(server.address).await?);
        for operation in [Operation::Create, Operation::Claim] {
            let answer = client.send(requests.of(operation).fill(task, run)).await?;
            if !operation.expects(answer.status) {
                return Err(Failure::new(format!("{operation:?} was answered with {}", answer.status)));
            }
        }
        runs.push((task, run, client));
    }
    let running = idle(server, args.seconds).await?;
    for (task, run, client) in &mut runs {
        client.write(&requests.held_heartbeat(*task, *run, pickup::LONGEST_SECONDS)).await?;
    }
    Ok(Held { running, held: idle(server, args.seconds).await? })
}

/// What so many idle connections cost beside as many running tasks that have printed, and what it costs when each waits for
/// the next output of one of them.
struct Following {
    connected: Idle,
    following: Idle,
}

/// On a server of its own, as the first claims that wait have it: memory that others gave back would hide what this takes.
async fn following(args: &WaitArgs, numbers: &Numbers) -> Result<Option<Following>> {
    let scratch = scratch(&args.server.database_dir)?;
    let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
    if !run_output::missing_features(&server).await?.is_empty() {
        return Ok(None);
    }
    output::progress(&format!("{} followers", args.connections));
    let printers = run_output::running_tasks(&server, usize::from(args.connections), PRINTED_BYTES, numbers).await?;
    let mut clients = Vec::with_capacity(printers.len());
    for printer in &printers {
        // Used once for the same, so that what all of them share is there already.
        let mut client = Client::connect(server.address).await?;
        let status = client.send(&printer.read(server.address)).await?.status;
        if status != 200 {
            return Err(Failure::new(format!("output was answered with {status}")));
        }
        clients.push(client);
    }
    let connected = idle(&server, args.seconds).await?;
    for (count, (client, printer)) in clients.iter_mut().zip(&printers).enumerate() {
        client.write(&printer.follow(server.address, pickup::LONGEST_SECONDS)).await?;
        if count % FOLLOWERS_AT_ONCE == 0 {
            sleep(PAUSE).await;
        }
    }
    let following = idle(&server, args.seconds).await?;
    Ok(Some(Following { connected, following }))
}

async fn idle(server: &Server, seconds: f64) -> Result<Idle> {
    sleep(SETTLING).await;
    let (before, begin) = (Usage::of(server.pid())?, Instant::now());
    sleep(Duration::from_secs_f64(seconds)).await;
    let after = Usage::of(server.pid())?;
    let core_share = (after.cpu_seconds - before.cpu_seconds) / begin.elapsed().as_secs_f64();
    Ok(Idle { rss_bytes: after.rss_bytes, core_share })
}

/// Whether the server says that it lets a claim wait.
async fn offers_waiting(server: &Server, numbers: &Numbers) -> Result<bool> {
    let mut client = QueueClient::connect(server.address, Phase::Poll.queue()).await?;
    let answer = client.claim_waiting(numbers.next_run(), 1).await?;
    Ok(answer_parser::header(answer.head, b"preference-applied:").is_some_and(|applied| applied.starts_with(b"wait=")))
}

fn results(args: &WaitArgs, idle: &Idle, waits: &Waits) -> Results {
    let Waits { waiting, held, following, pickup } = waits;
    let line = |what: &str, of: &Idle| {
        let (rss, share) = (mebibytes(of.rss_bytes), of.core_share * 100.0);
        format!("{} {what}: RSS {rss:.0} MiB, {share:.2} % of one core", args.connections)
    };
    let mut text = vec![line("idle connections", idle)];
    text.push(match waiting {
        Some(waiting) => line("waiting claims", waiting),
        None => "the server does not offer waiting: its answer has no header preference-applied".to_owned(),
    });
    if let Some(Held { running, held }) = held {
        text.push(line("idle connections of workers with a running task each", running));
        text.push(line("held heartbeats of these tasks", held));
    }
    if let Some(Following { connected, following: waiting_for_output }) = following {
        text.push(line("idle connections beside running tasks that have printed", connected));
        text.push(line("followers of these tasks", waiting_for_output));
        let each = |of: f64| of * 1024.0 / f64::from(args.connections);
        let claims = waiting.as_ref().map_or(f64::NAN, |waiting| each(grown(idle, waiting)));
        let followers = each(grown(connected, waiting_for_output));
        text.push(format!(
            "memory beyond an idle connection, KiB: {claims:.1} a waiting claim, {followers:.1} a follower"
        ));
    }
    text.extend(pickup.as_ref().map(pickup::text));
    let costs = |of: &Idle| json!({ "rss_bytes": of.rss_bytes, "core_share": of.core_share });
    let figures = json!({
        "connections": args.connections,
        "idle": costs(idle),
        "waiting": waiting.as_ref().map(costs),
        "running": held.as_ref().map(|held| costs(&held.running)),
        "held": held.as_ref().map(|held| costs(&held.held)),
        "connected": following.as_ref().map(|of| costs(&of.connected)),
        "following": following.as_ref().map(|of| costs(&of.following)),
        "pickup_nanoseconds": pickup.as_ref().map(pickup::json),
    });
    // There are goals for 10,000 only.
    let judged = if args.connections == 10_000 { judge(idle, waits) } else { Vec::new() };
    Results { text: text.join("\n"), figures, judged }
}

/// What was added to the memory, in MiB.
fn grown(before: &Idle, after: &Idle) -> f64 {
    mebibytes(after.rss_bytes) - mebibytes(before.rss_bytes)
}

fn judge(idle: &Idle, waits: &Waits) -> Vec<Judged> {
    let Waits { waiting, held, following, pickup } = waits;
    let mebibytes = |of: &Idle| mebibytes(of.rss_bytes);
    let mut judged = vec![Judged::at_most(15, "RSS with 10,000 connections, MiB", mebibytes(idle), 150.0, 100.0)];
    if let Some(waiting) = waiting {
        judged.push(Judged::at_most(18, "RSS with 10,000 waiting claims, MiB", mebibytes(waiting), 150.0, 150.0));
        judged.push(Judged::at_most(18, "10,000 waiting claims, share of one core", waiting.core_share, 0.02, 0.02));
    }
    if let Some(Held { running, held }) = held {
        judged.push(Judged::at_most(18, "RSS with 10,000 held heartbeats, MiB", mebibytes(held), 150.0, 150.0));
        // The lease scan looks at the running tasks, held or not.
        let more = held.core_share - running.core_share;
        judged.push(Judged::at_most(18, "10,000 held heartbeats, share of one core", more, 0.02, 0.02));
    }
    if let (Some(waiting), Some(Following { connected, following })) = (waiting, following) {
        let over_claims = grown(connected, following) / grown(idle, waiting);
        let more = following.core_share - connected.core_share;
        judged.push(Judged::at_most(
            33,
            "memory of 10,000 followers over that of as many waiting claims",
            over_claims,
            1.25,
            1.0,
        ));
        judged.push(Judged::at_most(33, "10,000 followers more, share of one core", more, 0.02, 0.02));
    }
    judged.extend(pickup.as_ref().map(|latency| pickup::judge(latency, "picked up by a waiting claim, p99 ms", 5.0)));
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_waiting_is_judged_by_its_connections_only() {
        let idle = Idle { rss_bytes: 50 << 20, core_share: 0.0 };
        let mut latency = Latencies::default();
        latency.record(Duration::from_millis(7));
        assert_eq!(judge(&idle, &Waits::default()).len(), 1);
        let waiting = Idle { rss_bytes: 90 << 20, core_share: 0.01 };
        let running = Idle { rss_bytes: 70 << 20, core_share: 0.01 };
        let held = Held { running, held: Idle { rss_bytes: 100 << 20, core_share: 0.01 } };
        let connected = Idle { rss_bytes: 60 << 20, core_share: 0.01 };
        let following = Following { connected, following: Idle { rss_bytes: 104 << 20, core_share: 0.03 } };
        let (waiting, held, following) = (Some(waiting), Some(held), Some(following));
        let judged = judge(&idle, &Waits { waiting, held, following, pickup: Some(latency) });
        assert_eq!(judged.iter().map(|judged| judged.row).collect::<Vec<_>>(), [15, 18, 18, 18, 18, 33, 33, 18]);
        let expected = [(3, 100.0), (5, 1.1), (6, 0.02), (7, 7.0)];
        assert!(expected.iter().all(|(at, of)| (judged[*at].measured / of - 1.0).abs() < 1e-3), "{judged:?}");
    }
}
