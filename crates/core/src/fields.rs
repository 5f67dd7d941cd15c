//! The one table of the fields of a task: what each is called, what it holds, who sets it, and where it can be asked for or shown.
//! Columns, menus, completion, help and the comparison of definitions follow from it; tests hold request bodies, tasks and the
//! filter language, which this builds on, to it. What the values mean stays with the rules.

use std::borrow::Cow;

use crate::batch_label::is_same_metadata;
use crate::definition::routes_of;
use crate::filter::Number;
use crate::json::{self, Found, JsonObject};
use crate::scheduling::RetryDelay;
use crate::status::Status;
use crate::task_view::TaskView;
use crate::time::Timestamp;
use crate::words::{self, Units, exact_duration};

/// A field of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskField {
    /// Its path in the JSON of a task, in filters and in columns.
    pub path: &'static str,
    /// Its name in sentences of pages.
    pub label: &'static str,
    pub kind: Kind,
    pub set_by: SetBy,
    /// Only tasks that use it have it.
    pub is_optional: bool,
    /// Filters can ask for it.
    pub is_filterable: bool,
    /// Its place in the menu of columns; `None` if that does not offer it.
    pub menu_place: Option<u8>,
    value: for<'a> fn(&TaskView<'a>) -> Option<Value<'a>>,
}

/// The type of a field, which also decides how it is shown in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    /// A duration as an integer.
    Seconds,
    Time,
    Status,
    Flag,
    /// A set of routes.
    Routes,
    TaskIds,
    RetryDelay,
    /// An object that belongs to the users.
    Document,
}

/// Who gives a field its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    Server,
    /// Creations, lines of `submit --from`, updates and bulk updates.
    CreationAndUpdate,
    /// Updates and bulk updates only.
    Update,
}

/// All fields. `scheduled` finds those of the optional ones that are stored together by their names.
#[rustfmt::skip]
pub const FIELDS: &[TaskField] = &[
    field("id", Kind::Text, |task| Some(Value::owned(task.id.as_str()))).filterable().menu(19),
    field("queue", Kind::Text, |task| Some(Value::borrowed(task.queue))),
    field("status", Kind::Status, |task| Some(Value::Status(task.status))).filterable(),
    field("name", Kind::Text, |task| task.name.map(Value::borrowed)).filterable().defined("name"),
    field("args", Kind::Document, |task| Some(Value::Json(task.args))).filterable().defined("args"),
    field("metadata", Kind::Document, |task| Some(Value::Json(task.metadata))).filterable().defined("metadata"),
    field("priority", Kind::Integer, |task| Some(Value::integer(task.priority))).filterable().menu(6).defined("priority"),
    field("attempt", Kind::Integer, |task| Some(Value::integer(task.attempt))).filterable().menu(1),
    field("max_attempts", Kind::Integer, |task| Some(Value::integer(task.max_attempts))).filterable().menu(7).defined("attempts"),
    field("routes", Kind::Routes, |task| Some(routes(task))).filterable().menu(8).defined("routes"),
    field("last_route", Kind::Text, |task| task.last_route.map(Value::borrowed)).filterable().menu(9),
    field("created_at", Kind::Time, |task| Some(Value::Time(task.created_at))).filterable().menu(2),
    field("updated_at", Kind::Time, |task| Some(Value::Time(task.updated_at))).filterable().menu(3),
    field("started_at", Kind::Time, |task| task.started_at.map(Value::Time)).filterable().menu(4),
    field("finished_at", Kind::Time, |task| task.finished_at.map(Value::Time)).filterable().menu(5),
    field("result", Kind::Document, |task| Some(Value::Json(task.result))).filterable().updated("result"),
    field("last_error.type", Kind::Text, |task| Some(Value::borrowed(task.last_error?.kind))).filterable().menu(12),
    field("last_error.message", Kind::Text, |task| Some(Value::borrowed(task.last_error?.message))).filterable().menu(13),
    field("last_error.traceback", Kind::Text, |task| task.last_error?.traceback.map(Value::borrowed)).filterable(),
    field("last_error.run_id", Kind::Text, |task| task.last_error?.run_id.map(Value::borrowed)).filterable(),
    field("last_error.attempt", Kind::Integer, |task| Some(Value::integer(task.last_error?.attempt))).filterable(),
    field("last_error.occurred_at", Kind::Time, |task| Some(Value::Time(task.last_error?.occurred_at))).filterable(),
    field("last_run.attempt", Kind::Integer, |task| Some(Value::integer(task.last_run?.attempt))).optional().filterable(),
    field("last_run.run_id", Kind::Text, |task| task.last_run?.run_id.map(Value::borrowed)).optional().filterable(),
    field("last_run.worker", Kind::Document, |task| Some(Value::Json(task.last_run?.worker))).optional().filterable().menu(11),
    field("progress", Kind::Document, |task| task.progress.map(Value::Json)).optional().filterable().menu(10),
    field("progress_updated_at", Kind::Time, |task| task.progress_updated_at.map(Value::Time)).optional(),
    field("progress_attempt", Kind::Integer, |task| task.progress_attempt.map(Value::integer)).optional(),
    field("not_before", Kind::Time, |task| task.not_before.map(Value::Time)).optional().menu(14).defined("not before"),
    field("retry_delay", Kind::RetryDelay, |task| scheduled(task, "retry_delay")).optional().menu(16).defined("retry delay"),
    field("timeout_seconds", Kind::Seconds, |task| scheduled(task, "timeout_seconds")).optional().menu(15).defined("time limit"),
    field("dependencies", Kind::TaskIds, |task| scheduled(task, "dependencies")).optional().menu(17).defined("dependencies"),
    field("on_dependency_failure", Kind::Text, |task| scheduled(task, "on_dependency_failure")).optional().defined("what happens if a dependency fails"),
    field("archived", Kind::Flag, |task| task.archived.then_some(Value::Json("true"))).optional().filterable().menu(18).updated("archived"),
];

