//! The body in which a worker reports itself: the three fields of the contract, all required, and optional metadata.

use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::observation::Report;

use super::error::{At, Findings};
use super::members::Members;
use super::{Body, field};
use crate::ErrorCode;

impl Body for Report {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["route", "status", "task_id", "metadata"];

    fn read(value: &Value<'_>, findings: &mut Findings) -> Option<Self> {
        let mut body = Members::of(value, At::Root("body"), Self::FIELDS, findings)?;
        let route = body.required("route", field::route);
        let status = body.required("status", field::worker_status);
        let task_id = body.required("task_id", field::task_id);
        let metadata = if body.has("metadata") {
            body.optional("metadata", field::report_metadata)
        } else {
            Some(JsonObject::empty())
        };
        Some(Self { route: route?, status: status?, task_id: task_id?, metadata: metadata? })
    }
}
