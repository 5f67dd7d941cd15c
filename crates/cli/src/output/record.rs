//! What can be printed: a record knows itself as a row, as details, as JSON, as fields and as its key.

use taskqueue_core::time::Timestamp;

use super::cell::{Cell, Column};
use crate::field_path::FieldPath;

/// One result of a command.
pub(crate) trait Record {
    /// The columns of a table of such records.
    const COLUMNS: &'static [Column<'static>];

    /// The heads of columns that are left out where the terminal is too narrow, the least important first.
    const LEAVE_OUT: &'static [&'static str] = &[];

    /// What `--output csv` prints of it: paths in its JSON.
    const FIELDS: &'static [&'static str];

    /// The cells of its row, one for each column; ages are counted from `now`.
    fn cells(&self, now: Timestamp) -> Vec<Cell>;

    /// Appends the object that programs get.
    fn write_json(&self, out: &mut Vec<u8>);

    /// The object that programs get.
    fn json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        // JSON is UTF-8.
        String::from_utf8(out).unwrap_or_default()
    }

    /// The columns of `--output csv`, where they depend on the record.
    fn fields(&self) -> Vec<FieldPath> {
        Self::FIELDS.iter().map(|path| FieldPath::new(path)).collect()
    }

    /// What `--output quiet` leaves of it: an id, a name or a count.
    fn key(&self) -> String;

    /// What a table shows of a field that the user named, where that is not the value itself.
    fn field_cell(&self, _field: &FieldPath, _now: Timestamp) -> Option<Cell> {
        None
    }

    /// Everything about it, one field per line, where it is shown alone.
    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        Self::COLUMNS.iter().map(|column| column.head).zip(self.cells(now)).collect()
    }
}
