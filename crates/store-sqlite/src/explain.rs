//! Why a task is not claimed yet. What claims depend on is in memory, the rest in the file; an explanation is of one moment of both.
//!
//! The writer is asked first: what it says is of a moment between two transactions. Then a snapshot is taken. If no commit has begun
//! in between, both are of the same moment; otherwise the writer is asked again. It never waits for a read.
//!
//! Also the tasks around a task, by the keys of their rows.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Row, params};
use taskqueue_core::explain::{Explanation, Facts, RouteFacts, explain};
use taskqueue_core::limits::{EXPLAINED_AHEAD, EXPLAINED_DEPENDENCIES};
use taskqueue_core::{QueueName, QueueSettings, Route, RunningTasks, Status, TaskHead, TaskId, Timestamp};
use taskqueue_store::related::{Related, RelatedTasks};
use taskqueue_store::{QueueKey, StoreError, StoreResult};

use crate::claim_index::ClaimIndex;
use crate::pending_order::{Rank, rank_of};
use crate::published_index::{LOOK_TIMEOUT, PublishedIndex};
use crate::queries::{Read, Snapshot, first_row};
use crate::readers::{Lane, Readers};
use crate::{rows, statements as sql};

/// The time for which the writer may be busy, and for which it is tried to see one moment of both.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Tasks whose time has come that are looked at: a millisecond. There are more only for a moment.
const MOST_DUE: usize = 50_000;

/// The claim index as it was seen: what the writer knows of a pending task.
struct SeenIndex {
    /// Commits that had begun then.
    commits: u64,
    now: Timestamp,
    settings: Option<Arc<QueueSettings>>,
    of_routes: Vec<(Route, RunningTasks, u64)>,
}

/// A task as it was found.
type FoundHead = (QueueKey, TaskHead);

pub(crate) async fn explain_task(
    readers: &Readers,
    index: &Arc<PublishedIndex>,
    queue: &QueueName,
    id: TaskId,
) -> StoreResult<Explanation> {
    let until = Instant::now() + TIME_LIMIT;
    let name = queue.clone();
    let find = move |file: &Snapshot<'_>| find_task(file, &name, id);
    let mut found = readers.read(Lane::Short, "finding a task", find).await?;
    loop {
        if found.1.lifecycle.status != Status::Pending {
            return Ok(explain(Facts::of(&found.1, index.now())));
        }
        let (name, index) = (queue.clone(), Arc::clone(index));
        let look = move |file: &Snapshot<'_>| try_to_explain(file, &index, (&name, id), found, until);
        match readers.read(Lane::Long, "explaining a task", look).await? {
            Ok(explanation) => return Ok(explanation),
            Err(_) if Instant::now() >= until => return Err(StoreError::Busy),
            Err(again) => found = again,
        }
    }
}

fn find_task(file: &Snapshot<'_>, queue: &QueueName, id: TaskId) -> Read<FoundHead> {
    let key = file.existing_queue(queue)?;
    let head = first_row(file.connection, &sql::FIND_HEAD, params![key.0, id.as_str()], rows::head)?;
    Ok((key, head.ok_or_else(|| file.no_task(queue, id))?))
}

/// The explanation, or the task as it is now if it is to be tried again.
fn try_to_explain(
    file: &Snapshot<'_>,
    index: &Arc<PublishedIndex>,
    (queue, id): (&QueueName, TaskId),
    (key, before): FoundHead,
    until: Instant,
) -> Read<Result<Explanation, FoundHead>> {
    let (rank, routes) = (rank_of(&before), before.routes.clone());
    file.release_slot();
    let (own, look_until) = (Arc::clone(index), until.min(Instant::now() + LOOK_TIMEOUT));
    // All commits that had begun are in it: a snapshot that is taken afterwards is of the same moment if no other has begun.
    let seen = index.look_until(look_until, move |index| {
        let (commits, now) = (own.commits_begun(), own.now());
        let (settings, of_routes) = (index.settings.of(key).cloned(), index.route_facts(key, rank, routes.iter(), now));
        SeenIndex { commits, now, settings, of_routes }
    });
    // The first statement takes the snapshot.
    let found = find_task(file, queue, id)?;
    let Some(seen) = seen.filter(|seen| seen.commits == index.commits_begun()) else { return Ok(Err(found)) };
    let (key_now, head) = &found;
    let is_same = *key_now == key && rank_of(head) == rank && head.routes == before.routes;
    if !is_same || head.lifecycle.status != Status::Pending {
        return Ok(Err(found));
    }
    file.yield_if_due()?;
    let now = seen.now;
    // The routes whose workers were seen lately.
    let route = |row: &Row<'_>| Ok(rows::worker_state(row)?.0);
    let workers = file.all_rows(&sql::LIST_WORKER_STATES, params![key.0, now.as_micros()], route)?;
    let workers: HashSet<Route> = workers.into_iter().collect();
    let of_routes = seen.of_routes.into_iter().map(|(route, running, ahead)| {
        let has_worker = workers.contains(&route);
        RouteFacts { route, running, has_worker, ahead }
    });
    let facts = Facts {
        settings: seen.settings.map(|settings| (*settings).clone()).unwrap_or_default(),
        of_routes: of_routes.collect(),
        unmet: unmet(file, key, head)?,
        ..Facts::of(head, now)
    };
    Ok(Ok(explain(facts)))
}

