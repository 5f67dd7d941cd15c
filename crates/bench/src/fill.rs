//! Prepares queues: creates tasks as fast as the server takes them, claims and completes them, and asks how many are pending.
//! By batches where the server has them, else one by one.

use std::ops::Range;
use std::rc::Rc;

use tokio::task::JoinSet;

use crate::batch_request::{self, BatchKind};
use crate::client::{Client, QueueClient};
use crate::encryption::Endpoint;
use crate::failure::{Failure, Result};
use crate::numbered_ids::Numbers;
use crate::operation::Operation;
use crate::{answer_parser, batch_answer, request};

/// Enough to keep the server busy, with single requests and with batches.
const CONNECTIONS: u64 = 64;
const BATCH_CONNECTIONS: u64 = 4;
/// As many items as a batch may have.
pub(crate) const BATCH: u64 = 1_000;

/// Creates so many tasks; their numbers. Runs inside a `LocalSet`.
pub(crate) async fn fill(
    endpoint: impl Into<Endpoint>,
    queue: &'static str,
    count: u64,
    numbers: Rc<Numbers>,
) -> Result<Range<u64>> {
    let (endpoint, first) = (endpoint.into(), numbers.tasks_so_far());
    let end = first + count;
    let mut connections = JoinSet::new();
    if count > 0 && has_batches(endpoint).await? {
        for _ in 0..BATCH_CONNECTIONS.min(count.div_ceil(BATCH)) {
            connections.spawn_local(create_batches_until(endpoint, queue, end, numbers.clone()));
        }
    } else {
        for _ in 0..CONNECTIONS.min(count) {
            connections.spawn_local(create_until(endpoint, queue, end, numbers.clone()));
        }
    }
    all(connections).await?;
    Ok(first..end)
}

async fn create_until(endpoint: Endpoint, queue: &'static str, end: u64, numbers: Rc<Numbers>) -> Result<()> {
    let mut client = QueueClient::connect(endpoint, queue).await?;
    while numbers.tasks_so_far() < end {
        client.succeed(Operation::Create, numbers.next_task(), 0).await?;
    }
    Ok(())
}

async fn create_batches_until(endpoint: Endpoint, queue: &'static str, end: u64, numbers: Rc<Numbers>) -> Result<()> {
    let mut client = Batches::connect(endpoint, queue).await?;
    while numbers.tasks_so_far() < end {
        let count = BATCH.min(end - numbers.tasks_so_far());
        let tasks: Vec<(u64, u64)> = (0..count).map(|_| (numbers.next_task(), 0)).collect();
        client.send(BatchKind::Create, &tasks).await?;
    }
    Ok(())
}

/// Claims and completes by batches until nothing is pending. The server must have them.
pub(crate) async fn complete_all(
    endpoint: impl Into<Endpoint>,
    queue: &'static str,
    numbers: &Rc<Numbers>,
) -> Result<()> {
    let (endpoint, mut connections) = (endpoint.into(), JoinSet::new());
    for _ in 0..BATCH_CONNECTIONS {
        connections.spawn_local(end_all(endpoint, queue, BatchKind::Complete, numbers.clone()));
    }
    all(connections).await
}

/// Creates so many tasks and lets them fail for good.
pub(crate) async fn fail(
    endpoint: impl Into<Endpoint>,
    queue: &'static str,
    count: u64,
    numbers: &Rc<Numbers>,
) -> Result<()> {
    let endpoint = endpoint.into();
    let tasks: Vec<(u64, u64)> = (0..count).map(|_| (numbers.next_task(), 0)).collect();
    Batches::connect(endpoint, queue).await?.send(BatchKind::CreateForOneAttempt, &tasks).await?;
    end_all(endpoint, queue, BatchKind::Fail, numbers.clone()).await
}

