//! Saves observations of workers.

use rusqlite::params;
use taskqueue_core::ids::TaskId;
use taskqueue_core::observation::Observation;
use taskqueue_store::transaction::{Loaded, QueueKey};

use super::SqliteTransaction;
use crate::statements as sql;

impl SqliteTransaction<'_> {
    pub(super) fn save_observed(&self, queue: QueueKey, observation: &Observation) -> Loaded<()> {
        let report = &observation.report;
        let values = params![
            queue.0,
            observation.id.as_str(),
            report.route.as_str(),
            report.status.as_str(),
            report.task_id.as_ref().map(TaskId::as_str),
            observation.last_seen_at.as_micros(),
            observation.expires_at.as_micros(),
            report.metadata.as_str(),
            observation.telemetry.as_ref().map(|telemetry| telemetry.value.as_str()),
            observation.telemetry.as_ref().map(|telemetry| telemetry.updated_at.as_micros()),
        ];
        self.run(sql::SAVE_OBSERVATION, values, "saving an observation").map(drop)
    }
}
