//! A queue, which is its name; and for people how many tasks it has.

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

/// A row of the list of queues. Programs get what the API says of a queue.
#[derive(Debug)]
pub(crate) struct CountedQueueRecord {
    pub(crate) queue: QueueRecord,
    /// In the order of `Status::ALL`; none if they are not known.
    pub(crate) counts: Option<[u64; 5]>,
}

impl Record for CountedQueueRecord {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("NAME"),
        Column::number("PENDING"),
        Column::number("RUNNING"),
        Column::number("SUCCEEDED"),
        Column::number("FAILED"),
        Column::number("CANCELLED"),
    ];

    const LEAVE_OUT: &'static [&'static str] = &["CANCELLED", "SUCCEEDED", "FAILED", "RUNNING", "PENDING"];

    const FIELDS: &'static [&'static str] = QueueRecord::FIELDS;

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let counts = match self.counts {
            Some(counts) => counts.map(Cell::number),
            None => [None::<&str>; 5].map(Cell::optional),
        };
        self.queue.cells(now).into_iter().chain(counts).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.queue.write_json(out);
    }

    fn key(&self) -> String {
        self.queue.key()
    }
}
