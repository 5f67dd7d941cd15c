//! Health, queues, observations, and what pages and creations add to the items they hold.

use taskqueue_core::ids::{QueueName, Route, TaskId, WorkerId};
use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::observation::{Observation, Report, WorkerStatus};

use super::fields::{Object, Unreadable};

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the server and its database work.
    pub is_ok: bool,
    /// The version of the API, `2`.
    pub api_version: String,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
}

/// What a creation found or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created<T> {
    /// The resource as it is now.
    pub value: T,
    /// Whether the request that was answered created it. `false` if it was there already; it may be an earlier try of the
    /// same call that created it, whose answer was lost.
    pub created: bool,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The cursor of the next page; nothing when no further item exists.
    pub next_cursor: Option<String>,
}

pub(crate) fn health(value: &Value<'_>) -> Result<Health, Unreadable> {
    let health = Object::of(value, "health")?;
    let is_ok = health.text("status")? == "ok" && health.text("database")? == "ok";
    Ok(Health { is_ok, api_version: health.text("api_version")?.to_owned() })
}

pub(crate) fn queue(value: &Value<'_>) -> Result<Queue, Unreadable> {
    Ok(Queue { name: Object::of(value, "queue")?.parsed("name", QueueName::parse)? })
}

pub(crate) fn queues(value: &Value<'_>) -> Result<Vec<Queue>, Unreadable> {
    match value {
        Value::Array(items) => items.iter().map(queue).collect(),
        _ => Err(Unreadable("the list of queues is not a list".to_owned())),
    }
}

pub(crate) fn page<T>(value: &Value<'_>, item: fn(&Value<'_>) -> Result<T, Unreadable>) -> Result<Page<T>, Unreadable> {
    let page = Object::of(value, "page")?;
    let items = page.list("items")?.iter().map(item).collect::<Result<_, _>>()?;
    Ok(Page { items, next_cursor: next_cursor(&page)? })
}

pub(super) fn next_cursor(page: &Object<'_>) -> Result<Option<String>, Unreadable> {
    page.nullable("next_cursor", |page, name| page.text(name).map(str::to_owned))
}

pub(crate) fn observation(value: &Value<'_>) -> Result<Observation, Unreadable> {
    let observation = Object::of(value, "observation")?;
    let report = Report {
        route: observation.parsed("route", Route::parse)?,
        status: observation.parsed("status", WorkerStatus::parse)?,
        task_id: observation.nullable("task_id", |worker, name| worker.parsed(name, TaskId::parse))?,
        // Beyond the contract: only workers that report metadata have the field.
        metadata: if observation.has("metadata") { observation.json("metadata")? } else { JsonObject::empty() },
    };
    Ok(Observation {
        id: observation.parsed("id", WorkerId::parse)?,
        queue: observation.parsed("queue", QueueName::parse)?,
        report,
        last_seen_at: observation.time("last_seen_at")?,
        expires_at: observation.time("expires_at")?,
    })
}
