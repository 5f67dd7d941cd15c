//! The body that updates a task, and the `changes` of a bulk update: at least one field.

use taskqueue_core::json::Value;
use taskqueue_core::update::Update;

use super::error::{At, Findings};
use super::members::Members;
use super::{Body, field};
use crate::ErrorCode;

impl Body for Update {
    const CODE: ErrorCode = ErrorCode::InvalidUpdate;
    const FIELDS: &'static [&'static str] =
        &["name", "args", "metadata", "priority", "max_attempts", "routes", "result"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        changes(value, At::Root("body"), findings)
    }
}

/// The changes at some place of a body.
pub(super) fn changes(value: &Value<'_>, at: At<'_>, findings: &mut Findings) -> Option<Update> {
    let mut body = Members::of(value, at, Update::FIELDS, findings)?;
    if body.is_empty() {
        let (at, findings) = body.findings();
        findings.add(at, format!("name at least one of the fields {}", Update::FIELDS.join(", ")));
    }
    Some(Update {
        name: body.optional("name", field::name),
        args: body.optional("args", field::object),
        metadata: body.optional("metadata", field::object),
        priority: body.optional("priority", field::integer),
        max_attempts: body.optional("max_attempts", field::max_attempts),
        routes: body.optional("routes", field::routes),
        result: body.optional("result", field::object),
    })
}
