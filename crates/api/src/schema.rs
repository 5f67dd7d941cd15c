//! Schemas of types of `core`: names, identifiers, instants and statuses, with the patterns of
//! docs/reference/http-api.md §1.2. The patterns are what clients read; what the server accepts is decided in `core`.
//! Nothing is built of these types.

use utoipa::ToSchema;
use utoipa::openapi::{ObjectBuilder, Type};

/// Declares the schema of an answer that is one of two, as the request asks. Not by the derive: that says oneOf, but what is read as
/// one of them may be the other, too.
macro_rules! either_answer {
    ($(#[doc = $description:literal])+ $name:ident, $one:ident, $other:ident) => {
        $(#[doc = $description])+
        pub struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::schema::AnyOfBuilder::new()
                    .item(utoipa::openapi::Ref::from_schema_name(stringify!($one)))
                    .item(utoipa::openapi::Ref::from_schema_name(stringify!($other)))
                    .description(Some(concat!($($description),+).trim_start()))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                schemas.push(($one::name().into_owned(), <$one as utoipa::PartialSchema>::schema()));
                schemas.push(($other::name().into_owned(), <$other as utoipa::PartialSchema>::schema()));
                $one::schemas(schemas);
                $other::schemas(schemas);
            }
        }
    };
}

pub(crate) use either_answer;

/// Returns the schema of a text that is one of these words.
pub(crate) fn words<const N: usize>(words: [&'static str; N], description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).description(Some(description))
}

/// The name of a queue.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", min_length = 1, max_length = 128, example = "training")]
pub struct QueueName(pub String);

/// What a worker claims for and a task lists; case-sensitive.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", min_length = 1, max_length = 128, example = "default")]
pub struct Route(pub String);

/// The identity of a task within its queue.
#[derive(ToSchema)]
#[schema(pattern = "^t_[A-Za-z0-9_-]{12}$", min_length = 14, max_length = 14, example = "t_0123456789ab")]
pub struct TaskId(pub String);

/// The identity of a worker loop within its queue.
#[derive(ToSchema)]
#[schema(pattern = "^w_[A-Za-z0-9_-]{12}$", min_length = 14, max_length = 14, example = "w_0123456789ab")]
pub struct WorkerId(pub String);

/// The private token of one claim, chosen by the claimant.
#[derive(ToSchema)]
#[schema(pattern = "^r_[A-Za-z0-9_-]{12}$", min_length = 14, max_length = 14, example = "r_0123456789ab")]
pub struct RunId(pub String);

/// A label of a task for people: no control characters. The empty name differs from null.
#[derive(ToSchema)]
#[schema(pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$", max_length = 256, example = "train")]
pub struct TaskName(pub String);

/// An instant in UTC with six fractional digits.
#[derive(ToSchema)]
#[schema(
    format = DateTime,
    pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$",
    example = "2026-01-31T12:00:00.000000Z"
)]
pub struct Timestamp(pub String);

/// The five states of a task.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits to be claimed.
    Pending,
    /// Owned by an active run.
    Running,
    /// Completed.
    Succeeded,
    /// Out of attempts.
    Failed,
    /// Taken out by a client.
    Cancelled,
}

/// What becomes of a pending task when a task that it waits for fails for good, or is cancelled or deleted.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDependencyFailure {
    /// It waits on.
    Wait,
    /// It is cancelled.
    Cancel,
}

/// What a worker says it does.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// Waits for work.
    Idle,
    /// From a confirmed claim through execution, reporting and cleanup.
    Busy,
}
