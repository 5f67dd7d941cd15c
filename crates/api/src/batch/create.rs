//! `batch/create`: tasks to be created, and what became of each.

use taskqueue_core::json::{Reader, Value};
use taskqueue_core::{Definition, TaskId};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::items::{BatchBody, BatchItem, IdFields, ItemError, ItemWeight, ReadPart, read_only_list, shown};
use super::writer::{self, BatchWriter, ItemsWriter, with_fields};
use crate::body::{Body, BodyErrors, Location};
use crate::error::Error;
use crate::object_reader::Unreadable;
use crate::task::{CreateTaskRequest, Creation};

const IDS: IdFields = IdFields { outside: &["id"], inside: &[] };

/// Tasks to be created, each as a single request would create it.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTasksRequest {
    /// The tasks.
    #[schema(value_type = Vec<TaskItem>, min_items = 1, max_items = 1000)]
    pub tasks: Vec<ReadTask>,
}

/// A task with its id, or why it is refused.
pub type ReadTask = Result<(TaskId, Creation), RefusedTask>;

/// The id of a task that is refused, shown up to a limit, and why.
pub type RefusedTask = Box<(String, ItemError)>;

impl BatchBody for CreateTasksRequest {
    const FIELDS: &'static [&'static str] = &["tasks"];

    fn read(reader: &mut Reader<'_>, errors: &mut BodyErrors) -> ReadPart<Self> {
        Ok(read_only_list(reader, errors, &["tasks"], read_task)?.map(|tasks| Self { tasks }))
    }
}

fn read_task(
    reader: &mut Reader<'_>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
    weight: &mut ItemWeight,
) -> ReadPart<ReadTask> {
    let Some(mut item) = BatchItem::read(reader, &IDS, at, errors)? else { return Ok(None) };
    let Some(text) = item.take_text("id", at, errors) else { return Ok(None) };
    let refused = |error| Ok(Some(Err(Box::new((shown(&text), error)))));
    let creation: Creation = match item.body() {
        Ok(creation) => creation,
        Err(error) => return refused(error),
    };
    let Some(id) = TaskId::parse(&text) else { return refused(ItemError::TaskId(shown(&text))) };
    let Definition { args, metadata, scheduling, .. } = &creation.definition;
    weight.add(args.as_str().len() + metadata.as_str().len() + scheduling.stored_bytes())?;
    Ok(Some(Ok((id, creation))))
}

impl CreateTasksRequest {
    /// A body without tasks, to be filled by [`BatchWriter::push_task`].
    pub fn writer() -> BatchWriter {
        BatchWriter::begin("tasks")
    }
}

impl BatchWriter {
    /// Adds a task. False if it does not fit: then nothing was added, and the task belongs into another batch.
    #[must_use]
    pub fn push_task(&mut self, id: TaskId, creation: &Creation) -> bool {
        self.push(|item| creation.write_fields(item.text("id", id.as_str())))
    }
}

/// A task to be created: what a single request has as its body, and the id.
pub(super) struct TaskItem;

impl ToSchema for TaskItem {}

impl PartialSchema for TaskItem {
    fn schema() -> RefOr<Schema> {
        let description = "A task to be created: the body of the single request, with the id.";
        with_fields(CreateTaskRequest::schema(), description, "id", [])
    }
}

/// What became of each task, in the order of the request.
#[derive(ToSchema)]
pub struct CreatedTasks {
    /// One for each task.
    pub items: Vec<CreatedItem>,
}

/// What became of a task to be created.
#[derive(ToSchema)]
pub struct CreatedItem {
    /// The id, as it was sent.
    pub id: String,
    /// Whether it was created, existed with the same definition, or was refused.
    pub outcome: CreatedOutcome,
    /// Why it was refused.
    #[schema(nullable = false)]
    pub error: Option<Error>,
}

/// What a creation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreatedOutcome {
    /// By this request.
    Created,
    /// It was there, with the same definition.
    Existing,
    /// See `error`.
    Refused,
}

impl CreatedTasks {
    /// Appends a task that is there.
    pub fn write(out: &mut ItemsWriter, id: TaskId, created: bool) {
        let outcome = if created { "created" } else { "existing" };
        out.item(|item| item.text("id", id.as_str()).text("outcome", outcome));
    }

    /// Reads for each of these tasks whether it was created, or why it was refused.
    pub fn read(value: &Value<'_>, ids: &[TaskId]) -> Result<Vec<Result<bool, Error>>, Unreadable> {
        writer::read_items(value, ids, |item, outcome, id| {
            writer::expect(item, "id", id.as_str())?;
            Ok(match outcome {
                "created" => Some(true),
                "existing" => Some(false),
                _ => None,
            })
        })
    }
}
