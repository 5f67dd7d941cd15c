//! Path and query parameters. How a query is read is decided in the `server` crate; unknown parameters are ignored.

use std::ops::RangeInclusive;

use utoipa::IntoParams;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

use crate::schema::{QueueName, TaskId, TaskStatus, Timestamp, WorkerId, words};

/// A queue.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub struct QueuePath {
    /// The name of the queue.
    pub queue: QueueName,
}

/// What the caller of a claim would like (RFC 7240).
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct ClaimPreference {
    /// `wait=N`: when no task is pending for the route, wait up to N seconds for one. N is 1 to 60; larger values are cut
    /// to 60. Anything else is ignored. `Preference-Applied` in the answer says what was given; without it the server did
    /// not wait, because too many do already or because it stops: claim again after a while.
    #[param(rename = "Prefer", example = "wait=30")]
    pub prefer: Option<String>,
}

/// What the sender of a heartbeat would like (RFC 7240).
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct HeartbeatPreference {
    /// `wait=N`: after the renewal, hold the answer for N seconds, or until the run is over. N is 1 to 60; larger values are
    /// cut to 60. Anything else is ignored. `Preference-Applied` in the answer says what was given; without it the server did
    /// not wait, because too many do already or because it stops: send the next heartbeat after a while.
    #[param(rename = "Prefer", example = "wait=30")]
    pub prefer: Option<String>,
}

/// What the reader of output would like (RFC 7240).
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct OutputPreference {
    /// `wait=N`: when nothing is kept behind the offset, wait up to N seconds until there is something or the run is over. N is
    /// 1 to 60; larger values are cut to 60. Anything else is ignored. `Preference-Applied` in the answer says what was given;
    /// without it the server did not wait, because too many do already or because it stops: read again after a while.
    #[param(rename = "Prefer", example = "wait=30")]
    pub prefer: Option<String>,
}

/// Which output to read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OutputQuery {
    /// The number of bytes that the run has printed before what is wanted: `end` of the answer before.
    #[param(schema_with = offset, required = false)]
    pub offset: Option<u64>,
}

/// Activity over time instead of stats.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// `minute` (kept for a day) or `hour` (kept for a year): give the activity over time.
    #[param(required = false, pattern = "^(minute|hour)$")]
    pub series: Option<String>,
    /// The first moment, only with `series`; by default everything that is kept.
    #[param(required = false, value_type = Timestamp)]
    pub from: Option<String>,
    /// The moment behind the last one, only with `series`; by default now.
    #[param(required = false, value_type = Timestamp)]
    pub to: Option<String>,
}

/// A task.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub struct TaskPath {
    /// The name of the queue.
    pub queue: QueueName,
    /// The id of the task.
    pub task_id: TaskId,
}

/// A worker.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub struct WorkerPath {
    /// The name of the queue.
    pub queue: QueueName,
    /// The id of the worker.
    pub id: WorkerId,
}

/// How a queue is deleted.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeleteQueueQuery {
    /// Whether its tasks go with it.
    #[param(schema_with = false_by_default, required = false)]
    pub cascade: Option<bool>,
}

/// Which tasks to list or to count.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TaskSelectors {
    /// Exactly this status.
    #[param(inline, nullable = false)]
    pub status: Option<TaskStatus>,
    /// Exactly this name.
    #[param(nullable = false)]
    pub name: Option<String>,
    /// Words that occur in the name as subsequences, in any letter case: at most 64 different ones, 8192 bytes in all.
    #[param(nullable = false, max_length = 8192)]
    pub name_fuzzy: Option<String>,
    /// A filter expression, at most 8192 bytes.
    #[param(nullable = false, min_length = 1, max_length = 8192)]
    pub filter: Option<String>,
    /// Whether archived tasks are among them.
    #[param(schema_with = without_archived, required = false)]
    pub include_archived: Option<bool>,
}

/// In which order to list tasks, and how many of them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListTasksQuery {
    /// The field to order by; ties are broken by id, nulls come last.
    #[param(schema_with = order_by, required = false)]
    pub order_by: Option<String>,
    /// The direction.
    #[param(schema_with = true_by_default, required = false)]
    pub descending: Option<bool>,
    /// How many tasks at most.
    #[param(schema_with = limit, required = false)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the page before, with everything but `limit` the same.
    #[param(nullable = false, min_length = 1, max_length = 16384)]
    pub cursor: Option<String>,
}

