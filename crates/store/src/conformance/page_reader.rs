//! Pages as the tests read them: every field that a store shows of a task, as a task again (without what no client sees: its run and
//! its place in the pending order).

use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::LastRun;

use super::prelude::*;

/// One page of a list, as tasks.
pub async fn list(store: &dyn Store, queue: &QueueName, query: TaskQuery) -> Result<Page<Task>, StoreError> {
    store.list_rows(queue, query, row).await
}

/// All pages of a list, one after the other.
pub async fn pages(store: &dyn Store, queue: &QueueName, query: TaskQuery) -> Result<Vec<Vec<Task>>, StoreError> {
    let next_page = async |after| list(store, queue, TaskQuery { after, ..query.clone() }).await;
    join(next_page).await
}

/// The items of all pages, in their pages.
pub async fn join<T>(
    mut next_page: impl AsyncFnMut(Option<Position>) -> Result<Page<T>, StoreError>,
) -> Result<Vec<Vec<T>>, StoreError> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let Page { items, next } = next_page(after).await?;
        assert!(next.is_none() || !items.is_empty(), "an empty page cannot be followed by another");
        pages.push(items);
        after = next;
        if after.is_none() {
            return Ok(pages);
        }
    }
}

/// A finished run of which only the id is shown.
pub fn shown_run(run_id: RunId) -> FinishedRun {
    FinishedRun { run_id, end: RunEnd::Complete }
}

/// A task of a page, and how many of its bytes it takes.
pub fn row(shown: &TaskView<'_>) -> (Task, usize) {
    let object = JsonObject::from_canonical;
    let run_id = |text: Option<&str>| text.map(|text| RunId::parse(text).unwrap());
    let definition = Definition {
        name: shown.name.map(Into::into),
        args: object(shown.args),
        metadata: object(shown.metadata),
        priority: shown.priority,
        max_attempts: shown.max_attempts,
        routes: Routes::from_json(shown.routes),
        scheduling: shown.scheduling.map(|text| Scheduling::from_json(text).unwrap()).unwrap_or_default(),
    };
    let lifecycle = Lifecycle {
        status: shown.status,
        attempt: shown.attempt,
        pending_seq: 0,
        last_route: shown.last_route.map(|route| Route::parse(route).unwrap()),
        created_at: shown.created_at,
        updated_at: shown.updated_at,
        started_at: shown.started_at,
        finished_at: shown.finished_at,
        run: None,
        // The run id of a last run is all that a list shows of finished runs.
        finished_run: shown.last_run.and_then(|run| run_id(run.run_id)).map(shown_run),
        not_before: shown.not_before,
        unmet: 0,
        archived: shown.archived,
    };
    let last_error = shown.last_error.map(|error| LastError {
        failure: Failure {
            kind: error.kind.into(),
            message: error.message.into(),
            traceback: error.traceback.map(Into::into),
        },
        occurred_at: error.occurred_at,
        attempt: error.attempt,
        run_id: run_id(error.run_id),
    });
    let last_run = shown.last_run.map(|run| LastRun { attempt: run.attempt, worker: object(run.worker) });
    let progress = shown.progress.map(|value| Progress {
        value: object(value),
        updated_at: shown.progress_updated_at.unwrap(),
        attempt: shown.progress_attempt.unwrap(),
    });
    let outcome = Outcome { result: object(shown.result), last_error, last_run, progress };
    let queue = QueueName::parse(shown.queue).unwrap();
    (Task { queue, id: shown.id, definition, lifecycle, outcome }, shown.bytes())
}
