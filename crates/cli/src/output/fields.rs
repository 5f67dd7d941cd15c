//! Tables of the fields that the user named with `--columns`.

use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use super::cell::{Cell, Column};
use super::record::{self, Record};
use crate::field_path::FieldPath;

/// The fields that hold a time of the server.
const TIMES: [&str; 7] = [
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "last_error.occurred_at",
    "progress_updated_at",
    "not_before",
];

/// One column for each field. Ids and statuses are never cut.
pub(crate) fn columns(fields: &[FieldPath]) -> Vec<Column<'_>> {
    let heads = fields.iter().map(|field| field.head.as_str());
    heads
        .map(|head| if matches!(head, "id" | "status") { Column::text(head) } else { Column::shrinking(head) })
        .collect()
}

/// The cells of a record. As in every table, times are shown relative to `now`.
pub(crate) fn cells<R: Record>(fields: &[FieldPath], record: &R, now: Timestamp) -> Vec<Cell> {
    let json = record.json();
    let values = record::values(record, &json, now);
    let cell = |field: &FieldPath| {
        if let Some(cell) = record.field_cell(field, now) {
            return cell;
        }
        let text = field.text(&values);
        let is_time = TIMES.contains(&field.head.as_str());
        let time = text.as_deref().filter(|_| is_time).and_then(Timestamp::parse);
        let status = text.as_deref().filter(|_| field.head == "status").and_then(Status::parse);
        match (time, status) {
            (Some(time), _) => Cell::new(words::age(time, now)),
            (_, Some(status)) => Cell::status(status),
            _ => Cell::optional(text),
        }
    };
    fields.iter().map(cell).collect()
}