/// By what to count tasks.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CountTasksQuery {
    /// The dimensions, separated by a comma; given once.
    #[param(schema_with = task_dimensions, required = false)]
    pub group_by: Option<String>,
    /// How many groups at most; only with `group_by`.
    #[param(schema_with = limit, required = false)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the page before; only with `group_by`.
    #[param(nullable = false, min_length = 1, max_length = 16384)]
    pub cursor: Option<String>,
}

/// Which observations to list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListWorkersQuery {
    /// A filter expression over observations, at most 8192 bytes.
    #[param(nullable = false, min_length = 1, max_length = 8192)]
    pub filter: Option<String>,
    /// How many observations at most.
    #[param(schema_with = limit, required = false)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the page before, with the same filter.
    #[param(nullable = false, min_length = 1, max_length = 16384)]
    pub cursor: Option<String>,
}

/// Which observations to count, and by what.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CountWorkersQuery {
    /// A filter expression over observations, at most 8192 bytes.
    #[param(nullable = false, min_length = 1, max_length = 8192)]
    pub filter: Option<String>,
    /// The dimensions, separated by a comma; given once.
    #[param(schema_with = worker_dimensions, required = false)]
    pub group_by: Option<String>,
    /// How many groups at most; only with `group_by`.
    #[param(schema_with = limit, required = false)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the page before; only with `group_by`.
    #[param(nullable = false, min_length = 1, max_length = 16384)]
    pub cursor: Option<String>,
}

// The derive does not take over the comment of a parameter that has its own schema, so these describe themselves.

fn limit() -> RefOr<Schema> {
    use taskqueue_core::limits::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, PAGE_LIMIT_MIN};
    let range = i64::from(PAGE_LIMIT_MIN)..=i64::from(PAGE_LIMIT_MAX);
    integer(range, i64::from(PAGE_LIMIT_DEFAULT), "How many items or groups at most.")
}

fn offset() -> RefOr<Schema> {
    let description = "The number of bytes that the run has printed before what is wanted: `end` of the answer before.";
    integer(0..=i64::MAX, 0, description)
}

fn integer(range: RangeInclusive<i64>, default: i64, description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(*range.start()))
        .maximum(Some(*range.end()))
        .default(Some(default.into()))
        .description(Some(description))
        .into()
}

fn order_by() -> RefOr<Schema> {
    use taskqueue_core::selection::{OrderField, TaskOrder};
    words(OrderField::ALL.map(OrderField::as_str), "The field to order by; ties are broken by id, nulls come last.")
        .default(Some(TaskOrder::default().field.as_str().into()))
        .into()
}

fn task_dimensions() -> RefOr<Schema> {
    words(["routes", "status", "routes,status", "status,routes"], DIMENSIONS).into()
}

fn worker_dimensions() -> RefOr<Schema> {
    words(["route", "status", "route,status", "status,route"], DIMENSIONS).into()
}

const DIMENSIONS: &str = "The dimensions, separated by a comma; given once.";

fn false_by_default() -> RefOr<Schema> {
    boolean(false, "Whether the tasks of the queue go with it.")
}

fn without_archived() -> RefOr<Schema> {
    boolean(false, "Whether archived tasks are among them.")
}

fn true_by_default() -> RefOr<Schema> {
    boolean(true, "The direction of the order.")
}

/// Booleans have more spellings than `true` and `false` (docs/reference/http-api.md §3.2).
fn boolean(default: bool, description: &str) -> RefOr<Schema> {
    let spelling =
        "^([tT]([rR][uU][eE])?|[yY]([eE][sS])?|[oO][nN]|1|[fF]([aA][lL][sS][eE])?|[nN][oO]?|[oO][fF][fF]|0)$";
    AnyOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Boolean))
        .item(ObjectBuilder::new().schema_type(Type::String).pattern(Some(spelling)))
        .default(Some(default.into()))
        .description(Some(description))
        .into()
}