/// A field that the server sets and that can only be read.
const fn field(path: &'static str, kind: Kind, value: for<'a> fn(&TaskView<'a>) -> Option<Value<'a>>) -> TaskField {
    let (is_optional, is_filterable, menu_place) = (false, false, None);
    TaskField { path, label: path, kind, set_by: SetBy::Server, is_optional, is_filterable, menu_place, value }
}

fn routes<'a>(task: &TaskView<'a>) -> Value<'a> {
    Value::owned(&routes_of(task.routes).collect::<Vec<_>>().join(","))
}

fn scheduled<'a>(task: &TaskView<'a>, member: &str) -> Option<Value<'a>> {
    Value::found(json::lookup(task.scheduling?, &[member])?)
}

impl TaskField {
    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    const fn filterable(self) -> Self {
        Self { is_filterable: true, ..self }
    }

    const fn menu(self, place: u8) -> Self {
        Self { menu_place: Some(place), ..self }
    }

    /// A part of the definition.
    const fn defined(self, label: &'static str) -> Self {
        Self { label, set_by: SetBy::CreationAndUpdate, ..self }
    }

    /// Not a part of the definition.
    const fn updated(self, label: &'static str) -> Self {
        Self { label, set_by: SetBy::Update, ..self }
    }

    /// The field with exactly this path.
    pub fn find(path: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.path == path)
    }

    /// The first step of its path.
    pub fn head(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(head, _)| head)
    }

    /// Its value in a task; `None` if it is missing or null.
    pub fn value<'a>(&self, task: &TaskView<'a>) -> Option<Value<'a>> {
        (self.value)(task)
    }

    /// Its value is an object whose members can be named.
    pub fn has_members(&self) -> bool {
        matches!(self.kind, Kind::Document | Kind::RetryDelay)
    }
}

/// The fields that creations and lines of `submit --from` may set.
pub fn defined_fields() -> impl Iterator<Item = &'static TaskField> {
    FIELDS.iter().filter(|field| field.set_by == SetBy::CreationAndUpdate)
}