/// The first dependencies that have not succeeded, as many as are shown, and what they are.
fn unmet(file: &Snapshot<'_>, queue: QueueKey, head: &TaskHead) -> Read<Vec<(TaskId, Option<Status>)>> {
    let (mut unmet, mut statement) = (Vec::new(), file.connection.prepare_cached(&sql::FIND_STATUS_BY_ID)?);
    for id in head.scheduling.dependencies.as_slice() {
        let status = statement.query_row(params![queue.0, id.as_str()], rows::status).optional()?;
        if status != Some(Status::Succeeded) {
            unmet.push((*id, status));
        }
        if unmet.len() == EXPLAINED_DEPENDENCIES {
            break;
        }
    }
    Ok(unmet)
}

/// Returns the tasks that a task waits for, and those that wait for it.
pub(crate) fn related_tasks(file: &Snapshot<'_>, queue: &QueueName, related: &Related) -> Read<RelatedTasks> {
    let key = file.existing_queue(queue)?;
    let mut one = file.connection.prepare_cached(&sql::GET_RELATED)?;
    let find = |id: &TaskId| one.query_row(params![key.0, id.as_str()], rows::related_task).optional();
    let of_task = params![key.0, related.id.as_str(), related.most_dependents];
    Ok(RelatedTasks {
        dependencies: related.dependencies.iter().map(find).collect::<Result<_, _>>()?,
        dependents: file.all_rows(&sql::LIST_RELATED, of_task, rows::related_task)?,
    })
}

impl ClaimIndex {
    /// For each of the routes of a task how many tasks are running, and how many come before it. Counting ends at the least number
    /// so far: only the best route matters. One that is full is not counted unless all are.
    fn route_facts<'r>(
        &self,
        queue: QueueKey,
        rank: Rank,
        routes: impl Iterator<Item = &'r str>,
        now: Timestamp,
    ) -> Vec<(Route, RunningTasks, u64)> {
        let mut most = usize::try_from(EXPLAINED_AHEAD).unwrap_or(usize::MAX);
        let running = |route: Route| (self.settings.count_running(queue, &route), route);
        let routes: Vec<(RunningTasks, Route)> = routes.filter_map(Route::parse).map(running).collect();
        let settings = self.settings.of(queue);
        let is_full = |running, route: &Route| {
            settings.is_some_and(|settings: &Arc<QueueSettings>| settings.is_full(route, running))
        };
        let all_full = routes.iter().all(|(running, route)| is_full(*running, route));
        let facts = |(running, route): (RunningTasks, Route)| {
            if all_full || !is_full(running, &route) {
                most = self.ahead(queue, route.as_str(), rank, most, now);
            }
            (route, running, most as u64)
        };
        routes.into_iter().map(facts).collect()
    }

    /// Returns how many tasks that a claim for a route could take come before a rank, counted up to `most`. Those whose time has
    /// come are not in the pending order before the next batch.
    fn ahead(&self, queue: QueueKey, route: &str, rank: Rank, most: usize, now: Timestamp) -> usize {
        let in_order = self.pending.get(&queue).map_or(0, |order| order.ahead(route, rank, most));
        let due = self.waiting.due_of(queue, now).take(MOST_DUE);
        let due = due.filter(|(_, delayed)| delayed.rank < rank && delayed.routes.contains(route));
        in_order + due.take(most - in_order).count()
    }
}
