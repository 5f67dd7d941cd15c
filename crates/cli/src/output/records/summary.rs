//! What a command did to many tasks, in numbers.

use taskqueue_core::json::ObjectWriter;
use taskqueue_core::time::Timestamp;

use crate::field_path::FieldPath;
use crate::output::{Cell, Column, Record};

/// What became of tasks that were to be created or changed: how many went which way.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Named counts, the one that matters most first.
    pub(crate) counts: Vec<(&'static str, u64)>,
}

impl Summary {
    /// The sentence for people: the first count, and the others where they are not zero.
    pub(crate) fn sentence(&self) -> String {
        let shown = self.counts.iter().enumerate().filter(|(index, (_, count))| *index == 0 || *count > 0);
        let parts: Vec<String> =
            shown.map(|(_, (name, count))| format!("{count} {}", name.replace('_', " "))).collect();
        parts.join(", ")
    }

    fn write_counts<'o>(&self, out: &'o mut Vec<u8>) -> ObjectWriter<&'o mut Vec<u8>> {
        let object = ObjectWriter::append_to(out);
        self.counts.iter().fold(object, |object, (name, count)| object.integer(name, *count))
    }
}

impl Record for Summary {
    const COLUMNS: &'static [Column<'static>] = &[Column::text("SUMMARY")];

    const FIELDS: &'static [&'static str] = &[];

    fn fields(&self) -> Vec<FieldPath> {
        self.counts.iter().map(|(name, _)| FieldPath::new(name)).collect()
    }

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(self.sentence())]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.write_counts(out).end();
    }

    fn key(&self) -> String {
        self.counts.first().map_or(0, |(_, count)| *count).to_string()
    }
}

/// How waiting ended.
#[derive(Debug)]
pub(crate) struct WaitSummary {
    /// What became of the tasks.
    pub(crate) summary: Summary,
    /// Whether the time was over.
    pub(crate) timed_out: bool,
}

impl Record for WaitSummary {
    const COLUMNS: &'static [Column<'static>] = Summary::COLUMNS;

    const FIELDS: &'static [&'static str] = Summary::FIELDS;

    fn fields(&self) -> Vec<FieldPath> {
        self.summary.fields().into_iter().chain([FieldPath::new("timed_out")]).collect()
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        self.summary.cells(now)
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.summary.write_counts(out).boolean("timed_out", self.timed_out).end();
    }

    fn key(&self) -> String {
        self.summary.key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_what_happened_and_not_what_did_not() {
        let summary = Summary { counts: vec![("created", 0), ("already_there", 3), ("refused", 0)] };
        assert_eq!(summary.sentence(), "0 created, 3 already there");
        assert_eq!(summary.json(), r#"{"created":0,"already_there":3,"refused":0}"#);
        assert_eq!(summary.key(), "0");
    }
}
