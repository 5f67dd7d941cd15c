//! The requests of one refresh: the health, the queues, the tasks and workers of each of them, and the rows of the open
//! pane or the output of a task. Of what is not on the screen only the counts are requested, which rates need.

use std::sync::Arc;

use taskqueue_client::{Client, Error, ErrorCode, Group, GroupQuery, OrderField, QueueName, Status};
use taskqueue_client::{TaskDimension, TaskId, TaskQuery, TaskSelection, WorkerQuery, WorkerSelection};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::output_reader::OutputReader;
use super::settings_reader::SettingsReader;
use super::snapshot::{Counts, Detail, Pane, QueueCounts, Rows, Snapshot};

/// Queues that are counted in a refresh, each with up to two requests. With more queues, --queue selects some.
const QUEUES_MAX: usize = 50;
/// Concurrent requests. A view must not keep a server busy.
const CONCURRENT_REQUESTS: usize = 4;
/// Rows of a pane: more than a screen shows.
const ROWS_MAX: u16 = 100;
/// Enough for 200 routes with tasks of every status.
const GROUPS_MAX: u16 = 1000;

/// The selected queue, the open pane, and the task whose output is shown instead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) queue: Option<QueueName>,
    pub(super) pane: Pane,
    pub(super) output: Option<(QueueName, TaskId)>,
}

/// What is read a little more of with each refresh.
#[derive(Default)]
pub(super) struct Readers {
    output: OutputReader,
    settings: SettingsReader,
}

/// `only` are the queues to show; empty means all.
pub(super) async fn snapshot(
    client: Client,
    only: Vec<QueueName>,
    query: Query,
    readers: Arc<Mutex<Readers>>,
) -> Result<Snapshot, Error> {
    let mut readers = readers.lock().await;
    let known_health = readers.settings.begin();
    let reads_settings = known_health.is_some();
    let health = match known_health {
        Some(health) => health,
        None => client.health().await?,
    };
    readers.settings.note(&health);
    let mut names = if only.is_empty() {
        client.queues().await?.into_iter().map(|queue| queue.name).collect()
    } else {
        only.clone()
    };
    names.sort();
    names.dedup();
    let queues_left_out = names.len().saturating_sub(QUEUES_MAX);
    names.truncate(QUEUES_MAX);
    if reads_settings {
        readers.settings.read(&client, &names, query.queue.as_ref()).await;
    }
    let mut queues = Vec::with_capacity(names.len());
    for names in names.chunks(CONCURRENT_REQUESTS) {
        queues.extend(count(&client, names, only.is_empty()).await?);
    }
    for queue in &mut queues {
        queue.settings = readers.settings.words(&queue.name);
    }
    let selected = query.queue.filter(|queue| queues.iter().any(|counted| counted.name == *queue));
    let output = match query.output {
        Some((queue, id)) => Some(readers.output.read(&client, queue, id).await?),
        None => None,
    };
    let detail = match selected.filter(|_| output.is_none()) {
        Some(queue) => Some(detail(&client, queue, query.pane).await?),
        None => None,
    };
    Ok(Snapshot { health, version: client.server_version(), queues, queues_left_out, detail, output })
}

/// The counts of a few queues, sorted by name. Queues that were deleted meanwhile are left out if `skip_deleted`.
async fn count(client: &Client, names: &[QueueName], skip_deleted: bool) -> Result<Vec<QueueCounts>, Error> {
    let mut calls = JoinSet::<Result<QueueCounts, Error>>::new();
    for name in names.iter().cloned() {
        let client = client.clone();
        calls.spawn(async move {
            let query = GroupQuery::by([TaskDimension::Status], TaskSelection::all());
            let page = client.group_tasks(&name, &query).await?;
            let counts = Counts::of(&page.items);
            // Only the expected end of pending tasks depends on workers.
            let has_workers =
                counts.get(Status::Pending) == 0 || client.count_workers(&name, &WorkerSelection::all()).await? > 0;
            Ok(QueueCounts { name, counts, has_workers, settings: None })
        });
    }
    let mut counted = Vec::with_capacity(names.len());
    for outcome in calls.join_all().await {
        match outcome {
            Ok(counts) => counted.push(counts),
            Err(error) if skip_deleted && error.code() == Some(ErrorCode::QueueNotFound) => {}
            Err(error) => return Err(error),
        }
    }
    counted.sort_by(|a: &QueueCounts, b| a.name.cmp(&b.name));
    Ok(counted)
}

async fn detail(client: &Client, queue: QueueName, pane: Pane) -> Result<Detail, Error> {
    let with_status = |status| TaskQuery::of(TaskSelection::all().status(status)).limit(ROWS_MAX);
    let rows = match pane {
        Pane::Routes => {
            let by = [TaskDimension::Routes, TaskDimension::Status];
            let query = GroupQuery::by(by, TaskSelection::all()).limit(GROUPS_MAX);
            let groups = client.group_tasks(&queue, &query).await?.items;
            // Groups are sorted by route, so those of one route are adjacent.
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

/// The route of groups by route and status.
fn route(groups: &[Group]) -> String {
    groups.first().and_then(|group| group.key.first()).cloned().unwrap_or_default()
}
