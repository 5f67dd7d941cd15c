//! Stats of the model: it visits every task, which no other store may do.

use std::collections::BTreeMap;

use taskqueue_core::activity::Unit;
use taskqueue_core::ids::QueueName;
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::stats::{
    ActivitySeries, KnownSpans, PendingDetail, QueueFigures, QueueStats, RouteSelection, SeriesSelection, pending_since,
};
use taskqueue_core::task::{Lifecycle, Status};
use taskqueue_core::time::Timestamp;

use super::state::State;
use crate::StoreError;
use crate::activity::ActivityLog;
use crate::figures::StoreFigures;
use crate::transaction::QueueKey;

pub(super) fn queue_stats(
    state: &State,
    log: &ActivityLog,
    queue: &QueueName,
    routes: &RouteSelection,
    now: Timestamp,
) -> Result<QueueStats, StoreError> {
    let key = state.queue(queue)?;
    let minutes = known_spans(state, log, key, Unit::Minute, QueueStats::needs(now));
    let figures = queue_figures(state, key, routes, PendingDetail::Number, now);
    Ok(QueueStats::of(now, figures, &minutes, state.counts_since))
}

pub(super) fn activity_series(
    state: &State,
    log: &ActivityLog,
    queue: &QueueName,
    selection: SeriesSelection,
    now: Timestamp,
) -> Result<ActivitySeries, StoreError> {
    let key = state.queue(queue)?;
    let spans = known_spans(state, log, key, selection.unit, selection.range(now));
    Ok(ActivitySeries { unit: selection.unit, spans, since: state.counts_since })
}

pub(super) fn figures(
    state: &State,
    queues: &[QueueKey],
    routes: &RouteSelection,
    pending: PendingDetail,
    now: Timestamp,
) -> StoreFigures {
    let exists = |key: &&QueueKey| state.queues.values().any(|known| known == *key);
    let figures = queues.iter().filter(exists).map(|key| (*key, queue_figures(state, *key, routes, pending, now)));
    StoreFigures { now, queues: figures.collect(), looked_at: queues.len(), database_bytes: None }
}

fn queue_figures(
    state: &State,
    key: QueueKey,
    routes: &RouteSelection,
    pending: PendingDetail,
    now: Timestamp,
) -> QueueFigures {
    let mut figures = QueueFigures::default();
    let mut oldest: BTreeMap<String, &Lifecycle> = BTreeMap::new();
    let (mut claimable, mut blocked) = (0, 0);
    for (_, task) in state.tasks_of(key) {
        let routes = &task.definition.routes;
        if task.lifecycle.archived {
            continue;
        }
        figures.add_tasks(routes.iter(), task.lifecycle.status, 1);
        blocked += u64::from(task.lifecycle.status == Status::Pending && task.lifecycle.unmet > 0);
        if State::waits_for_a_claim(&task.lifecycle, now) {
            claimable += 1;
            for route in routes.iter() {
                let first = oldest.entry(route.to_owned()).or_insert(&task.lifecycle);
                if task.lifecycle.pending_seq < first.pending_seq {
                    *first = &task.lifecycle;
                }
            }
        }
    }
    for worker in state.observations_of(key, None, now) {
        figures.add_workers(worker.report.route.as_str(), worker.report.status, 1);
    }
    figures.set_settings(state.settings(key));
    if pending == PendingDetail::ByState {
        figures.set_pending(CountedParts { claimable: Some(claimable), delayed: None, blocked: Some(blocked) });
    }
    figures.keep(routes);
    let told: Vec<String> = figures.routes().map(|(route, _)| route.to_owned()).collect();
    for route in told {
        if let Some(lifecycle) = oldest.get(&route) {
            figures.add_pending_since(&route, pending_since(lifecycle));
        }
    }
    figures
}

fn known_spans(
    state: &State,
    log: &ActivityLog,
    key: QueueKey,
    unit: Unit,
    (from, to): (Timestamp, Timestamp),
) -> KnownSpans {
    let in_memory = log.in_memory(key, unit, (from, to));
    let rows = state
        .activity
        .iter()
        .filter(|((queue, span, _), _)| *queue == key && span.unit == unit && (from..to).contains(&span.start));
    log.sum(in_memory, rows.map(|((_, span, process), activity)| (span.start, *process, activity.clone())))
}
