//! Tasks that wait for themselves, alone or in a circle: accepted, and never claimed (docs/decisions/0063). Found by reading, outside
//! the writer, as far as a bounded number of reads goes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::iter::successors;
use std::time::Duration;

use taskqueue_core::explain::{Explanation, Reason};
use taskqueue_core::{QueueName, Status, TaskId};
use tokio::time::timeout;

use crate::StoreResult;
use crate::related::Related;
use crate::store::Store;

/// Tasks whose dependents are read at most, and how many of each. A larger circle is not found.
const LOOKED_AT: usize = 100;
const DEPENDENTS: u16 = 100;
/// How long it may take where somebody waits for another answer.
pub const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The circle that a pending task is in, which names these dependencies: the task that it waits for, the one that this waits for,
/// and so on; the last one waits for the task. Empty if it waits for itself alone. Nothing if none is found, or it cannot be
/// looked up.
///
/// Most tasks are created before anybody waits for them: for these it is one read that finds nothing.
pub async fn find_cycle(
    store: &dyn Store,
    queue: &QueueName,
    id: TaskId,
    dependencies: impl IntoIterator<Item = &TaskId>,
    time_limit: Duration,
) -> Option<Vec<TaskId>> {
    if dependencies.into_iter().any(|dependency| *dependency == id) {
        return Some(Vec::new());
    }
    timeout(time_limit, search(store, queue, id)).await.ok()?.ok()?
}

async fn search(store: &dyn Store, queue: &QueueName, id: TaskId) -> StoreResult<Option<Vec<TaskId>>> {
    // What each of them waits for.
    let (mut waits_for, mut next) = (HashMap::new(), VecDeque::from([id]));
    while let Some(dependency) = next.pop_front() {
        let related = Related { id: dependency, dependencies: Vec::new(), most_dependents: DEPENDENTS };
        let dependents = store.related_tasks(queue, related).await?.dependents;
        for waiting in dependents.into_iter().filter(|task| task.status == Status::Pending) {
            if waiting.id == id {
                let circle = successors(Some(dependency), |task| waits_for.get(task).copied());
                return Ok(Some(circle.take_while(|task| *task != id).collect()));
            }
            let has_room = waits_for.len() < LOOKED_AT - 1;
            if let Entry::Vacant(unseen) = waits_for.entry(waiting.id)
                && has_room
            {
                unseen.insert(dependency);
                next.push_back(waiting.id);
            }
        }
    }
    Ok(None)
}

/// Why a task is not claimed yet. What the store says is of one moment; whether it waits for itself is looked up behind it.
pub async fn explain(
    store: &dyn Store,
    queue: &QueueName,
    id: TaskId,
    time_limit: Duration,
) -> StoreResult<Explanation> {
    let mut explanation = store.explain(queue, id).await?;
    let blocked = explanation.reasons.iter().enumerate().find_map(|(place, reason)| match reason {
        Reason::Dependencies { unmet } => Some((place, unmet)),
        _ => None,
    });
    if let Some((place, unmet)) = blocked
        && let Some(tasks) =
            find_cycle(store, queue, id, unmet.iter().map(|(dependency, _)| dependency), time_limit).await
    {
        explanation.reasons.insert(place, Reason::DependencyCycle { tasks });
    }
    Ok(explanation)
}
