//! A worker observation.

use anstyle::AnsiColor;
use taskqueue_api::worker::write_observation;
use taskqueue_client::{Observation, WorkerStatus};
use taskqueue_core::time::Timestamp;

use crate::output::{Cell, Column, Record, age};

impl Record for Observation {
    const COLUMNS: &'static [Column<'static>] = &[
        Column::text("ID"),
        Column::text("STATUS"),
        Column::shrinking("ROUTE"),
        Column::text("TASK"),
        Column::text("LAST SEEN"),
        Column::text("EXPIRES"),
    ];

    const FIELDS: &'static [&'static str] =
        &["id", "queue", "route", "status", "task_id", "last_seen_at", "expires_at"];

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

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self);
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}