async fn end_all(endpoint: Endpoint, queue: &'static str, kind: BatchKind, numbers: Rc<Numbers>) -> Result<()> {
    let mut client = Batches::connect(endpoint, queue).await?;
    loop {
        let runs: Vec<(u64, u64)> = (0..BATCH).map(|_| (0, numbers.next_run())).collect();
        let claimed = client.send(BatchKind::Claim, &runs).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        client.send(kind, &claimed).await?;
    }
}

async fn all(mut connections: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = connections.join_next().await {
        ended.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(())
}

/// A connection for batches that must succeed, of any number of items.
struct Batches {
    client: Client,
    endpoint: Endpoint,
    queue: &'static str,
    /// What was sent last, of so many items.
    rendered: Option<(BatchKind, usize, request::Request)>,
}

impl Batches {
    async fn connect(endpoint: Endpoint, queue: &'static str) -> Result<Self> {
        Ok(Self { client: Client::connect(endpoint).await?, endpoint, queue, rendered: None })
    }

    /// Sends a batch in which nothing may be refused. The tasks and runs of a claim that found something.
    async fn send(&mut self, kind: BatchKind, items: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
        let count = items.len();
        let (address, queue) = (self.endpoint.address, self.queue);
        let kept = self.rendered.take().filter(|(of, items, _)| (*of, *items) == (kind, count));
        let (_, _, request) = self
            .rendered
            .insert(kept.unwrap_or_else(|| (kind, count, batch_request::render(kind, address, queue, count))));
        let answer = self.client.send(request.fill_all(items.iter().copied())).await?;
        let refused = |code: &str| Failure::new(format!("a batch to {queue} ({kind:?}) was answered with {code}"));
        if answer.status != 200 {
            return Err(refused(answer_parser::error_code(answer.body).unwrap_or(&answer.status.to_string())));
        }
        let (mut claimed, mut seen) = (Vec::new(), 0);
        for (item, (_, run)) in batch_answer::items(answer.body).zip(items) {
            seen += 1;
            match item.outcome {
                "created" | "done" | "none" => {}
                "claimed" => claimed.push((item.task().ok_or_else(|| refused("no task"))?, *run)),
                _ => return Err(refused(item.code())),
            }
        }
        if seen == count { Ok(claimed) } else { Err(refused("fewer items than it has")) }
    }
}

/// Whether a server knows batches. One that has no capabilities at all does not.
pub(crate) async fn has_batches(endpoint: impl Into<Endpoint>) -> Result<bool> {
    let endpoint = endpoint.into();
    let mut client = Client::connect(endpoint).await?;
    let answer = client.send(&request::get(endpoint.address, "/api/v2/capabilities")).await?;
    Ok(answer.status == 200 && String::from_utf8_lossy(answer.body).contains("\"batch\""))
}

/// Creates as many tasks as are missing until so many are pending; their numbers.
pub(crate) async fn top_up(
    endpoint: impl Into<Endpoint>,
    queue: &'static str,
    wanted: u64,
    numbers: Rc<Numbers>,
) -> Result<Range<u64>> {
    let endpoint = endpoint.into();
    let missing = wanted.saturating_sub(pending(endpoint, queue).await?);
    fill(endpoint, queue, missing, numbers).await
}

/// How many tasks of a queue are pending.
pub(crate) async fn pending(endpoint: impl Into<Endpoint>, queue: &str) -> Result<u64> {
    count(endpoint, queue, "pending").await
}

/// How many tasks of a queue have this status.
pub(crate) async fn count(endpoint: impl Into<Endpoint>, queue: &str, status: &str) -> Result<u64> {
    let endpoint = endpoint.into();
    let path = format!("/api/v2/queues/{queue}/tasks/count?status={status}");
    let mut client = Client::connect(endpoint).await?;
    let answer = client.send(&request::get(endpoint.address, &path)).await?;
    answer_parser::count(answer.body)
        .ok_or_else(|| Failure::new(format!("{queue} could not be counted: {}", answer.status)))
}
