//! A worker observation.

use anstyle::AnsiColor;
use taskqueue_client::{Observation, WorkerStatus};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, JsonFields, Record, age};

impl Record for Observation {
    const COLUMNS: &'static [Column] = &[
        Column::text("ID"),
        Column::text("STATUS"),
        Column::shrinking("ROUTE"),
        Column::text("TASK"),
        Column::text("LAST SEEN"),
        Column::text("EXPIRES"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let colour = match self.report.status {
            WorkerStatus::Busy => AnsiColor::Cyan,
            WorkerStatus::Idle => AnsiColor::Green,
        };
        vec![
            Cell::new(self.id.as_str()),
            Cell::new(self.report.status.as_str()).coloured(colour),
            Cell::new(self.report.route.as_str()),
            Cell::optional(self.report.task_id.as_ref().map(|id| id.as_str())),
            Cell::new(age(self.last_seen_at, now)),
            Cell::new(age(self.expires_at, now)),
        ]
    }

    fn json(&self) -> String {
        let fields = JsonFields::new()
            .text("id", self.id.as_str())
            .text("queue", self.queue.as_str())
            .text("route", self.report.route.as_str())
            .text("status", self.report.status.as_str())
            .text_or_null("task_id", self.report.task_id.as_ref().map(|id| id.as_str()))
            .time("last_seen_at", self.last_seen_at)
            .time("expires_at", self.expires_at);
        // Beyond the contract: only workers that report metadata have the field.
        let metadata = &self.report.metadata;
        if metadata.is_empty_object() { fields.end() } else { fields.json("metadata", metadata.as_str()).end() }
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
