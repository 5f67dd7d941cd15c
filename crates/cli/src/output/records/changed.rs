//! A task that would be changed: what `task update --dry-run` shows.

use taskqueue_client::{Status, TaskId};
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

/// A value before and after a change, as JSON; nothing where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldChange {
    pub(crate) path: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// What would become of a task.
#[derive(Debug)]
pub(crate) struct ChangedRecord {
    pub(crate) id: TaskId,
    pub(crate) status: Status,
    pub(crate) changes: Vec<FieldChange>,
}

impl Record for ChangedRecord {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("ID"), Column::text("STATUS"), Column::shrinking("CHANGES")];

    const FIELDS: &'static [&'static str] = &["id", "status", "changes"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let words = |value: &Option<String>| value.as_deref().unwrap_or("none").to_owned();
        let changes = self.changes.iter().map(|change| {
            let FieldChange { path, from, to } = change;
            format!("{path}: {} -> {}", words(from), words(to))
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        vec![Cell::new(self.id.as_str()), Cell::status(self.status), Cell::new(changes)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let record = ObjectWriter::append_to(out).text("id", self.id.as_str()).text("status", self.status.as_str());
        let changes = record.object("changes", |changes| {
            self.changes.iter().fold(changes, |changes, FieldChange { path, from, to }| {
                // What is not there is left out: null is a value.
                changes.object(path, |change| {
                    let values = [("from", from), ("to", to)];
                    values.into_iter().fold(change, |change, (name, value)| match value {
                        Some(json) => change.json(name, json),
                        None => change,
                    })
                })
            })
        });
        changes.end();
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_removed_is_told_from_one_that_is_null() {
        let change = |path: &str, from: Option<&str>, to: Option<&str>| FieldChange {
            path: path.to_owned(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let record = ChangedRecord {
            id: TaskId::parse("t_000000000001").unwrap(),
            status: Status::Pending,
            changes: vec![
                change("removed", Some("1"), None),
                change("nothing", Some("1"), Some("null")),
                change("new", None, Some("2")),
            ],
        };
        let changes = r#"{"removed":{"from":1},"nothing":{"from":1,"to":null},"new":{"to":2}}"#;
        let expected = format!(r#"{{"id":"t_000000000001","status":"pending","changes":{changes}}}"#);
        assert_eq!(record.json(), expected);
    }
}
