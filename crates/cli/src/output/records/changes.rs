//! What a command did to tasks or would do: numbers, tasks that are not created yet (`--dry-run`), tasks that would be changed, copies;
//! and plain counts.

use taskqueue_api::body::Body;
use taskqueue_api::lists as api;
use taskqueue_api::lists::Count;
use taskqueue_client::{Creation, Group, Status, TaskId};
use taskqueue_core::fields::optional_defined_fields;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::Timestamp;

use super::task::scheduling_details;
use crate::field_path::FieldPath;
use crate::output::record::field_paths;
use crate::output::{Cell, Columns, Record, columns};

/// The numbers of tasks that were created or changed, or not.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Named counts, the one that matters most first.
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// Whether the time was over, if they were waited for.
    pub(crate) timed_out: Option<bool>,
}

impl Summary {
    pub(crate) fn of(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        Self { counts: counts.into_iter().collect(), timed_out: None }
    }

    /// The sentence for people: the first count, and the others where they are not zero.
    pub(crate) fn sentence(&self) -> String {
        let shown = self.counts.iter().enumerate().filter(|(index, (_, count))| *index == 0 || *count > 0);
        let parts: Vec<String> =
            shown.map(|(_, (name, count))| format!("{count} {}", name.replace('_', " "))).collect();
        parts.join(", ")
    }
}

impl Record for Summary {
    fn fields(&self) -> Vec<FieldPath> {
        let counts = self.counts.iter().map(|(name, _)| *name);
        counts.chain(self.timed_out.map(|_| "timed_out")).map(FieldPath::new).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let object = ObjectWriter::append_to(out);
        let object = self.counts.iter().fold(object, |object, (name, count)| object.integer(name, *count));
        object.optional(self.timed_out, |object, is_over| object.boolean("timed_out", is_over)).end();
    }

    fn key(&self) -> String {
        self.counts.first().map_or(0, |(_, count)| *count).to_string()
    }
}

/// A task to be created.
#[derive(Debug)]
pub(crate) struct PlannedRecord<'a> {
    pub(crate) id: TaskId,
    /// The task to be.
    pub(crate) creation: &'a Creation,
}

impl PlannedRecord<'_> {
    fn view(&self) -> TaskView<'_> {
        TaskView::planned(self.id, &self.creation.definition, self.creation.not_before)
    }
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: Columns = columns![text "ID", shrinking "NAME", shrinking "ARGS", with_values "WAITS" 10];

    const FIELDS: &'static str = "id,name,args,metadata,priority,max_attempts,routes";

    /// The columns of what is used beyond the contract stand behind the others.
    fn fields(&self) -> Vec<FieldPath> {
        let own = field_paths(Self::FIELDS).into_iter();
        let task = self.view();
        let used = optional_defined_fields().filter(|field| field.value(&task).is_some());
        let used = used.map(|field| FieldPath::new(field.path));
        own.chain(used).collect()
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let definition = &self.creation.definition;
        let waits = scheduling_details(&self.view(), now);
        let waits: Vec<String> = waits.into_iter().map(|(name, words)| format!("{name} {words}")).collect();
        vec![
            Cell::new(self.id.as_str()),
            Cell::optional(definition.name.as_deref()),
            Cell::new(definition.args.as_str()),
            Cell::optional((!waits.is_empty()).then(|| waits.join("; "))),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.creation.write_fields(ObjectWriter::append_to(out).text("id", self.id.as_str())).end();
    }
}

/// A value before and after a change, as JSON; nothing where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldChange {
    pub(crate) path: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// A task and the changes that would be made to it.
#[derive(Debug)]
pub(crate) struct ChangedRecord {
    pub(crate) id: TaskId,
    pub(crate) status: Status,
    pub(crate) changes: Vec<FieldChange>,
}

impl Record for ChangedRecord {
    const COLUMNS: Columns = columns![text "ID", text "STATUS", shrinking "CHANGES"];

    const FIELDS: &'static str = "id,status,changes";

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
                    let change = change.optional(from.as_ref(), |change, json| change.json("from", json));
                    change.optional(to.as_ref(), |change, json| change.json("to", json))
                })
            })
        });
        changes.end();
    }
}

/// A task that is submitted again.
#[derive(Debug)]
pub(crate) struct RerunRecord {
    pub(crate) old_id: TaskId,
    pub(crate) new_id: TaskId,
    /// Whether the copy exists for sure, once there is an answer.
    pub(crate) is_created: Option<bool>,
}

impl Record for RerunRecord {
    const COLUMNS: Columns = columns![text "ID", text "NEW ID"];

    const FIELDS: &'static str = "old_id,new_id";

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out).text("old_id", self.old_id.as_str()).text("new_id", self.new_id.as_str()).end();
    }

    /// The id of the copy: what a script waits for.
    fn key(&self) -> String {
        self.new_id.to_string()
    }
}

impl Record for Count {
    const COLUMNS: Columns = columns![number "COUNT"];

    const FIELDS: &'static str = "count";

    fn write_json(&self, out: &mut Vec<u8>) {
        self.write(out);
    }
}

/// The count of one group.
#[derive(Debug)]
pub(crate) struct GroupRecord<'d> {
    /// The dimensions of the group.
    pub(crate) dimensions: &'d [&'static str],
    /// The values of the group and its count.
    pub(crate) group: Group,
}

impl Record for GroupRecord<'_> {
    const COLUMNS: Columns = columns![number "COUNT", text "GROUP"];

    const FIELDS: &'static str = "count";

    fn fields(&self) -> Vec<FieldPath> {
        let dimension = |name: &&str| FieldPath::new(&format!("key.{name}")).with_head(name);
        self.dimensions.iter().map(dimension).chain([FieldPath::new("count")]).collect()
    }

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let group = match self.group.key.as_slice() {
            [only] => Status::parse(only).map_or_else(|| Cell::new(only), Cell::status),
            values => Cell::new(values.join(", ")),
        };
        vec![Cell::number(self.group.count), group]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        api::Group::write(out, self.dimensions, &self.group);
    }

    fn key(&self) -> String {
        // Neither routes nor statuses have blanks.
        format!("{} {}", self.group.key.join(" "), self.group.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_what_happened_and_not_what_did_not() {
        let summary = Summary::of([("created", 0), ("already_there", 3), ("refused", 0)]);
        assert_eq!(summary.sentence(), "0 created, 3 already there");
        assert_eq!(summary.json(), r#"{"created":0,"already_there":3,"refused":0}"#);
        assert_eq!(summary.key(), "0");
    }

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
