//! Cancelling, requeueing and deleting all tasks that match a filter, the extension `bulk-actions` (docs/decisions/0017): the body
//! and the answer.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::BulkAction;
use taskqueue_core::json::{ObjectWriter, Value};
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
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

request_body! {
    /// Which tasks to act on.
    BulkActionRequest, InvalidRequest;
    /// Which tasks, in the filter language; must not be blank. The action leaves out tasks of states that it does not apply
    /// to.
    #[schema(value_type = String, min_length = 1, max_length = 8192, example = "status == \"failed\"")]
    filter: Arc<str> = filter,
    /// How many tasks must match; with any other number nothing changes.
    expect: Option<u64> = optional(field::or_absent(field::count)),
    /// Whether to count only. False, null and absent are the same.
    #[schema(value_type = Option<bool>, default = false)]
    dry_run: bool = default(false, field::flag),
    /// Whether archived tasks are meant, too. False, null and absent are the same.
    #[schema(value_type = Option<bool>, default = false)]
    include_archived: bool = default(false, field::flag),
}

wire_object! {
    /// What a bulk action did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
    pub struct Acted, "bulk action" {
        /// Matching tasks that the action applies to, at its beginning.
        pub matched: u64,
        /// Those that were changed: none by a dry run, and fewer than matched if others were faster or the time was over. Then
        /// repeat the request.
        pub changed: u64,
    }
}
