//! Tasks: the resource, the page, and the bodies of creation, update and bulk update. A field of a task is one entry in
//! the table of each shape that has it.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::definition::{Definition, Routes};
use taskqueue_core::filter::LastErrorFields;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::{JsonObject, ObjectWriter, Value, string_len, write_string};
use taskqueue_core::limits::{MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, ROUTE_DEFAULT, TASK_ROUTES};
use taskqueue_core::task::{self, Failure, LastError, Status};
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Update;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, Object};
use utoipa::openapi::{ArrayBuilder, KnownFormat, ObjectBuilder, Ref, SchemaFormat, Type};

use crate::ErrorCode;
use crate::body::{At, Body, BodyErrors, Members, field};
use crate::last_run::LastRun;
use crate::object_reader::{ObjectReader, Unreadable};
use crate::schema;
use crate::wire_value::WireValue;

/// Bytes of a task resource without its JSON texts, roughly: enough to seldom grow the buffer.
const TASK_FRAME_BYTES: usize = 640;

/// The same at most: names of fields, numbers, instants, ids, and two names of 128 characters.
const MOST_FRAME_BYTES: usize = 1024;

/// Declares the task resource: the struct with its schema, the view of it, the writer and the reader. Fields under
/// `optional` are left out of tasks that do not have them.
macro_rules! task_resource {
    (
        required { $( $(#[$attribute:meta])* $field:ident: $kind:ty, )* }
        optional { $( $(#[$optional_attribute:meta])* $optional:ident: $optional_kind:ty, )* }
    ) => {
        /// A task.
        #[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
        pub struct Task {
            $( $(#[$attribute])* pub $field: $kind, )*
            $( $(#[$optional_attribute])* pub $optional: Option<$optional_kind>, )*
        }

        impl Task {
            /// The names of all fields.
            pub const FIELDS: &'static [&'static str] = &[$( stringify!($field), )* $( stringify!($optional), )*];

            pub fn view(&self) -> TaskView<'_> {
                TaskView { $( $field: self.$field.view(), )* $( $optional: self.$optional.view(), )* }
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
                // The comma before the first field.
                out[start] = b'{';
                out.push(b'}');
            }

            pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
                let object = ObjectReader::of(value, "task")?;
                Ok(Self {
                    $( $field: <$kind as WireValue>::read(&object, stringify!($field))?, )*
                    $( $optional: object.optional(stringify!($optional), <$optional_kind as WireValue>::read)?, )*
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
    }
}

impl Task {
    /// About how many bytes a task will take.
    pub fn expected_bytes(task: &task::Task) -> usize {
        TASK_FRAME_BYTES + task.bytes()
    }

    /// How many bytes it will take at most.
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
    /// The run that failed.
    pub run_id: schema::RunId,
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
            .text("run_id", error.run_id)
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
            run_id: error.parsed("run_id", RunId::parse)?,
        })
    }
}

/// One page of tasks.
#[derive(ToSchema)]
pub struct TaskPage {
    /// The tasks, in the order asked for.
    pub items: Vec<Task>,
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

/// A field of a body that may be left out: a definition then has its default, an update does not change it.
trait OptionalField<T> {
    fn set(&mut self, given: Option<T>);
    fn given(&self) -> Option<&T>;
}

impl<T> OptionalField<T> for T {
    fn set(&mut self, given: Option<T>) {
        if let Some(given) = given {
            *self = given;
        }
    }

    fn given(&self) -> Option<&T> {
        Some(self)
    }
}

impl<T> OptionalField<T> for Option<T> {
    fn set(&mut self, given: Option<T>) {
        *self = given;
    }

    fn given(&self) -> Option<&T> {
        self.as_ref()
    }
}

/// Declares a body whose fields may all be left out: its schema, the reader and the writer. An entry has the schema of a
/// field, its name, its type and the function that reads it. What concerns several fields is checked by one function.
macro_rules! task_body {
    (
        $(#[$attribute:meta])* $schema:ident for $body:ty, $code:ident, checked by $check:path;
        $( $(#[$field_attribute:meta])* $field:ident: $kind:ty = $read:path, )*
    ) => {
        #[derive(ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$attribute])*
        pub struct $schema {
            $( $(#[$field_attribute])* pub $field: Option<$kind>, )*
        }

        impl Body for $body {
            const CODE: ErrorCode = ErrorCode::$code;
            const FIELDS: &'static [&'static str] = &[$( stringify!($field) ),*];

            fn read(value: &Value<'_>, at: At<'_>, errors: &mut BodyErrors) -> Option<Self> {
                let mut members = Members::of(value, at, Self::FIELDS, errors)?;
                $check(&mut members);
                let mut body = Self::default();
                // A field that is wrong keeps its default here; its finding refuses the whole body.
                $( OptionalField::<$kind>::set(&mut body.$field, members.optional(stringify!($field), $read)); )*
                Some(body)
            }

            fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
                $( let object = match OptionalField::<$kind>::given(&self.$field) {
                    Some(value) => object.field(stringify!($field), |out| <$kind as WireValue>::write(out, value.view())),
                    None => object,
                }; )*
                object
            }
        }
    };
}

task_body! {
    /// A task to be created. Repeating it with the same id is recognised and changes nothing.
    CreateTaskRequest for Definition, InvalidTask, checked by check_creation;
    /// A label for people.
    #[schema(value_type = Option<schema::TaskName>, default = json!(null))]
    name: Option<Arc<str>> = field::name,
    #[schema(schema_with = empty_args)]
    args: JsonObject = field::object,
    #[schema(schema_with = empty_metadata)]
    metadata: JsonObject = field::object,
    #[schema(schema_with = priority_with_default)]
    priority: i64 = field::integer,
    #[schema(schema_with = max_attempts_with_default)]
    max_attempts: i64 = field::max_attempts,
    #[schema(schema_with = routes_with_default)]
    routes: Routes = field::routes,
}

task_body! {
    /// New values for some fields of a task: at least one. Each replaces the old value completely, except that a patch changes
    /// the members that it names.
    #[schema(min_properties = 1)]
    UpdateTaskRequest for Update, InvalidUpdate, checked by check_update;
    /// A label for people, or null for none.
    #[schema(value_type = Option<schema::TaskName>, default = json!(null))]
    name: Option<Arc<str>> = field::name,
    /// What the worker gets.
    #[schema(value_type = Option<Object>, nullable = false)]
    args: JsonObject = field::object,
    /// What the client keeps with the task.
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: JsonObject = field::object,
    #[schema(schema_with = priority)]
    priority: i64 = field::integer,
    #[schema(schema_with = max_attempts)]
    max_attempts: i64 = field::max_attempts,
    #[schema(schema_with = routes)]
    routes: Routes = field::routes,
    /// The result of the task.
    #[schema(value_type = Option<Object>, nullable = false)]
    result: JsonObject = field::object,
    /// A JSON merge patch of the args (RFC 7396): members replace, nested objects merge, null removes a member. Not together
    /// with `args`.
    #[schema(value_type = Option<Object>)]
    args_patch: JsonObject = field::optional_object,
    /// A JSON merge patch of the metadata. Not together with `metadata`.
    #[schema(value_type = Option<Object>)]
    metadata_patch: JsonObject = field::optional_object,
}

fn check_creation(_: &mut Members<'_, '_>) {}

fn check_update(members: &mut Members<'_, '_>) {
    members.require_one(Update::FIELDS, &["args_patch", "metadata_patch"]);
    members.refuse_both("args", "args_patch");
    members.refuse_both("metadata", "metadata_patch");
}

/// An update of every task that matches and is not running, or of none.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkUpdateRequest {
    /// Which tasks, in the filter language; must not be blank.
    #[schema(
        value_type = String, min_length = 1, max_length = 8192, example = "status == \"pending\" and priority < 5"
    )]
    pub filter: Arc<str>,
    /// What changes.
    #[schema(value_type = UpdateTaskRequest)]
    pub changes: Update,
}

impl Body for BulkUpdateRequest {
    const CODE: ErrorCode = ErrorCode::InvalidUpdate;
    const FIELDS: &'static [&'static str] = &["filter", "changes"];

    /// The syntax of the filter is checked later, when the body as a whole is valid.
    fn read(value: &Value<'_>, at: At<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        if !body.has("filter") {
            let (at, errors) = body.errors();
            errors.add_special(ErrorCode::InvalidFilter, &At::Key(at, "filter"), "this field is required");
        }
        let filter = body.optional("filter", field::filter);
        let changes = body.required("changes", |value, at, errors| Update::read(value, *at, errors));
        Some(Self { filter: filter?, changes: changes? })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        object.text("filter", &self.filter).object("changes", |changes| self.changes.write_fields(changes))
    }
}

// The derive does not take over the comment of a field that has its own schema, so these describe themselves.

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
