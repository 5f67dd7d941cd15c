//! The writes of observations.

use std::collections::BTreeSet;

use taskqueue_core::ids::TaskId;

use super::{RowSet, Write, sets};
use crate::statements as sql;
use crate::transaction_rows::{ChangedObservation, TransactionRows};

sets! {
    Reports of ReportRow<'a> {
        queue: i64,
        id: &'a str,
        route: &'a str,
        status: &'a str,
        task_id: Option<&'a str>,
        last_seen_at: i64,
        expires_at: i64,
        metadata: &'a str,
        telemetry: Option<&'a str>,
        telemetry_updated_at: Option<i64>,
    }

    Measurements of MeasurementRow<'a> { queue: i64, id: &'a str, telemetry: &'a str, updated_at: i64, }

    Workers of Worker<'a> { queue: i64, id: &'a str, }
}

#[derive(Default)]
pub(super) struct ObservationChanges<'a> {
    /// Only where several statements follow: a single one locks in the order of the keys by itself.
    locks: Workers<'a>,
    withdrawals: Workers<'a>,
    reports: Reports<'a>,
    measurements: Measurements<'a>,
}

impl<'a> ObservationChanges<'a> {
    pub(super) fn of(rows: &'a TransactionRows) -> Self {
        let mut changes = Self::default();
        for (queue, id) in &rows.withdrawn_observations {
            changes.withdrawals.push(Worker { queue: queue.0, id: id.as_str() });
        }
        for ((queue, id), ChangedObservation { observation, reported }) in &rows.changed_observations {
            let (report, telemetry) = (&observation.report, observation.telemetry.as_ref());
            if !reported {
                let Some(telemetry) = telemetry else { continue };
                changes.measurements.push(MeasurementRow {
                    queue: queue.0,
                    id: id.as_str(),
                    telemetry: telemetry.value.as_str(),
                    updated_at: telemetry.updated_at.as_micros(),
                });
                continue;
            }
            changes.reports.push(ReportRow {
                queue: queue.0,
                id: id.as_str(),
                route: report.route.as_str(),
                status: report.status.as_str(),
                task_id: report.task_id.as_ref().map(TaskId::as_str),
                last_seen_at: observation.last_seen_at.as_micros(),
                expires_at: observation.expires_at.as_micros(),
                metadata: report.metadata.as_str(),
                telemetry: telemetry.map(|telemetry| telemetry.value.as_str()),
                telemetry_updated_at: telemetry.map(|telemetry| telemetry.updated_at.as_micros()),
            });
        }
        let kinds = [changes.withdrawals.count(), changes.reports.count(), changes.measurements.count()];
        if kinds.into_iter().filter(|rows| *rows > 0).count() > 1 {
            let changed = rows.changed_observations.keys().chain(&rows.withdrawn_observations);
            for (queue, id) in changed.collect::<BTreeSet<_>>() {
                changes.locks.push(Worker { queue: queue.0, id: id.as_str() });
            }
        }
        changes
    }

    /// Withdrawals first: a worker may be withdrawn and reported again, and then nothing of what was before is kept.
    pub(super) fn writes(&self) -> [Option<Write<'_>>; 4] {
        [
            self.locks.write(&sql::LOCK_OBSERVATIONS),
            self.withdrawals.write(&sql::DELETE_OBSERVATIONS),
            self.reports.write(&sql::SAVE_OBSERVATIONS),
            self.measurements.write(&sql::SAVE_TELEMETRY),
        ]
    }
}
