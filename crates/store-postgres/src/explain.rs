//! Why a task is not claimed yet: what is so of it and of its queue, of one moment. What that means is said in `core::explain`.
//! And the tasks around a task, by the keys of their rows.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::try_join4;
use taskqueue_core::explain::{Explanation, Facts, RouteFacts, explain as explain_facts};
use taskqueue_core::limits::EXPLAINED_AHEAD;
use taskqueue_core::{QueueName, Refusal, Route, Routes, Status, TaskHead, TaskId, Timestamp};
use taskqueue_store::related::{Related, RelatedTask, RelatedTasks};
use tokio_postgres::types::ToSql;

use crate::readers::{Read, in_snapshot};
use crate::reads::{existing_queue, no_queue, refused};
use crate::session::Session;
use crate::{rows, statements as sql};

/// Explains a task in one snapshot. `clock` is a time instead of the database's, for tests.
pub(crate) async fn explain(
    session: &Session,
    queue: &QueueName,
    id: TaskId,
    clock: Option<Timestamp>,
) -> Read<Explanation> {
    let found = in_snapshot(session, session.first(&sql::EXPLAIN_TASK, &[&queue.as_str(), &id.as_str()])).await?;
    let found = found.ok_or_else(|| no_queue(queue))?;
    if rows::key_or_null(&found)?.is_none() {
        return Err(refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }));
    }
    let key: i64 = rows::get(&found, "explained_queue")?;
    let (head, now) = (rows::head(&found)?, clock.map_or_else(|| rows::get(&found, "now"), Ok)?);
    let settings = rows::settings(&found)?.map(Arc::unwrap_or_clone).unwrap_or_default();
    let routes: Vec<Route> = head.routes.iter().filter_map(Route::parse).collect();
    let names: Vec<&str> = routes.iter().map(Route::as_str).collect();
    let dependencies: Vec<&str> = head.scheduling.dependencies.as_slice().iter().map(TaskId::as_str).collect();
    let (most, micros) = (i64::try_from(EXPLAINED_AHEAD).unwrap_or(i64::MAX), now.as_micros());
    let of_routes: [&(dyn ToSql + Sync); 5] = [&key, &names, &head.priority, &head.lifecycle.pending_seq, &most];
    let (of_routes, due, workers, statuses) = try_join4(
        session.query(&sql::EXPLAIN_ROUTES, &of_routes),
        session.query(&sql::EXPLAIN_DELAYED, &[&key, &micros, &most]),
        session.query(&sql::LIST_SERVED_ROUTES, &[&key, &micros, &names]),
        session.query(&sql::EXPLAIN_DEPENDENCIES, &[&key, &dependencies]),
    )
    .await?;
    let live = workers.iter().map(|row| Ok(rows::get(row, "route")?)).collect::<Read<HashSet<&str>>>()?;
    let place = |row| Ok((rows::get(row, "routes")?, rows::get(row, "priority")?, rows::get(row, "pending_seq")?));
    let due = due.iter().map(place).collect::<Read<Vec<(Routes, i64, i64)>>>()?;
    let mut facts = Vec::with_capacity(routes.len());
    for (route, row) in routes.into_iter().zip(&of_routes) {
        let before = due.iter().filter(|(routes, priority, pending_seq)| {
            routes.contains(route.as_str()) && is_before((*priority, *pending_seq), &head)
        });
        let ahead = rows::get::<u64>(row, "ahead")? + before.count() as u64;
        let has_worker = live.contains(route.as_str());
        facts.push(RouteFacts { route, running: rows::running_tasks(row)?, has_worker, ahead });
    }
    let status = |row| Ok((rows::get(row, "id")?, rows::get(row, "status")?));
    let statuses = statuses.iter().map(status).collect::<Read<Vec<_>>>()?;
    let unmet = statuses.into_iter().filter(|(_, status)| *status != Some(Status::Succeeded)).collect();
    Ok(explain_facts(Facts { settings, of_routes: facts, unmet, ..Facts::of(&head, now) }))
}

/// Whether a place in the pending order comes before that of a task.
fn is_before((priority, pending_seq): (i64, i64), head: &TaskHead) -> bool {
    (Reverse(priority), pending_seq) < (Reverse(head.priority), head.lifecycle.pending_seq)
}

pub(crate) async fn related_tasks(session: &Session, queue: &QueueName, related: &Related) -> Read<RelatedTasks> {
    let key = existing_queue(session, queue).await?;
    let ids: Vec<&str> = related.dependencies.iter().map(TaskId::as_str).collect();
    let mut found: HashMap<TaskId, RelatedTask> = HashMap::new();
    if !ids.is_empty() {
        for row in session.query(&sql::GET_RELATED, &[&key.0, &ids]).await? {
            let task = rows::related_task(&row)?;
            found.insert(task.id, task);
        }
    }
    let most = i64::from(related.most_dependents);
    let dependents = session.query(&sql::LIST_RELATED, &[&key.0, &related.id.as_str(), &most]).await?;
    Ok(RelatedTasks {
        dependencies: related.dependencies.iter().map(|id| found.remove(id)).collect(),
        dependents: dependents.iter().map(rows::related_task).collect::<Result<_, _>>()?,
    })
}
