//! What is going on in a queue, and its activity over time.

use axum::extract::State;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::{QueuePath, StatsQuery};
use taskqueue_api::paths;
use taskqueue_api::stats::{Series, Stats, StatsAnswer};
use taskqueue_core::limits::STATS_ROUTES;
use taskqueue_core::stats::RouteSelection;

use super::HandlerResult;
use crate::extract::Call;
use crate::respond;
use crate::state::AppState;

/// What is going on in a queue: tasks, routes and workers now, and what happened in the last hour. With `series`, what happened
/// in each minute or hour.
#[utoipa::path(
    get, path = paths::STATS, tag = "queues", params(QueuePath, StatsQuery),
    responses(
        (status = 200, description = "Stats, or a series.", body = StatsAnswer),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn queue_stats(State(state): State<AppState>, call: Call) -> HandlerResult {
    let series = call.query().stats()?;
    let queue = call.queue()?;
    let room = state.budgets().reserve_stats().await?;
    let (mut body, routes) = (Vec::new(), RouteSelection::first(STATS_ROUTES));
    match series {
        None => Stats::of(&state.store().queue_stats(&queue, &routes).await?).write(&mut body),
        Some(selection) => Series::of(&state.store().activity_series(&queue, selection).await?).write(&mut body),
    }
    Ok(respond::read(room, body))
}
