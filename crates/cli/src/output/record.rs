//! What can be printed: a record knows itself as a row, as details, as JSON, as fields and as its key.

use std::borrow::Cow;
use std::collections::BTreeSet;

use taskqueue_core::json::Value;
use taskqueue_core::time::Timestamp;

use super::cell::{Cell, Column};
use crate::field_path::{FieldPath, read_record};

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

    /// What can be a column besides the fields of its JSON.
    fn computed(&self, _now: Timestamp) -> Vec<(&'static str, Value<'static>)> {
        Vec::new()
    }

    /// Everything about it, one field per line, where it is shown alone.
    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        Self::COLUMNS.iter().map(|column| column.head).zip(self.cells(now)).collect()
    }
}

/// The values that columns find by their paths, in the JSON of a record and in what is computed besides.
pub(crate) fn values<'j, R: Record>(record: &R, json: &'j str, now: Timestamp) -> Value<'j> {
    let mut values = read_record(json);
    if let Value::Object(members) = &mut values {
        members.extend(record.computed(now).into_iter().map(|(name, value)| (Cow::Borrowed(name), value)));
    }
    values
}

/// The columns with those in place of each wildcard that one of these records has. One that nothing has stays.
pub(crate) fn expanded<R: Record>(fields: &[FieldPath], records: &[&R]) -> Vec<FieldPath> {
    if !fields.iter().any(FieldPath::is_wildcard) {
        return fields.to_vec();
    }
    let mut names: Vec<BTreeSet<String>> = vec![BTreeSet::new(); fields.len()];
    for record in records {
        let json = record.json();
        let values = read_record(&json);
        for (field, names) in fields.iter().zip(&mut names).filter(|(field, _)| field.is_wildcard()) {
            field.add_members(&values, names);
        }
    }
    let columns = fields.iter().zip(names).flat_map(|(field, names)| match names.is_empty() {
        true => vec![field.clone()],
        false => names.iter().map(|name| field.member(name)).collect(),
    });
    columns.collect()
}
