//! A queue, which is its name.

use taskqueue_client::Queue;
use taskqueue_core::ids::QueueName;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record};

#[derive(Debug)]
pub(crate) struct QueueRecord(pub(crate) QueueName);

impl Record for QueueRecord {
    const COLUMNS: &'static [Column<'static>] = &[Column::text("NAME")];

    const FIELDS: &'static [&'static str] = &["name"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(self.0.as_str())]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        Queue::write(out, &self.0);
    }

    fn key(&self) -> String {
        self.0.to_string()
    }
}
