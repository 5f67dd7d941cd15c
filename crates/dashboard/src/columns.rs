//! Values of tasks by their path, as columns of tables have them: `status`, `args.lr`, `result.loss`, `last_run.worker.host`. The
//! same paths as those of the filter language and of `taskqueue task list --columns`. Which paths occur in tasks is in `seen.rs`.

mod seen;

use std::borrow::Cow;

use taskqueue_core::definition::routes_of;
use taskqueue_core::filter::Number;
use taskqueue_core::json::{self, Found};
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

pub(crate) use self::seen::{Seen, leaves};

/// Most columns of a table.
pub(crate) const COLUMNS_MAX: usize = 20;
/// Longest path of a column in bytes.
pub(crate) const PATH_BYTES: usize = 200;

/// A column: a path into a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    path: String,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Field(Field),
    /// A value inside one of the JSON documents of a task; without steps the document itself.
    Document(Document, Vec<String>),
}

/// A JSON document of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Args,
    Metadata,
    Result,
    Progress,
    /// What the latest claim said of its worker.
    Worker,
}

impl Document {
    pub(crate) const ALL: [Self; 5] = [Self::Args, Self::Metadata, Self::Result, Self::Progress, Self::Worker];

    /// The path to it.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Metadata => "metadata",
            Self::Result => "result",
            Self::Progress => "progress",
            Self::Worker => "last_run.worker",
        }
    }

    /// Its canonical text, if the task has it.
    pub(crate) fn of<'a>(self, task: &TaskView<'a>) -> Option<&'a str> {
        match self {
            Self::Args => Some(task.args),
            Self::Metadata => Some(task.metadata),
            Self::Result => Some(task.result),
            Self::Progress => task.progress,
            Self::Worker => task.last_run.map(|run| run.worker),
        }
    }
}

/// Declares the fields that hold one value each: the variant, its path, and how it is read.
macro_rules! fields {
    ($( $variant:ident $path:literal $read:expr; )*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Field { $( $variant, )* }

        /// The paths of all fields that hold one value.
        #[cfg(test)]
        const FIELDS: &[&str] = &[$( $path, )*];

        impl Field {
            fn parse(path: &str) -> Option<Self> {
                match path { $( $path => Some(Self::$variant), )* _ => None }
            }

            fn value<'a>(self, task: &TaskView<'a>) -> Option<Value<'a>> {
                match self { $( Self::$variant => read(task, $read), )* }
            }
        }
    };
}

fn read<'a>(task: &TaskView<'a>, read: impl FnOnce(&TaskView<'a>) -> Option<Value<'a>>) -> Option<Value<'a>> {
    read(task)
}

fields! {
    Id "id" |task| Some(Value::Text(Cow::Owned(task.id.as_str().to_owned())));
    Status "status" |task| Some(Value::Status(task.status));
    Name "name" |task| task.name.map(Value::borrowed);
    Priority "priority" |task| Some(Value::integer(task.priority));
    Attempt "attempt" |task| Some(Value::integer(task.attempt));
    MaxAttempts "max_attempts" |task| Some(Value::integer(task.max_attempts));
    Routes "routes" |task| Some(Value::Text(Cow::Owned(routes_of(task.routes).collect::<Vec<_>>().join(","))));
    LastRoute "last_route" |task| task.last_route.map(Value::borrowed);
    CreatedAt "created_at" |task| Some(Value::Time(task.created_at));
    UpdatedAt "updated_at" |task| Some(Value::Time(task.updated_at));
    StartedAt "started_at" |task| task.started_at.map(Value::Time);
    FinishedAt "finished_at" |task| task.finished_at.map(Value::Time);
    ErrorType "last_error.type" |task| task.last_error.map(|error| Value::borrowed(error.kind));
    ErrorMessage "last_error.message" |task| task.last_error.map(|error| Value::borrowed(error.message));
    ErrorTraceback "last_error.traceback" |task| task.last_error.and_then(|error| error.traceback).map(Value::borrowed);
    ErrorRunId "last_error.run_id" |task| task.last_error.and_then(|error| error.run_id).map(Value::borrowed);
    ErrorAttempt "last_error.attempt" |task| task.last_error.map(|error| Value::integer(error.attempt));
    ErrorOccurredAt "last_error.occurred_at" |task| task.last_error.map(|error| Value::Time(error.occurred_at));
    RunAttempt "last_run.attempt" |task| task.last_run.map(|run| Value::integer(run.attempt));
    RunId "last_run.run_id" |task| task.last_run.and_then(|run| run.run_id).map(Value::borrowed);
    Queue "queue" |task| Some(Value::borrowed(task.queue));
    ProgressUpdatedAt "progress_updated_at" |task| task.progress_updated_at.map(Value::Time);
    ProgressAttempt "progress_attempt" |task| task.progress_attempt.map(Value::integer);
    NotBefore "not_before" |task| task.not_before.map(Value::Time);
    Timeout "timeout_seconds" |task| scheduled(task, "timeout_seconds");
    RetryDelay "retry_delay" |task| scheduled(task, "retry_delay");
    Dependencies "dependencies" |task| scheduled(task, "dependencies");
    OnDependencyFailure "on_dependency_failure" |task| scheduled(task, "on_dependency_failure");
    Archived "archived" |task| task.archived.then_some(Value::Json("true"));
}

