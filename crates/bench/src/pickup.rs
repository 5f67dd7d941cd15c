//! How soon a waiting claim is answered once a task is there: from the answer to its creation, which one server gives, until
//! one of some waiting claims has it, which wait at the same server or at another.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::client::QueueClient;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::latencies::Latencies;
use crate::numbered_ids::Numbers;
use crate::operation::{Operation, Phase};
use crate::report::milliseconds;
use crate::{answer_parser, output};

/// Waiting claims of which one picks each task up.
const PICKERS: usize = 16;
/// How long a claim waits at most.
pub(crate) const LONGEST_SECONDS: u32 = 30;

/// Creates tasks one after the other: from the answer to the creation until a waiting claim has the task.
pub(crate) async fn pickups(
    (creating, waiting): (SocketAddr, SocketAddr),
    count: u32,
    numbers: &Rc<Numbers>,
) -> Result<Latencies> {
    let queue = Phase::Lifecycle.queue();
    output::progress(&format!("{count} tasks for {PICKERS} waiting claims"));
    let (sender, mut picked) = unbounded_channel();
    let mut pickers = JoinSet::new();
    for _ in 0..PICKERS {
        let client = QueueClient::connect(waiting, queue).await?;
        pickers.spawn_local(pick(client, numbers.clone(), sender.clone()));
    }
    let mut creator = QueueClient::connect(creating, queue).await?;
    let mut latency = Latencies::default();
    for _ in 0..count {
        let task = numbers.next_task();
        creator.succeed(Operation::Create, task, 0).await?;
        let acknowledged = Instant::now();
        let at = pickup_of(task, &mut picked).await?;
        // A claim may be answered before the creation is.
        latency.record(at.saturating_duration_since(acknowledged));
    }
    Ok(latency)
}

async fn pickup_of(task: u64, picked: &mut UnboundedReceiver<(u64, Instant)>) -> Result<Instant> {
    match tokio::time::timeout(Duration::from_secs(u64::from(LONGEST_SECONDS)), picked.recv()).await {
        Ok(Some((picked, at))) if picked == task => Ok(at),
        other => Err(Failure::new(format!("task {task} was not picked up, but {other:?}"))),
    }
}

/// One waiting claim after the other; each task is completed. Ends with the connection.
async fn pick(mut client: QueueClient, numbers: Rc<Numbers>, picked: UnboundedSender<(u64, Instant)>) {
    loop {
        let run = numbers.next_run();
        let Ok(answer) = client.claim_waiting(run, LONGEST_SECONDS).await else { return };
        let Some(task) = answer_parser::claimed_task(answer.body) else { continue };
        if picked.send((task, Instant::now())).is_err() || client.send(Operation::Complete, task, run).await.is_err() {
            return;
        }
    }
}

pub(crate) fn text(latency: &Latencies) -> String {
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| milliseconds(latency.quantile_nanos(share)));
    let (max, count) = (milliseconds(latency.max_nanos()), latency.count());
    format!(
        "picked up after the answer to its creation, ms: p50 {p50}, p90 {p90}, p99 {p99}, max {max} ({count} tasks)"
    )
}

pub(crate) fn json(latency: &Latencies) -> Value {
    json!({ "p50": latency.quantile_nanos(0.5), "p99": latency.quantile_nanos(0.99), "max": latency.max_nanos() })
}

pub(crate) fn judge(latency: &Latencies, what: &str, must: f64) -> Judged {
    Judged::at_most(18, what, latency.quantile_millis(0.99), must, must)
}
