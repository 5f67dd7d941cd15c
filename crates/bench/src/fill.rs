//! Prepares queues: creates tasks as fast as the server takes them, and asks how many are pending.

use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use tokio::task::JoinSet;

use crate::client::{Client, QueueClient};
use crate::failure::{Failure, Result};
use crate::numbered_ids::Numbers;
use crate::operation::Operation;
use crate::{answer_parser, request};

/// Enough to keep the server busy.
const CONNECTIONS: u64 = 64;

/// Creates so many tasks; their numbers. Runs inside a `LocalSet`.
pub(crate) async fn fill(
    address: SocketAddr,
    queue: &'static str,
    count: u64,
    numbers: Rc<Numbers>,
) -> Result<Range<u64>> {
    let first = numbers.tasks_so_far();
    let end = first + count;
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS.min(count) {
        connections.spawn_local(create_until(address, queue, end, numbers.clone()));
    }
    while let Some(ended) = connections.join_next().await {
        ended.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(first..end)
}

async fn create_until(address: SocketAddr, queue: &'static str, end: u64, numbers: Rc<Numbers>) -> Result<()> {
    let mut client = QueueClient::connect(address, queue).await?;
    while numbers.tasks_so_far() < end {
        client.succeed(Operation::Create, numbers.next_task(), 0).await?;
    }
    Ok(())
}

/// Creates as many tasks as are missing until so many are pending; their numbers.
pub(crate) async fn top_up(
    address: SocketAddr,
    queue: &'static str,
    wanted: u64,
    numbers: Rc<Numbers>,
) -> Result<Range<u64>> {
    let missing = wanted.saturating_sub(pending(address, queue).await?);
    fill(address, queue, missing, numbers).await
}

/// How many tasks of a queue are pending.
pub(crate) async fn pending(address: SocketAddr, queue: &str) -> Result<u64> {
    let path = format!("/api/v2/queues/{queue}/tasks/count?status=pending");
    let mut client = Client::connect(address).await?;
    let answer = client.send(&request::get(address, &path)).await?;
    answer_parser::count(answer.body)
        .ok_or_else(|| Failure::new(format!("{queue} could not be counted: {}", answer.status)))
}
