//! Cancelling, requeueing and deleting all tasks that match a filter, the extension `bulk-actions` (docs/decisions/0017): the body
//! and the answer.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::json::{ObjectWriter, Value};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field};
use crate::object_reader::{ObjectReader, Unreadable, WireValue, wire_object};
use crate::paths;

/// The path of an action.
pub const fn path(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Cancel => paths::BULK_CANCEL,
        BulkAction::Requeue => paths::BULK_REQUEUE,
        BulkAction::Delete => paths::BULK_DELETE,
    }
}

/// Which tasks to act on.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkActionRequest {
    /// Which tasks, in the filter language; must not be blank. The action leaves out tasks of states that it does not apply
    /// to.
    #[schema(value_type = String, min_length = 1, max_length = 8192, example = "status == \"failed\"")]
    pub filter: Arc<str>,
    /// How many tasks must match; with any other number nothing changes.
    #[schema(value_type = Option<i64>, minimum = 0)]
    pub expect: Option<u64>,
    /// Whether to count only. False, null and absent are the same.
    #[schema(value_type = Option<bool>, default = false)]
    pub dry_run: bool,
    /// Whether archived tasks are meant, too. False, null and absent are the same.
    #[schema(value_type = Option<bool>, default = false)]
    pub include_archived: bool,
}

impl Body for BulkActionRequest {
    const CODE: ErrorCode = ErrorCode::InvalidRequest;
    const FIELDS: &'static [&'static str] = &["filter", "expect", "dry_run", "include_archived"];

    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
        let mut body = Members::of(value, at, Self::FIELDS, errors)?;
        let filter = body.filter();
        let expect = body.optional("expect", field::or_absent(field::count));
        let dry_run = body.optional("dry_run", field::flag).unwrap_or(false);
        let include_archived = body.optional("include_archived", field::flag).unwrap_or(false);
        Some(Self { filter: filter?, expect, dry_run, include_archived })
    }

    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
        let object = object.text("filter", &self.filter);
        let object = object.optional(self.expect, |object, expected| object.integer("expect", expected));
        let object = if self.dry_run { object.boolean("dry_run", true) } else { object };
        if self.include_archived { object.boolean("include_archived", true) } else { object }
    }
}

wire_object! {
    /// What a bulk action did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct Acted, "bulk action" {
        /// Matching tasks that the action applies to, at its beginning.
        #[schema(minimum = 0)]
        pub matched: u64,
        /// Those that were changed: none by a dry run, and fewer than matched if others were faster or the time was over. Then
        /// repeat the request.
        #[schema(minimum = 0)]
        pub changed: u64,
    }
}
