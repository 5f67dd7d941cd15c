//! A worker observation, and the wide form of it with what the worker measured.

use anstyle::AnsiColor;
use taskqueue_api::worker::write_observation;
use taskqueue_client::{JsonObject, Observation, WorkerStatus};
use taskqueue_core::json::{Found, lookup};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;
use taskqueue_core::words::telemetry::{Measure, Telemetry};

use crate::output::{Cell, Columns, Record, columns};

/// The place of the column EXPIRES, which the wide form has no room for.
const EXPIRES: usize = 5;

impl Record for Observation {
    // Workers of one machine differ at the end of WHERE, so it is not cut as much as others are.
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", text "EXPIRES",
        shrinking_to "WHERE" 20
    ];

    const LEAVE_OUT: &'static [&'static str] = &["EXPIRES", "LAST SEEN", "ROUTE", "TASK", "WHERE"];

    const FIELDS: &'static str =
        "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.id.as_str()),
            status(self),
            Cell::new(self.report.route.as_str()),
            Cell::optional(self.report.task_id.as_ref().map(|id| id.as_str())),
            Cell::new(words::age(self.last_seen_at, now)),
            Cell::new(words::age(self.expires_at, now)),
            Cell::optional(worker_place(&self.report.metadata)),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self);
    }

    fn key(&self) -> String {
        self.id.to_string()
    }
}

/// An observation with what the worker measured.
#[derive(Debug)]
pub(crate) struct WideWorker<'o>(pub(crate) &'o Observation);

impl Record for WideWorker<'_> {
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "ROUTE", text "TASK", text "LAST SEEN", shrinking "WHERE", number "CPU",
        number "MEMORY", with_values "GPUS" 12, with_values "TELEMETRY" 12, text "MEASURED"
    ];

    const LEAVE_OUT: &'static [&'static str] = &["MEASURED", "LAST SEEN", "ROUTE", "TELEMETRY", "TASK", "WHERE"];

    const FIELDS: &'static str = "id,queue,route,status,task_id,last_seen_at,expires_at,metadata.host,metadata.slot,metadata.pid,\
         telemetry.cpu_percent,telemetry.memory_bytes,telemetry.gpus,telemetry_updated_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let worker = self.0;
        let seen = worker.telemetry.as_ref().map(|telemetry| Telemetry::of(telemetry.value.as_str()));
        let seen = seen.unwrap_or_default();
        let text = |measure: Option<Measure>| Cell::optional(measure.map(|measure| measure.text));
        let gpus = seen.gpus.iter().map(|gpu| format!("{}: {}", gpu.index, gpu.words(" "))).collect::<Vec<_>>();
        let gpus = Some(gpus.join(", ")).filter(|gpus| !gpus.is_empty());
        let mut cells = worker.cells(now);
        cells.remove(EXPIRES);
        cells.extend([
            text(seen.cpu),
            text(seen.memory),
            Cell::optional(gpus),
            Cell::optional(seen.other),
            Cell::optional(worker.telemetry.as_ref().map(|telemetry| words::age(telemetry.updated_at, now))),
        ]);
        cells
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        write_observation(out, self.0);
    }
}

fn status(worker: &Observation) -> Cell {
    let colour = match worker.report.status {
        WorkerStatus::Busy => AnsiColor::Cyan,
        WorkerStatus::Idle => AnsiColor::Green,
    };
    Cell::new(worker.report.status.as_str()).coloured(colour)
}

/// `gpu-3, slot 0, pid 4711`: as far as the worker says. Other workers than ours say what they like.
pub(crate) fn worker_place(metadata: &JsonObject) -> Option<String> {
    let Some(Found::Str(host)) = lookup(metadata.as_str(), &["host"]) else { return None };
    let number = |name: &str| match lookup(metadata.as_str(), &[name]) {
        Some(Found::Int(number)) => format!(", {name} {number}"),
        _ => String::new(),
    };
    let name = match lookup(metadata.as_str(), &["name"]) {
        Some(Found::Str(name)) => format!(" ({})", name.to_text()),
        _ => String::new(),
    };
    Some(format!("{}{name}{}{}", host.to_text(), number("slot"), number("pid")))
}
