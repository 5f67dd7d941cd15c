//! A worker observation.

use anstyle::AnsiColor;
use taskqueue_api::worker::write_observation;
use taskqueue_client::{JsonObject, Observation, WorkerStatus};
use taskqueue_core::json::{Found, lookup};
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
        Column::shrinking("WHERE"),
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
            Cell::optional(place(&self.report.metadata)),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self);
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}

/// `gpu-3, slot 0, pid 4711`: as far as the worker says. Other workers than ours say what they like.
fn place(metadata: &JsonObject) -> Option<String> {
    let Some(Found::Str(host)) = lookup(metadata.as_str(), &["host"]) else { return None };
    let number = |name: &str| match lookup(metadata.as_str(), &[name]) {
        Some(Found::Int(number)) => format!(", {name} {number}"),
        _ => String::new(),
    };
    Some(format!("{}{}{}", host.to_text(), number("slot"), number("pid")))
}
