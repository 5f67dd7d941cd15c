//! A queue, which is its name.

use taskqueue_core::ids::QueueName;
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, JsonFields, Record};

/// A queue.
#[derive(Debug)]
pub(crate) struct QueueRecord(pub(crate) QueueName);

impl Record for QueueRecord {
    const COLUMNS: &'static [Column] = &[Column::text("NAME")];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(self.0.as_str())]
    }

    fn json(&self) -> String {
        JsonFields::new().text("name", self.0.as_str()).end()
    }

    fn key(&self) -> String {
        self.0.to_string()
    }
}
