//! Request bodies. Their fields are those of the decoders in `bodies`; unknown ones are refused.

use serde::{Deserialize, Serialize};
use taskqueue_core::limits::{MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, ROUTE_DEFAULT, TASK_ROUTES};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, Object};
use utoipa::openapi::{ArrayBuilder, KnownFormat, ObjectBuilder, Ref, SchemaFormat, Type};

use super::scalars::{JsonObject, Route, RunId, TaskId, TaskName};
use super::workers::WorkerStatus;

/// A task to be created. Repeating it with the same id is recognised and changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(default)]
pub struct CreateTaskRequest {
    /// A label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<TaskName>,
    /// What the worker gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = empty_args)]
    pub args: Option<JsonObject>,
    /// What the client keeps with the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = empty_metadata)]
    pub metadata: Option<JsonObject>,
    /// Higher is claimed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = priority_with_default)]
    pub priority: Option<i64>,
    /// The attempt budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = max_attempts_with_default)]
    pub max_attempts: Option<i64>,
    /// Who may claim it: distinct.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = routes_with_default)]
    pub routes: Option<Vec<Route>>,
}

/// New values for some fields of a task: at least one. Each replaces the old value completely.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(min_properties = 1)]
pub struct UpdateTaskRequest {
    /// A label for people, or null for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TaskName>)]
    pub name: Option<Option<TaskName>>,
    /// What the worker gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub args: Option<JsonObject>,
    /// What the client keeps with the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub metadata: Option<JsonObject>,
    /// Higher is claimed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = priority)]
    pub priority: Option<i64>,
    /// The attempt budget; a pending task must keep a remaining attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = max_attempts)]
    pub max_attempts: Option<i64>,
    /// Who may claim it: distinct.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = routes)]
    pub routes: Option<Vec<Route>>,
    /// The result of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub result: Option<JsonObject>,
}

/// An update of every task that matches and is not running, or of none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkUpdateRequest {
    /// Which tasks, in the filter language; must not be blank.
    #[schema(min_length = 1, max_length = 8192, example = "status == \"pending\" and priority < 5")]
    pub filter: String,
    pub changes: UpdateTaskRequest,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// What the worker claims for.
    pub route: Route,
    /// The token that the claimant chose.
    pub run_id: RunId,
}

/// A heartbeat or an unclaim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The claimant's token.
    pub run_id: RunId,
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    /// The claimant's token.
    pub run_id: RunId,
    /// What came out.
    #[schema(value_type = Object)]
    pub result: JsonObject,
}

/// A failure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// The claimant's token.
    pub run_id: RunId,
    /// What went wrong.
    pub error: Failure,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// Where, if known.
    #[serde(default)]
    pub traceback: Option<String>,
}

/// What a worker reports of itself; the first three fields are required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerReport {
    /// The route it claims for; cannot change while the observation lives.
    pub route: Route,
    /// What it does.
    pub status: WorkerStatus,
    /// The task it works on; never looked up.
    #[schema(required = true)]
    pub task_id: Option<TaskId>,
    /// What else it says of itself, at most 16 KiB; shown with the observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub metadata: Option<JsonObject>,
}

fn empty_args() -> Object {
    empty_object("What the worker gets.")
}

fn empty_metadata() -> Object {
    empty_object("What the client keeps with the task.")
}

fn empty_object(description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .default(Some(serde_json::json!({})))
        .description(Some(description))
        .build()
}

fn priority() -> Object {
    integer(i64::MIN, None, "Higher is claimed first.")
}

fn priority_with_default() -> Object {
    integer(i64::MIN, Some(PRIORITY_DEFAULT), "Higher is claimed first.")
}

fn max_attempts() -> Object {
    integer(1, None, "The attempt budget; a pending task must keep a remaining attempt.")
}

fn max_attempts_with_default() -> Object {
    integer(1, Some(MAX_ATTEMPTS_DEFAULT), "The attempt budget.")
}

fn integer(minimum: i64, default: Option<i64>, description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(minimum))
        .maximum(Some(i64::MAX))
        .default(default.map(Into::into))
        .description(Some(description))
        .build()
}

fn routes() -> Array {
    ArrayBuilder::new()
        .items(Ref::from_schema_name("Route"))
        .min_items(Some(1))
        .max_items(Some(TASK_ROUTES))
        .unique_items(true)
        .description(Some("Who may claim it: distinct."))
        .build()
}

fn routes_with_default() -> Array {
    let mut routes = routes();
    routes.default = Some(serde_json::json!([ROUTE_DEFAULT]));
    routes
}
