//! The calls that create planned tasks, many with one request. What becomes of all of them together stands in `create_many.rs`.

use taskqueue_client::{Client, CreateOutcome, Creation, Error, ErrorCode, QueueName, TaskId};
use taskqueue_core::fields::{TimeComparison, different_fields};
use taskqueue_core::task_view::TaskView;

use super::concurrent_calls::{ConcurrentCalls, TaskOutcome};
use super::planned_task::{Origin, PlannedTask};
use crate::failure::Failure;

/// Tasks of a batch that are compared at the same time.
const COMPARISONS_MAX: usize = 16;

/// Tasks of a batch that is too large for a proxy, created at the same time. All batches under way together have as many calls as
/// other commands.
const SINGLE_CALLS_MAX: usize = 16;

/// What became of one task.
#[derive(Debug)]
pub(super) enum Creating {
    Created,
    Existing,
    /// There is a task with the derived id, and these fields of it are different.
    Different(Vec<&'static str>),
}

/// The origin of a task, and what became of it.
pub(super) type CreateResult = (Origin, Result<Creating, Error>);

async fn create_one(client: Client, queue: QueueName, planned: PlannedTask) -> CreateResult {
    let PlannedTask { id, is_derived, creation, is_delayed, origin } = planned;
    let outcome = match client.create_task(&queue, id, &creation).await {
        Ok(answer) if answer.created => Ok(Creating::Created),
        Ok(_) => Ok(Creating::Existing),
        Err(error) if is_conflict(is_derived, &error) => compare(&client, &queue, id, &creation, is_delayed).await,
        Err(error) => Err(error),
    };
    (origin, outcome)
}

/// Creates the tasks with one request. A request that fails is the error of each of them, except where a
/// proxy finds it too large: then they are created one by one.
pub(super) async fn create_batch(
    client: Client,
    queue: QueueName,
    planned: Vec<PlannedTask>,
) -> Result<Vec<CreateResult>, Failure> {
    let (mut tasks, mut origins) = (Vec::with_capacity(planned.len()), Vec::with_capacity(planned.len()));
    for PlannedTask { id, is_derived, creation, is_delayed, origin } in planned {
        tasks.push((id, creation));
        origins.push((origin, is_derived, is_delayed));
    }
    let answer = client.create_tasks(&queue, &tasks).await;
    if answer.request_error.as_ref().is_some_and(Error::is_too_large) {
        let planned = tasks.into_iter().zip(origins).map(|((id, creation), (origin, is_derived, is_delayed))| {
            PlannedTask { id, is_derived, creation, is_delayed, origin }
        });
        return create_one_by_one(client, queue, planned).await;
    }
    let (mut results, mut conflicts) = (Vec::with_capacity(tasks.len()), ConcurrentCalls::of_at_most(COMPARISONS_MAX));
    for (at, ((outcome, (id, creation)), (origin, is_derived, is_delayed))) in
        answer.items.into_iter().zip(tasks).zip(origins).enumerate()
    {
        let result = match outcome {
            Ok(CreateOutcome::Created) => Ok(Creating::Created),
            Ok(CreateOutcome::Existing) => Ok(Creating::Existing),
            Err(error) => {
                if is_conflict(is_derived, &error) {
                    let (client, queue) = (client.clone(), queue.clone());
                    let call = async move { (at, compare(&client, &queue, id, &creation, is_delayed).await) };
                    store(&mut results, conflicts.start(call).await?);
                }
                Err(error)
            }
        };
        results.push((origin, result));
    }
    while let Some(compared) = conflicts.next().await? {
        store(&mut results, Some(compared));
    }
    Ok(results)
}

/// Creates the tasks with a request each, up to an error that all others would have, too. Results come in any order.
async fn create_one_by_one(
    client: Client,
    queue: QueueName,
    planned: impl Iterator<Item = PlannedTask>,
) -> Result<Vec<CreateResult>, Failure> {
    let (mut results, mut calls) = (Vec::new(), ConcurrentCalls::of_at_most(SINGLE_CALLS_MAX));
    for task in planned {
        let ended = calls.start(create_one(client.clone(), queue.clone(), task)).await?;
        let is_last = ended.as_ref().is_some_and(is_fatal);
        results.extend(ended);
        if is_last {
            break;
        }
    }
    while let Some(ended) = calls.next().await? {
        results.push(ended);
    }
    Ok(results)
}

fn is_fatal((_, outcome): &CreateResult) -> bool {
    let Err(error) = outcome else { return false };
    matches!(TaskOutcome::of::<()>(Err(error.clone())), TaskOutcome::Fatal(_))
}

/// Replaces a conflict by what the comparison found.
fn store(results: &mut [CreateResult], compared: Option<(usize, Result<Creating, Error>)>) {
    if let Some((at, compared)) = compared {
        results[at].1 = compared;
    }
}

fn is_conflict(is_derived: bool, error: &Error) -> bool {
    is_derived && error.code() == Some(ErrorCode::TaskIdConflict)
}

/// Compares with the task as it is now: what another definition created may have been updated to this one since.
async fn compare(
    client: &Client,
    queue: &QueueName,
    id: TaskId,
    creation: &Creation,
    is_delayed: bool,
) -> Result<Creating, Error> {
    let times = if is_delayed { TimeComparison::Presence } else { TimeComparison::Exact };
    let wanted = TaskView::planned(id, &creation.definition, creation.not_before);
    let fields = different_fields(&client.task(queue, id).await?.view(), &wanted, times);
    Ok(if fields.is_empty() { Creating::Existing } else { Creating::Different(fields) })
}