/// What a task says of when it runs, if it does.
fn scheduled<'a>(task: &TaskView<'a>, member: &str) -> Option<Value<'a>> {
    Value::found(json::lookup(task.scheduling?, &[member])?)
}

/// A value of a task, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(Number),
    Time(Timestamp),
    Status(Status),
    /// A boolean, a list or an object, as JSON.
    Json(&'a str),
}

impl<'a> Value<'a> {
    fn borrowed(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    fn integer(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }

    /// What was found in a document; nothing for null, as nothing is shown for it.
    pub(crate) fn found(found: Found<'a>) -> Option<Self> {
        match found {
            Found::Null => None,
            Found::Bool(value) => Some(Self::Json(if value { "true" } else { "false" })),
            Found::Int(value) => Some(Self::integer(value)),
            Found::Float(value) => Some(Self::Number(Number::Float(value))),
            Found::Str(text) => Some(Self::Text(text.to_text())),
            Found::Array(text) | Found::Object(text) => Some(Self::Json(text)),
        }
    }

    /// Its text: numbers exactly as they are stored, everything that is no text, number or time as JSON.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number_text(*number)),
            Self::Time(at) => Cow::Owned(at.to_string()),
            Self::Status(status) => Cow::Borrowed(status.as_str()),
            Self::Json(text) => Cow::Borrowed(text),
        }
    }
}

fn number_text(number: Number) -> String {
    let value = match number {
        Number::Int(value) => json::Value::Int(value),
        Number::Float(value) => json::Value::Float(value),
    };
    let mut out = Vec::new();
    json::write_value(&mut out, &value);
    // JSON is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

impl Column {
    /// The column of a path; nothing if tasks cannot have it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let path = path.trim();
        if path.len() > PATH_BYTES {
            return None;
        }
        let own = |source| Some(Self { path: path.to_owned(), source });
        if let Some(field) = Field::parse(path) {
            return own(Source::Field(field));
        }
        let inside = |document: Document| {
            let rest = path.strip_prefix(document.path())?;
            let steps = match rest.strip_prefix('.') {
                Some(steps) => steps.split('.').map(str::to_owned).collect(),
                None if rest.is_empty() => Vec::new(),
                None => return None,
            };
            (!steps.contains(&String::new())).then_some((document, steps))
        };
        let (document, steps) = Document::ALL.into_iter().find_map(inside)?;
        own(Source::Document(document, steps))
    }

    /// The columns of the parameter `column`, which may be repeated and may be lists with commas; each once. The others are
    /// what no task can have.
    pub(crate) fn parse_all<'q>(texts: impl Iterator<Item = &'q str>) -> (Vec<Self>, Vec<&'q str>) {
        let (mut columns, mut unknown): (Vec<Self>, Vec<&str>) = (Vec::new(), Vec::new());
        for path in texts.flat_map(|text| text.split(',')).map(str::trim).filter(|path| !path.is_empty()) {
            match Self::parse(path) {
                Some(column) if columns.len() < COLUMNS_MAX && !columns.contains(&column) => columns.push(column),
                Some(_) => {}
                None => unknown.push(path),
            }
        }
        (columns, unknown)
    }

    /// The path, which is also the head of the column.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value of a task; nothing if it is missing or null.
    pub(crate) fn value<'a>(&self, task: &TaskView<'a>) -> Option<Value<'a>> {
        match &self.source {
            Source::Field(field) => field.value(task),
            Source::Document(document, steps) => Value::found(json::lookup(document.of(task)?, steps)?),
        }
    }
}

