//! The body that updates many tasks: a filter and the changes. The syntax of the filter is looked at later, when the
//! body as a whole is known to be valid.

use std::sync::Arc;

use taskqueue_core::json::Value;
use taskqueue_core::update::Update;

use super::error::{At, Findings};
use super::members::Members;
use super::{Body, update_task};
use crate::ErrorCode;

/// A bulk update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkUpdate {
    /// The text of the filter.
    pub filter: Arc<str>,
    pub changes: Update,
}

impl Body for BulkUpdate {
    const CODE: ErrorCode = ErrorCode::InvalidUpdate;
    const FIELDS: &'static [&'static str] = &["filter", "changes"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        if !body.has("filter") {
            let (at, findings) = body.findings();
            findings.add_special(ErrorCode::InvalidFilter, &At::Key(at, "filter"), "this field is required");
        }
        let filter = body.optional("filter", filter);
        let changes = body.required("changes", |value, at, findings| update_task::changes(value, *at, findings));
        Some(Self { filter: filter?, changes: changes? })
    }
}

fn filter(value: &Value<'_>, at: &At<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let Value::Str(text) = value else {
        findings.add_special(ErrorCode::InvalidFilter, at, "use a string that holds a filter");
        return None;
    };
    Some(text.as_ref().into())
}
