//! One round of requests: the health, the queues, one count for each of them, and one question about the selected one.
//! What nobody looks at is not asked for.

use taskqueue_client::{Client, Error, ErrorCode, Group, GroupQuery, OrderField, QueueName, Status};
use taskqueue_client::{TaskDimension, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use tokio::task::JoinSet;

use super::snapshot::{Counts, Detail, Pane, QueueCounts, Rows, Snapshot};

/// Queues that are counted in a round, each with a request. Whoever has more names those to look at.
const QUEUES_MAX: usize = 50;
/// Requests under way at once: a view must not be what keeps a server busy.
const AT_ONCE: usize = 4;
/// Rows of a pane: more than screens are high.
const ROWS_MAX: u16 = 100;
/// Groups by route and status in one answer: 200 routes with tasks of every status.
const GROUPS_MAX: u16 = 1000;

/// What a round asks for besides all queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) queue: Option<QueueName>,
    pub(super) pane: Pane,
}

/// Asks everything once. `only` are the queues to look at; none means all.
pub(super) async fn round(client: Client, only: Vec<QueueName>, query: Query) -> Result<Snapshot, Error> {
    let health = client.health().await?;
    let mut names = if only.is_empty() {
        client.queues().await?.into_iter().map(|queue| queue.name).collect()
    } else {
        only.clone()
    };
    names.sort();
    names.dedup();
    let queues_left_out = names.len().saturating_sub(QUEUES_MAX);
    names.truncate(QUEUES_MAX);
    let mut queues = Vec::with_capacity(names.len());
    for names in names.chunks(AT_ONCE) {
        queues.extend(count(&client, names, only.is_empty()).await?);
    }
    let selected = query.queue.filter(|queue| queues.iter().any(|counted| counted.name == *queue));
    let detail = match selected {
        Some(queue) => Some(detail(&client, queue, query.pane).await?),
        None => None,
    };
    Ok(Snapshot { health, version: client.server_version(), queues, queues_left_out, detail })
}

/// The counts of a few queues, in their order. Those that were deleted meanwhile are left out if `tolerant`.
async fn count(client: &Client, names: &[QueueName], tolerant: bool) -> Result<Vec<QueueCounts>, Error> {
    let mut calls = JoinSet::new();
    for name in names.iter().cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let query = GroupQuery::by([TaskDimension::Status], TaskSelection::all());
            let page = client.group_tasks(&name, &query).await?;
            Ok(QueueCounts { name, counts: Counts::of(&page.items) })
        });
    }
    let mut counted = Vec::with_capacity(names.len());
    for outcome in calls.join_all().await {
        match outcome {
            Ok(counts) => counted.push(counts),
            Err(error) if tolerant && is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    counted.sort_by(|a: &QueueCounts, b| a.name.cmp(&b.name));
    Ok(counted)
}

fn is_gone(error: &Error) -> bool {
    error.code() == Some(ErrorCode::QueueNotFound)
}

async fn detail(client: &Client, queue: QueueName, pane: Pane) -> Result<Detail, Error> {
    let with_status = |status| TaskQuery::of(TaskSelection::all().status(status)).limit(ROWS_MAX);
    let rows = match pane {
        Pane::Routes => {
            let by = [TaskDimension::Routes, TaskDimension::Status];
            let query = GroupQuery::by(by, TaskSelection::all()).limit(GROUPS_MAX);
            let groups = client.group_tasks(&queue, &query).await?.items;
            // Groups come sorted by route, so those of one route stand together.
            let of_route = groups.chunk_by(|a, b| a.key.first() == b.key.first());
            Rows::Routes(of_route.map(|groups| (route(groups), Counts::of(groups))).collect())
        }
        Pane::Running => {
            let query = with_status(Status::Running).ascending_by(OrderField::StartedAt);
            Rows::Running(client.tasks(&queue, &query).await?.items)
        }
        Pane::Workers => {
            let query = WorkerQuery::of(WorkerSelection::all()).limit(ROWS_MAX);
            Rows::Workers(client.workers(&queue, &query).await?.items)
        }
        Pane::Failed => {
            let query = with_status(Status::Failed).descending_by(OrderField::FinishedAt);
            Rows::Failed(client.tasks(&queue, &query).await?.items)
        }
    };
    Ok(Detail { queue, rows })
}

/// The route that groups by route and status are about.
fn route(groups: &[Group]) -> String {
    groups.first().and_then(|group| group.key.first()).cloned().unwrap_or_default()
}