/// Whether a filter can name this path: keys that are no names cannot be followed there.
pub(crate) fn is_for_filters(path: &str) -> bool {
    let is_name = |step: &str| {
        step.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && step.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    path.split('.').all(is_name)
}

#[cfg(test)]
pub(crate) mod tests {
    use taskqueue_core::filter::{LastErrorFields, LastRunFields, TaskFilter};
    use taskqueue_core::ids::TaskId;

    use super::*;

    /// A task that has run, with these args and this result.
    pub(crate) fn task<'a>(args: &'a str, result: &'a str) -> TaskView<'a> {
        let at = Timestamp::from_micros(1_000_000);
        TaskView {
            id: TaskId::parse("t_exampletask0").expect("an id"),
            queue: "q",
            status: Status::Failed,
            name: Some("a name"),
            args,
            metadata: r#"{"batch":"sweep7"}"#,
            priority: -5,
            attempt: 2,
            max_attempts: 3,
            routes: r#"["cpu","gpu"]"#,
            result,
            last_error: Some(LastErrorFields {
                kind: "OutOfMemory",
                message: "CUDA out of memory",
                traceback: None,
                occurred_at: at,
                attempt: 2,
                run_id: Some("r_exampletask0"),
            }),
            last_route: Some("gpu"),
            created_at: at,
            updated_at: at,
            started_at: Some(at),
            finished_at: None,
            last_run: Some(LastRunFields { attempt: 2, worker: r#"{"host":"gpu-1","slot":0}"#, run_id: None }),
            progress: Some(r#"{"step":9007199254740993,"total":10000000000000000}"#),
            progress_updated_at: Some(at),
            progress_attempt: Some(2),
            not_before: None,
            scheduling: None,
            archived: false,
            unmet: 0,
        }
    }

    #[test]
    fn values_are_found_by_path_and_written_as_they_are_stored() {
        let task = TaskView {
            not_before: Some(Timestamp::from_micros(2_000_000)),
            scheduling: Some(r#"{"dependencies":["t_exampletask1"],"timeout_seconds":7200}"#),
            archived: true,
            ..task(r#"{"deep":{"list":[1,"a"],"on":true},"lr":1e-5,"none":null,"text":"a\"b"}"#, "{}")
        };
        let cases = [
            ("id", Some("t_exampletask0")),
            ("status", Some("failed")),
            ("priority", Some("-5")),
            ("routes", Some("cpu,gpu")),
            ("created_at", Some("1970-01-01T00:00:01.000000Z")),
            ("finished_at", None),
            ("args.lr", Some("1e-5")),
            ("args.deep.list", Some(r#"[1,"a"]"#)),
            ("args.deep.on", Some("true")),
            ("args.text", Some("a\"b")),
            ("args.none", None),
            ("args.lr.deeper", None),
            ("result", Some("{}")),
            ("result.loss", None),
            ("progress.step", Some("9007199254740993")),
            ("last_error.type", Some("OutOfMemory")),
            ("last_error.traceback", None),
            ("last_run.worker.host", Some("gpu-1")),
            ("metadata.batch", Some("sweep7")),
            ("not_before", Some("1970-01-01T00:00:02.000000Z")),
            ("timeout_seconds", Some("7200")),
            ("retry_delay", None),
            ("dependencies", Some(r#"["t_exampletask1"]"#)),
            ("archived", Some("true")),
        ];
        for (path, expected) in cases {
            let column = Column::parse(path).expect(path);
            let value = column.value(&task);
            let text = value.as_ref().map(Value::text);
            assert_eq!(text.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn only_what_a_task_can_have_is_a_column() {
        for path in
            ["", "lr", "args.", "args..x", ".args", "argsx", "status.x", "last_error", "last_error.x", "last_run"]
        {
            assert_eq!(Column::parse(path), None, "{path}");
        }
        assert_eq!(Column::parse(&format!("args.{}", "x".repeat(PATH_BYTES))), None);
        for path in FIELDS {
            assert!(Column::parse(path).is_some(), "{path}");
        }
    }

    #[test]
    fn lists_of_columns_are_read_once_each_and_bounded() {
        let (columns, unknown) = Column::parse_all(["args.lr, id,,args.lr", "what", "result.loss"].into_iter());
        assert_eq!(columns.iter().map(Column::path).collect::<Vec<_>>(), ["args.lr", "id", "result.loss"]);
        assert_eq!(unknown, ["what"]);
        let many: Vec<String> = (0..50).map(|n| format!("args.a{n}")).collect();
        assert_eq!(Column::parse_all(many.iter().map(String::as_str)).0.len(), COLUMNS_MAX);
    }

    #[test]
    fn only_names_can_be_followed_by_filters() {
        for (path, expected) in [
            ("args.lr", true),
            ("status", true),
            ("args._a1", true),
            ("args.a-b", false),
            ("args.1a", false),
            ("args.my key", false),
            ("args.", false),
        ] {
            assert_eq!(
                (is_for_filters(path), TaskFilter::parse(&format!("exists({path})")).is_ok()),
                (expected, expected),
                "{path}"
            );
        }
    }
}
