//! Writes request bodies. What a body may hold is decided by the reader in `taskqueue_api::bodies`; the tests hold this
//! file to it.

use taskqueue_api::bodies::BulkUpdate;
use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::{JsonObject, write_integer, write_string};
use taskqueue_core::observation::Report;
use taskqueue_core::task::Failure;
use taskqueue_core::update::Update;

/// An object that is being written, one field after the other.
struct Fields(Vec<u8>);

impl Fields {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn field(mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(&mut self.0, name);
        self.0.push(b':');
        write(&mut self.0);
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.field(name, |out| write_string(out, text))
    }

    fn text_or_null(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.json(name, "null"),
        }
    }

    fn integer(self, name: &str, value: i64) -> Self {
        self.field(name, |out| write_integer(out, value))
    }

    fn json(self, name: &str, json: &str) -> Self {
        self.field(name, |out| out.extend_from_slice(json.as_bytes()))
    }

    /// A field that is left out when it has no value.
    fn given<T>(self, value: Option<T>, write: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => write(self, value),
            None => self,
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// The body that creates a task.
pub(crate) fn definition(definition: &Definition) -> Vec<u8> {
    Fields::new()
        .text_or_null("name", definition.name.as_deref())
        .json("args", definition.args.as_str())
        .json("metadata", definition.metadata.as_str())
        .integer("priority", definition.priority)
        .integer("max_attempts", definition.max_attempts)
        .json("routes", definition.routes.as_json())
        .end()
}

/// The body that updates a task: the fields that change and no others.
pub(crate) fn update(update: &Update) -> Vec<u8> {
    Fields::new()
        .given(update.name.as_ref(), |fields, name| fields.text_or_null("name", name.as_deref()))
        .given(update.args.as_ref(), |fields, args| fields.json("args", args.as_str()))
        .given(update.metadata.as_ref(), |fields, metadata| fields.json("metadata", metadata.as_str()))
        .given(update.priority, |fields, priority| fields.integer("priority", priority))
        .given(update.max_attempts, |fields, count| fields.integer("max_attempts", count))
        .given(update.routes.as_ref(), |fields, routes| fields.json("routes", routes.as_json()))
        .given(update.result.as_ref(), |fields, result| fields.json("result", result.as_str()))
        .end()
}

/// The body that updates many tasks.
pub(crate) fn bulk_update(bulk: &BulkUpdate) -> Vec<u8> {
    let changes = update(&bulk.changes);
    Fields::new().text("filter", &bulk.filter).field("changes", |out| out.extend_from_slice(&changes)).end()
}

/// The body of a claim.
pub(crate) fn claim(route: &Route, run_id: RunId) -> Vec<u8> {
    Fields::new().text("route", route.as_str()).text("run_id", run_id.as_str()).end()
}

/// The body of a heartbeat or an unclaim.
pub(crate) fn run(run_id: RunId) -> Vec<u8> {
    Fields::new().text("run_id", run_id.as_str()).end()
}

/// The body of a completion.
pub(crate) fn complete(run_id: RunId, result: &JsonObject) -> Vec<u8> {
    Fields::new().text("run_id", run_id.as_str()).json("result", result.as_str()).end()
}

/// The body of a failure.
pub(crate) fn fail(run_id: RunId, failure: &Failure) -> Vec<u8> {
    let error = Fields::new()
        .text("type", &failure.kind)
        .text("message", &failure.message)
        .text_or_null("traceback", failure.traceback.as_deref())
        .end();
    Fields::new().text("run_id", run_id.as_str()).field("error", |out| out.extend_from_slice(&error)).end()
}

/// The body in which a worker reports itself. Metadata is beyond the contract: who uses none sends the contract's body.
pub(crate) fn report(report: &Report) -> Vec<u8> {
    let metadata = (!report.metadata.is_empty_object()).then_some(&report.metadata);
    Fields::new()
        .text("route", report.route.as_str())
        .text("status", report.status.as_str())
        .text_or_null("task_id", report.task_id.as_ref().map(|id| id.as_str()))
        .given(metadata, |fields, metadata| fields.json("metadata", metadata.as_str()))
        .end()
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
