//! Many in one request: batches of creations, claims and reports. Good items go to the store together; those that are
//! refused here keep their places in the answer.

use axum::extract::State;
use taskqueue_api::batch::{
    ClaimTasksRequest, ClaimedTasks, CreateTasksRequest, CreatedTasks, RefusedReport, RefusedRun, ReportRunsRequest,
    ReportedRuns, RunItem,
};
use taskqueue_api::parameters::{ClaimPreference, QueuePath};
use taskqueue_api::paths;
use taskqueue_api::task::Creation;
use taskqueue_core::json::JsonObject;
use taskqueue_core::scheduling::SchedulingFields;
use taskqueue_core::{Definition, Route, RunId, TaskId};
use taskqueue_store::StoreError;
use taskqueue_store::command::{ClaimTasks, Claimed, CreateTasks, NewTask, ReportRuns, runs_bytes};
use taskqueue_store::portions::write_items;

use super::HandlerResult;
use crate::error::ApiError;
use crate::extract::{BatchCall, Places, away_from_async};
use crate::state::AppState;
use crate::waiting::{self, Reserved};
use crate::{prefer, respond};

/// Creates up to 1,000 tasks. Each is created, recognised or refused as by a request of its own, in their order.
#[utoipa::path(
    post, path = paths::BATCH_CREATE, tag = "batches", params(QueuePath), request_body = CreateTasksRequest,
    responses((status = 200, description = "What became of each task.", body = CreatedTasks)),
)]
pub(crate) async fn create_tasks(State(state): State<AppState>, mut call: BatchCall) -> HandlerResult {
    let (places, tasks) = call.items(&state, sort_creations, creations_bytes).await?;
    let queue = call.queue()?;
    let reservation = state.budgets.answers.reserve(places.most_bytes()).await?;
    let answers = write_items(&*state.store, CreateTasks { queue, tasks: tasks.into() }, call.into_held()).await?;
    let body = places.answer(0, answers, |out, id, created| match created {
        Ok(created) => CreatedTasks::write(out, id, created),
        Err(refusal) => ApiError::from(refusal).write_item(out, &[("id", id.as_str())]),
    })?;
    Ok(respond::large(reservation, body))
}

/// The bytes that the allocations of the texts of an item take besides them.
const TEXTS_BYTES: usize = 96;

type NewTasks = Vec<(TaskId, Box<NewTask>)>;

fn sort_creations(CreateTasksRequest { tasks }: CreateTasksRequest) -> (Places<TaskId>, NewTasks) {
    let new = |(id, Creation { definition, not_before })| (id, (id, Box::new(NewTask::new(definition, not_before))));
    Places::sort(tasks.into_iter(), new, |refused| ApiError::from(refused.1).into_item(&[("id", &refused.0)]))
}

/// Returns the bytes that they take in memory.
fn creations_bytes((places, new): &(Places<TaskId>, NewTasks)) -> usize {
    let fixed = size_of::<(TaskId, Box<NewTask>)>() + size_of::<NewTask>() + TEXTS_BYTES;
    let own = |(_, new): &(TaskId, Box<NewTask>)| new.definition.stored_bytes() + scheduling_bytes(&new.definition);
    places.memory_bytes() + new.len() * fixed + new.iter().map(own).sum::<usize>()
}

/// Returns the bytes that the scheduling of a task takes besides its text.
fn scheduling_bytes(Definition { scheduling, .. }: &Definition) -> usize {
    let ids = scheduling.dependencies.len() * size_of::<TaskId>();
    scheduling.as_json().map_or(0, |_| size_of::<SchedulingFields>() + TEXTS_BYTES + ids)
}

/// Claims up to 1,000 tasks of a route, one for each run. With `Prefer: wait=N` the server waits up to N seconds (at most 60)
/// until there is one.
#[utoipa::path(
    post, path = paths::BATCH_CLAIM, tag = "batches",
    params(QueuePath, ClaimPreference), request_body = ClaimTasksRequest,
    responses((status = 200, description = "What each run got.", body = ClaimedTasks)),
)]
pub(crate) async fn claim_tasks(State(state): State<AppState>, mut call: BatchCall) -> HandlerResult {
    let SortedClaims { places, route, run_ids, worker, workers } =
        call.items(&state, sort_claims, SortedClaims::bytes).await?;
    let queue = call.queue()?;
    // Who has a refused item does not wait: it is an item that is not `none`.
    let preference = call.into_wait_preference().filter(|_| places.refused_bytes == 0);
    let claims = ClaimTasks { queue, route, run_ids, worker, workers, measure, most_bytes: 0 };
    let (batch, applied) = waiting::claim_tasks(&state, claims, &places, preference).await?;
    let Reserved { found: items, reservation: room } = batch;
    let task_bytes: usize = items.iter().flatten().flatten().map(|claimed| measure(claimed)).sum();
    let write = move || {
        places.answer(task_bytes, items, |out, run_id, claimed| match claimed {
            Ok(Some(claimed)) => ClaimedTasks::write(out, &claimed.task, run_id, claimed.lease_expires_at),
            Ok(None) => ClaimedTasks::write_none(out, run_id),
            Err(StoreError::Busy) => ApiError::no_room_for_claimed().write_item(out, &[("run_id", run_id.as_str())]),
            Err(error) => ApiError::from(error).write_item(out, &[("run_id", run_id.as_str())]),
        })
    };
    let body = away_from_async(&state, task_bytes, write).await?;
    let mut response = respond::large(room.answer, body);
    response.headers_mut().extend(applied.map(prefer::applied));
    Ok(response)
}

