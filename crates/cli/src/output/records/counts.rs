//! Counts, plain and by group.

use taskqueue_api::lists::{self as api, Count};
use taskqueue_client::Group;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;

use crate::field_path::FieldPath;
use crate::output::{Cell, Column, Record};

/// How many.
#[derive(Debug)]
pub(crate) struct CountRecord(pub(crate) u64);

impl Record for CountRecord {
    const COLUMNS: &'static [Column<'static>] = &[Column::number("COUNT")];

    const FIELDS: &'static [&'static str] = &["count"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::number(self.0)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        Count::write(out, self.0);
    }

    fn key(&self) -> String {
        self.0.to_string()
    }
}

/// How many of one group.
#[derive(Debug)]
pub(crate) struct GroupRecord<'d> {
    /// What is grouped by.
    pub(crate) dimensions: &'d [&'static str],
    /// The values of the group and its count.
    pub(crate) group: Group,
}

impl Record for GroupRecord<'_> {
    const COLUMNS: &'static [Column<'static>] = &[Column::number("COUNT"), Column::text("GROUP")];

    const FIELDS: &'static [&'static str] = &["count"];

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
