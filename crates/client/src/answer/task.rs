//! The task as clients see it, and what the worker protocol adds to it.

use std::sync::Arc;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::task::{Failure, LastError, Status};
use taskqueue_core::time::Timestamp;

use super::fields::{Object, Unreadable};

/// A task: exactly the fields of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its identity within the queue.
    pub id: TaskId,
    /// The queue it lives in.
    pub queue: QueueName,
    /// The state.
    pub status: Status,
    /// A label for people; null and empty differ.
    pub name: Option<Arc<str>>,
    /// What the worker gets.
    pub args: JsonObject,
    /// What the client keeps with the task.
    pub metadata: JsonObject,
    /// Higher is claimed first.
    pub priority: i64,
    /// Claims minus unclaims since creation or requeue.
    pub attempt: i64,
    /// The attempt budget.
    pub max_attempts: i64,
    /// Who may claim it.
    pub routes: Routes,
    /// `{}` until set by completion or update.
    pub result: JsonObject,
    /// The last recorded failure.
    pub last_error: Option<LastError>,
    /// Route of the latest claim.
    pub last_route: Option<Route>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was last claimed.
    pub started_at: Option<Timestamp>,
    /// When its latest run ended.
    pub finished_at: Option<Timestamp>,
}

/// A task that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The task, running.
    pub task: Task,
    /// The run that owns it: the one that was asked for.
    pub run_id: RunId,
    /// When the lease is over unless a heartbeat renews it, by the server's clock.
    pub lease_expires_at: Timestamp,
}

pub(crate) fn task(value: &Value<'_>) -> Result<Task, Unreadable> {
    let task = Object::of(value, "task")?;
    Ok(Task {
        id: task.parsed("id", TaskId::parse)?,
        queue: task.parsed("queue", QueueName::parse)?,
        status: task.parsed("status", Status::parse)?,
        name: task.nullable("name", shared_text)?,
        args: task.json("args")?,
        metadata: task.json("metadata")?,
        priority: task.integer("priority")?,
        attempt: task.integer("attempt")?,
        max_attempts: task.integer("max_attempts")?,
        routes: routes(&task)?,
        result: task.json("result")?,
        last_error: task.nullable("last_error", last_error)?,
        last_route: task.nullable("last_route", |task, name| task.parsed(name, Route::parse))?,
        created_at: task.time("created_at")?,
        updated_at: task.time("updated_at")?,
        started_at: task.nullable("started_at", |task, name| task.time(name))?,
        finished_at: task.nullable("finished_at", |task, name| task.time(name))?,
    })
}

/// The answer to a claim, which must be about the run that was asked for: everything that follows hangs on it.
pub(crate) fn claim(value: &Value<'_>, run_id: RunId) -> Result<Claim, Unreadable> {
    let answer = Object::of(value, "claim")?;
    if answer.parsed("run_id", RunId::parse)? != run_id {
        return Err(Unreadable("the claim is about another run".to_owned()));
    }
    let claimed = task(answer.value("task")?)?;
    Ok(Claim { task: claimed, run_id, lease_expires_at: answer.time("lease_expires_at")? })
}

/// The answer to a heartbeat.
pub(crate) fn lease(value: &Value<'_>) -> Result<Timestamp, Unreadable> {
    Object::of(value, "heartbeat")?.time("lease_expires_at")
}

fn shared_text(object: &Object<'_>, name: &'static str) -> Result<Arc<str>, Unreadable> {
    object.text(name).map(Into::into)
}

fn routes(task: &Object<'_>) -> Result<Routes, Unreadable> {
    let route = |item: &Value<'_>| if let Value::Str(text) = item { Route::parse(text) } else { None };
    let routes: Option<Vec<Route>> = task.list("routes")?.iter().map(route).collect();
    routes.and_then(Routes::new).map_or_else(|| task.wrong("routes"), Ok)
}

fn last_error(task: &Object<'_>, name: &'static str) -> Result<LastError, Unreadable> {
    let error = task.object(name)?;
    let failure = Failure {
        kind: shared_text(&error, "type")?,
        message: shared_text(&error, "message")?,
        traceback: error.nullable("traceback", shared_text)?,
    };
    Ok(LastError {
        failure,
        occurred_at: error.time("occurred_at")?,
        attempt: error.integer("attempt")?,
        run_id: error.parsed("run_id", RunId::parse)?,
    })
}