/// Returns the bytes of a claimed task in the answer.
fn measure(claimed: &Claimed) -> usize {
    ClaimedTasks::most_bytes(&claimed.task)
}

struct SortedClaims {
    places: Places<RunId>,
    route: Route,
    run_ids: Vec<RunId>,
    worker: Option<JsonObject>,
    workers: Vec<JsonObject>,
}

impl SortedClaims {
    /// Returns the bytes that they take in memory.
    fn bytes(&self) -> usize {
        let worker_bytes = self.worker.as_ref().map_or(0, |worker| worker.as_str().len());
        self.places.memory_bytes() + runs_bytes(&self.run_ids, &self.workers) + worker_bytes
    }
}

fn sort_claims(ClaimTasksRequest { route, run_ids: given, worker, workers: said }: ClaimTasksRequest) -> SortedClaims {
    let given =
        given.into_iter().enumerate().map(|(place, run_id)| run_id.map(|run_id| (run_id, said.get(place).cloned())));
    let refuse = |refused: RefusedRun| ApiError::from(refused.1).into_item(&[("run_id", &refused.0)]);
    let (places, claims) = Places::sort(given, |(run_id, said)| (run_id, (run_id, said)), refuse);
    let (run_ids, workers): (_, Vec<Option<JsonObject>>) = claims.into_iter().unzip();
    SortedClaims { places, route, run_ids, worker, workers: workers.into_iter().flatten().collect() }
}

/// Takes up to 1,000 reports of runs: heartbeats, completions, failures and unclaims. Each is done or refused as by a request
/// of its own, in their order.
#[utoipa::path(
    post, path = paths::BATCH_REPORT, tag = "batches", params(QueuePath), request_body = ReportRunsRequest,
    responses((status = 200, description = "What became of each report.", body = ReportedRuns)),
)]
pub(crate) async fn report_runs(State(state): State<AppState>, mut call: BatchCall) -> HandlerResult {
    let (places, reports) = call.items(&state, sort_reports, reports_bytes).await?;
    let queue = call.queue()?;
    let reservation = state.budgets.answers.reserve(places.most_bytes()).await?;
    let answers = write_items(&*state.store, ReportRuns { queue, reports: reports.into() }, call.into_held()).await?;
    let body = places.answer(0, answers, |out, (task_id, run_id), done| match done {
        Ok(lease_expires_at) => ReportedRuns::write(out, task_id, run_id, lease_expires_at),
        Err(refusal) => {
            ApiError::from(refusal).write_item(out, &[("task_id", task_id.as_str()), ("run_id", run_id.as_str())]);
        }
    })?;
    Ok(respond::large(reservation, body))
}

type SortedReports = (Places<(TaskId, RunId)>, Vec<RunItem>);

/// Returns the bytes that they take in memory.
fn reports_bytes((places, reports): &SortedReports) -> usize {
    let fixed = size_of::<RunItem>() + TEXTS_BYTES;
    let texts = reports.iter().map(|report| report.action.bytes());
    places.memory_bytes() + reports.len() * fixed + texts.sum::<usize>()
}

fn sort_reports(ReportRunsRequest { reports }: ReportRunsRequest) -> SortedReports {
    let refuse = |refused: RefusedReport| {
        let (ids, error) = *refused;
        ApiError::from(error).into_item(&[("task_id", &ids.task_id), ("run_id", &ids.run_id)])
    };
    Places::sort(reports.into_iter(), |report| ((report.task_id, report.run_id), report), refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_tasks_weigh_more_than_their_text() {
        let id = TaskId::parse("t_0123456789ab").unwrap_or_else(|| panic!("an id"));
        let tasks = (0..1_000).map(|_| Ok((id, Creation::default()))).collect();
        let bytes = creations_bytes(&sort_creations(CreateTasksRequest { tasks }));
        assert!((150_000..600_000).contains(&bytes), "{bytes}");
    }
}
