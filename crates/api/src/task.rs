//! Tasks: the resource, who ran it last, and the page. A field of a task is one entry in the table of each shape that has it; the bodies of
//! creation and update are in `task_body.rs`.

use std::sync::Arc;

use taskqueue_core::filter::{LastErrorFields, LastRunFields};
use taskqueue_core::json::{JsonObject, ObjectWriter, Value, string_len, write_string};
use taskqueue_core::scheduling::{OnDependencyFailure, RetryDelay};
use taskqueue_core::task::{self, Failure, LastError};
use taskqueue_core::{Definition, QueueName, Route, Routes, RunId, Scheduling, Status, TaskId, TaskView, Timestamp};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable, WireValue};
use crate::schema;
use crate::task_body::read_scheduling;
pub use crate::task_body::{BulkUpdateRequest, CreateTaskRequest, Creation, RetryDelaySchema, UpdateTaskRequest};

/// Bytes of a task resource without its JSON texts, roughly: enough to seldom grow the buffer.
const TASK_FRAME_BYTES: usize = 640;

/// The most bytes of that: names of fields, numbers, instants, ids, and two names of 128 characters.
const MOST_FRAME_BYTES: usize = 1024;

/// Declares the task resource: the struct, its schema, the view of it, the writer and the reader. Fields under `optional` are
/// left out of tasks that do not have them. So are those under `described`, which [`Task::scheduling`] and [`Task::archived`]
/// hold.
macro_rules! task_resource {
    (
        required { $( $(#[$attribute:meta])* $field:ident: $kind:ty, )* }
        optional { $( $(#[$optional_attribute:meta])* $optional:ident: $optional_kind:ty, )* }
        described { $( $(#[$described_attribute:meta])* $described:ident: $described_kind:ty, )* }
    ) => {
        /// A task.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Task {
            $( pub $field: $kind, )*
            $( pub $optional: Option<$optional_kind>, )*
            /// How it is tried again, for how long it may run, and what it waits for.
            pub scheduling: Scheduling,
            /// Whether lists and counts leave it out.
            pub archived: bool,
        }

        /// A task.
        #[derive(ToSchema)]
        #[schema(as = Task)]
        pub struct TaskSchema {
            $( $(#[$attribute])* pub $field: $kind, )*
            $( $(#[$optional_attribute])* pub $optional: Option<$optional_kind>, )*
            $( $(#[$described_attribute])* pub $described: Option<$described_kind>, )*
        }

        impl Task {
            /// The names of all fields.
            pub const FIELDS: &'static [&'static str] =
                &[$( stringify!($field), )* $( stringify!($optional), )* $( stringify!($described), )*];

            pub fn view(&self) -> TaskView<'_> {
                TaskView {
                    $( $field: self.$field.view(), )*
                    $( $optional: self.$optional.view(), )*
                    scheduling: self.scheduling.as_json(),
                    archived: self.archived,
                    unmet: 0,
                }
            }

            /// Appends the task as JSON. Each name with what stands around it is one piece: a page has thousands of them.
            pub fn write(out: &mut Vec<u8>, task: &TaskView<'_>) {
                let start = out.len();
                $(
                    out.extend_from_slice(concat!(",\"", stringify!($field), "\":").as_bytes());
                    <$kind as WireValue>::write(out, task.$field);
                )*
                $( if let Some(value) = task.$optional {
                    out.extend_from_slice(concat!(",\"", stringify!($optional), "\":").as_bytes());
                    <$optional_kind as WireValue>::write(out, value);
                } )*
                if let Some(members) = task.scheduling.and_then(|object| object.strip_prefix('{')?.strip_suffix('}')) {
                    out.push(b',');
                    out.extend_from_slice(members.as_bytes());
                }
                if task.archived {
                    out.extend_from_slice(b",\"archived\":true");
                }
                // The comma before the first field.
                out[start] = b'{';
                out.push(b'}');
            }

            pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
                let object = ObjectReader::of(value, "task")?;
                Ok(Self {
                    $( $field: <$kind as WireValue>::read(&object, stringify!($field))?, )*
                    $( $optional: object.optional(stringify!($optional), <$optional_kind as WireValue>::read)?, )*
                    scheduling: read_scheduling(&object)?,
                    archived: object.optional("archived", |object, name| object.boolean(name))?.unwrap_or(false),
                })
            }
        }
    };
}

task_resource! {
    required {
        /// The identity of the task within its queue.
        #[schema(value_type = schema::TaskId)]
        id: TaskId,
        /// The queue it lives in.
        #[schema(value_type = schema::QueueName)]
        queue: QueueName,
        /// The state.
        #[schema(value_type = schema::TaskStatus)]
        status: Status,
        /// A label for people.
        #[schema(value_type = Option<schema::TaskName>, required = true)]
        name: Option<Arc<str>>,
        /// What the worker gets.
        #[schema(value_type = Object)]
        args: JsonObject,
        /// What the client keeps with the task.
        #[schema(value_type = Object)]
        metadata: JsonObject,
        /// Higher is claimed first.
        priority: i64,
        /// Claims minus unclaims since creation or requeue.
        #[schema(minimum = 0)]
        attempt: i64,
        /// The attempt budget.
        #[schema(minimum = 1)]
        max_attempts: i64,
        /// Who may claim it: distinct, sorted.
        #[schema(value_type = Vec<schema::Route>, min_items = 1)]
        routes: Routes,
        /// `{}` until set by completion or update.
        #[schema(value_type = Object)]
        result: JsonObject,
        /// The last recorded failure; reset by requeue.
        #[schema(value_type = Option<LastErrorSchema>, required = true)]
        last_error: Option<LastError>,
        /// The route of the latest claim.
        #[schema(value_type = Option<schema::Route>, required = true)]
        last_route: Option<Route>,
        /// When the task was created.
        #[schema(value_type = schema::Timestamp)]
        created_at: Timestamp,
        /// When the task last changed.
        #[schema(value_type = schema::Timestamp)]
        updated_at: Timestamp,
        /// When it was last claimed.
        #[schema(value_type = Option<schema::Timestamp>, required = true)]
        started_at: Option<Timestamp>,
        /// When its latest run ended.
        #[schema(value_type = Option<schema::Timestamp>, required = true)]
        finished_at: Option<Timestamp>,
    }
    optional {
        /// Who ran it last; only there if the latest claim said so.
        #[schema(nullable = false)]
        last_run: LastRun,
        /// How far its latest run is; only there, with the next two fields, if that run said so.
        #[schema(value_type = Option<Object>, nullable = false)]
        progress: JsonObject,
        /// When that was recorded.
        #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
        progress_updated_at: Timestamp,
        /// The attempt of that run.
        #[schema(nullable = false, minimum = 0)]
        progress_attempt: i64,
        /// A pending task can be claimed from then on; only there if it is set.
        #[schema(value_type = Option<schema::Timestamp>, nullable = false)]
        not_before: Timestamp,
    }
    described {
        /// The tasks that it waits for, sorted; only there if there are any.
        #[schema(value_type = Option<Vec<schema::TaskId>>, nullable = false)]
        dependencies: Vec<TaskId>,
        /// What becomes of it when one of these cannot succeed any more; only there if it is not `wait`.
        #[schema(value_type = Option<schema::OnDependencyFailure>, nullable = false)]
        on_dependency_failure: OnDependencyFailure,
        /// How long it waits after an attempt that failed; only there if it does.
        #[schema(value_type = Option<RetryDelaySchema>, nullable = false)]
        retry_delay: RetryDelay,
        /// How long a run of it may be active; only there if that is limited.
        #[schema(nullable = false, minimum = 1, maximum = 31_536_000)]
        timeout_seconds: i64,
        /// Whether lists and counts leave it out; only there if they do.
        #[schema(nullable = false)]
        archived: bool,
    }
}

impl Task {
    /// What creation and updates set of it, except its time.
    pub fn definition(&self) -> Definition {
        Definition {
            name: self.name.clone(),
            args: self.args.clone(),
            metadata: self.metadata.clone(),
            priority: self.priority,
            max_attempts: self.max_attempts,
            routes: self.routes.clone(),
            scheduling: self.scheduling.clone(),
        }
    }

    /// About how many bytes a task will take.
    pub fn expected_bytes(task: &task::Task) -> usize {
        TASK_FRAME_BYTES + task.bytes()
    }

    /// Returns the most bytes that it will take.
    pub fn most_bytes(task: &task::Task) -> usize {
        let escapes = |text: &str| string_len(text) - text.len();
        let of_error = |LastError { failure, .. }: &LastError| {
            escapes(&failure.kind) + escapes(&failure.message) + failure.traceback.as_deref().map_or(0, escapes)
        };
        MOST_FRAME_BYTES + task.bytes() + task.outcome.last_error.as_ref().map_or(0, of_error)
    }
}

/// The last recorded failure of a task.
#[derive(ToSchema)]
#[schema(as = LastError)]
pub struct LastErrorSchema {
    /// The kind of error.
    #[schema(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// Where, if known.
    #[schema(required = true)]
    pub traceback: Option<String>,
    /// When it was recorded.
    pub occurred_at: schema::Timestamp,
    /// The attempt that failed.
    pub attempt: i64,
    /// The run that failed; null if there was none.
    #[schema(required = true)]
    pub run_id: Option<schema::RunId>,
}

impl WireValue for LastError {
    type View<'a> = LastErrorFields<'a>;

    fn view(&self) -> LastErrorFields<'_> {
        self.fields()
    }

    fn write(out: &mut Vec<u8>, error: LastErrorFields<'_>) {
        ObjectWriter::append_to(out)
            .text("type", error.kind)
            .text("message", error.message)
            .text_or_null("traceback", error.traceback)
            .time("occurred_at", error.occurred_at)
            .integer("attempt", error.attempt)
            .text_or_null("run_id", error.run_id)
            .end();
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        let error = object.object(name)?;
        let failure = Failure {
            kind: WireValue::read(&error, "type")?,
            message: WireValue::read(&error, "message")?,
            traceback: WireValue::read(&error, "traceback")?,
        };
        Ok(Self {
            failure,
            occurred_at: error.time("occurred_at")?,
            attempt: error.integer("attempt")?,
            run_id: error.nullable("run_id", |error, name| error.parsed(name, RunId::parse))?,
        })
    }
}

/// One page of tasks.
#[derive(ToSchema)]
pub struct TaskPage {
    /// The tasks, in the order asked for.
    pub items: Vec<TaskSchema>,
    /// The cursor of the next page; null exactly when no further task exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

impl TaskPage {
    const BEGINNING: &'static [u8] = b"{\"items\":[";

    /// Appends the next task of a page to what [`TaskPage::end`] will end.
    pub fn append(out: &mut Vec<u8>, task: &TaskView<'_>) {
        out.extend_from_slice(if out.is_empty() { Self::BEGINNING } else { b"," });
        Task::write(out, task);
    }

    /// Ends a page. It may have no task.
    pub fn end(out: &mut Vec<u8>, next_cursor: Option<&str>) {
        out.extend_from_slice(if out.is_empty() { Self::BEGINNING } else { b"" });
        out.extend_from_slice(b"],\"next_cursor\":");
        match next_cursor {
            Some(cursor) => write_string(out, cursor),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
}

/// Who ran a task last, as its claim said.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct LastRun {
    /// The attempt that the claim began.
    #[schema(minimum = 1)]
    pub attempt: i64,
    /// What the claimant said of itself.
    #[schema(value_type = Object)]
    pub worker: JsonObject,
    /// The run, once it is over; null while it is active.
    #[schema(value_type = Option<schema::RunId>, required = true)]
    pub run_id: Option<RunId>,
}

impl WireValue for LastRun {
    type View<'a> = LastRunFields<'a>;

    fn view(&self) -> LastRunFields<'_> {
        let run_id = self.run_id.as_ref().map(RunId::as_str);
        LastRunFields { attempt: self.attempt, worker: self.worker.as_str(), run_id }
    }

    fn write(out: &mut Vec<u8>, run: LastRunFields<'_>) {
        ObjectWriter::append_to(out)
            .integer("attempt", run.attempt)
            .json("worker", run.worker)
            .text_or_null("run_id", run.run_id)
            .end();
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        let run = object.object(name)?;
        let (attempt, worker) = (run.integer("attempt")?, run.json("worker")?);
        Ok(Self { attempt, worker, run_id: run.nullable("run_id", |run, name| run.parsed(name, RunId::parse))? })
    }
}
