//! How many tasks of a queue run that were claimed for each route. A task may list several routes, and figures count it for each of
//! them; a limit counts it for the one that it was claimed for.

use std::collections::HashMap;

use taskqueue_core::ids::QueueName;
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::selection::{TaskOrder, TaskQuery, TaskSelection};
use taskqueue_core::status::Status;
use taskqueue_core::task_view::TaskView;
use taskqueue_store::{Store, StoreError, StoreExt};

/// Running tasks that are looked at. Of more it is not told how many were claimed for a route.
const LOOKED_AT: u16 = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunningByRoute(HashMap<String, u64>);

impl RunningByRoute {
    /// Nothing if too many run.
    pub(super) async fn read(store: &dyn Store, queue: &QueueName) -> Result<Option<Self>, StoreError> {
        let selection = TaskSelection { status: Some(Status::Running), ..TaskSelection::default() };
        let order = TaskOrder::default();
        let query = TaskQuery { selection, order, limit: LOOKED_AT, after: None, max_bytes: PAGE_BYTES };
        let route = |task: &TaskView<'_>| task.last_route.unwrap_or_default().to_owned();
        let page = store.list_rows(queue, query, move |task| (route(task), size_of::<String>())).await?;
        Ok(page.next.is_none().then(|| Self::counted(page.items)))
    }

    fn counted(routes: Vec<String>) -> Self {
        let mut counts = HashMap::new();
        routes.into_iter().for_each(|route| *counts.entry(route).or_default() += 1);
        Self(counts)
    }

    pub(super) fn of(&self, route: &str) -> u64 {
        self.0.get(route).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_for_the_route_that_they_were_claimed_for() {
        let running = RunningByRoute::counted(["gpu", "cpu", "gpu"].map(str::to_owned).to_vec());
        assert_eq!((running.of("gpu"), running.of("cpu"), running.of("tpu")), (2, 1, 0));
    }
}
