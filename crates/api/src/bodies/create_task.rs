//! The body that creates a task: every field may be left out.

use taskqueue_core::definition::Definition;
use taskqueue_core::json::Value;

use super::error::{At, Findings};
use super::members::Members;
use super::{Body, field};
use crate::ErrorCode;

impl Body for Definition {
    const CODE: ErrorCode = ErrorCode::InvalidTask;
    const FIELDS: &'static [&'static str] = &["name", "args", "metadata", "priority", "max_attempts", "routes"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        let mut definition = Self::default();
        // A field that is wrong keeps its default here; its finding refuses the whole body.
        if let Some(name) = body.optional("name", field::name) {
            definition.name = name;
        }
        if let Some(args) = body.optional("args", field::object) {
            definition.args = args;
        }
        if let Some(metadata) = body.optional("metadata", field::object) {
            definition.metadata = metadata;
        }
        if let Some(priority) = body.optional("priority", field::integer) {
            definition.priority = priority;
        }
        if let Some(max_attempts) = body.optional("max_attempts", field::max_attempts) {
            definition.max_attempts = max_attempts;
        }
        if let Some(routes) = body.optional("routes", field::routes) {
            definition.routes = routes;
        }
        Some(definition)
    }
}