/// Those of them that only tasks have that use them.
pub fn optional_defined_fields() -> impl Iterator<Item = &'static TaskField> {
    defined_fields().filter(|field| field.is_optional)
}

/// The fields that filters can ask for.
pub fn filterable_fields() -> impl Iterator<Item = &'static TaskField> {
    FIELDS.iter().filter(|field| field.is_filterable)
}

/// The paths of the fields inside `head`, such as `last_error`.
pub fn paths_in(head: &str) -> Vec<&'static str> {
    FIELDS.iter().filter(|field| field.head() == head && field.path != head).map(|field| field.path).collect()
}

/// The fields of the menu of columns, in its order.
pub fn menu_fields() -> Vec<&'static TaskField> {
    let mut fields: Vec<&TaskField> = FIELDS.iter().filter(|field| field.menu_place.is_some()).collect();
    fields.sort_by_key(|field| field.menu_place);
    fields
}

/// How the time before which a task cannot be claimed is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeComparison {
    Exact,
    /// It is counted from now, so it is another one each time: it is enough that the task has one.
    Presence,
}

/// The fields of a definition in which a task differs from one that is wanted. The time before which it cannot be claimed counts
/// only until a claim has cleared it.
pub fn different_fields(present: &TaskView<'_>, wanted: &TaskView<'_>, times: TimeComparison) -> Vec<&'static str> {
    let is_unclaimed = present.status == Status::Pending && present.started_at.is_none();
    let is_same = |field: &TaskField| match field.path {
        "metadata" => is_same_metadata(
            &JsonObject::from_canonical(present.metadata),
            &JsonObject::from_canonical(wanted.metadata),
        ),
        "not_before" if !is_unclaimed => true,
        "not_before" if times == TimeComparison::Presence => present.not_before.is_some(),
        _ => field.value(present) == field.value(wanted),
    };
    defined_fields().filter(|field| !is_same(field)).map(|field| field.path).collect()
}

/// A value of a task, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
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

    fn owned(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }

    fn integer(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }

    /// Returns what was found in a document; `None` for null, as nothing is shown for it.
    pub fn found(found: Found<'a>) -> Option<Self> {
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
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Time(at) => Cow::Owned(at.to_string()),
            Self::Status(status) => Cow::Borrowed(status.as_str()),
            Self::Json(text) => Cow::Borrowed(text),
        }
    }

    /// Its text for people who read at `now`, with times and durations in words.
    pub fn words(&self, kind: Kind, now: Timestamp) -> String {
        match (kind, self) {
            (_, Self::Time(at)) => format!("{at} ({})", words::age(*at, now)),
            (Kind::Seconds, Self::Number(Number::Int(seconds))) => seconds_words(*seconds),
            (Kind::TaskIds, Self::Json(ids)) => {
                let ids = json::elements(ids).filter_map(Value::found);
                ids.map(|id| id.text().into_owned()).collect::<Vec<_>>().join(", ")
            }
            (Kind::RetryDelay, Self::Json(text)) => {
                RetryDelay::from_json(text).map_or_else(|| (*text).to_owned(), |delay| retry_delay_words(&delay))
            }
            _ => self.text().into_owned(),
        }
    }
}

/// `10s, 2 times as long each time, at most 1h`.
fn retry_delay_words(delay: &RetryDelay) -> String {
    let [first, longest] = [delay.seconds(), delay.max_seconds()].map(|seconds| exact_duration(seconds, Units::Typed));
    if delay.seconds() >= delay.max_seconds() || delay.factor() <= 1.0 {
        return if delay.seconds() <= delay.max_seconds() { first } else { longest };
    }
    format!("{first}, {} times as long each time, at most {longest}", delay.factor())
}

/// `7200 (2h)`.
fn seconds_words(seconds: i64) -> String {
    let words = exact_duration(seconds as f64, Units::Typed);
    if words == format!("{seconds}s") { words } else { format!("{seconds} ({words})") }
}

#[cfg(test)]
mod tests;
