//! The settings of queues in memory, and how many tasks are running in queues whose claims are limited (docs/decisions/0064). A
//! queue without settings costs a look into a table that is empty as long as nobody uses them.

use std::collections::HashMap;
use std::sync::Arc;

use taskqueue_core::ids::Route;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_store::transaction::QueueKey;

use super::ClaimIndex;

/// The settings of all queues that have any.
#[derive(Default)]
pub(super) struct SettingsIndex {
    queues: HashMap<QueueKey, Arc<QueueSettings>>,
    /// Of queues whose claims are limited.
    running: HashMap<QueueKey, RunningCounts>,
}

/// How many tasks of a queue are running.
#[derive(Default)]
struct RunningCounts {
    of_queue: u64,
    /// Those that were claimed for each route; never 0.
    of_routes: HashMap<Route, u64>,
}

impl RunningCounts {
    fn begin(&mut self, route: Option<&Route>) {
        self.of_queue += 1;
        if let Some(route) = route {
            *self.of_routes.entry(route.clone()).or_default() += 1;
        }
    }

    fn end(&mut self, route: Option<&Route>) {
        self.of_queue = self.of_queue.saturating_sub(1);
        if let Some(route) = route
            && let Some(count) = self.of_routes.get_mut(route)
        {
            *count -= 1;
            if *count == 0 {
                self.of_routes.remove(route);
            }
        }
    }
}

impl SettingsIndex {
    /// A task has become a running one.
    pub(super) fn begin_run(&mut self, queue: QueueKey, route: Option<&Route>) {
        if !self.running.is_empty()
            && let Some(counts) = self.running.get_mut(&queue)
        {
            counts.begin(route);
        }
    }

    /// A task is no longer running.
    pub(super) fn end_run(&mut self, queue: QueueKey, route: Option<&Route>) {
        if !self.running.is_empty()
            && let Some(counts) = self.running.get_mut(&queue)
        {
            counts.end(route);
        }
    }

    pub(super) fn remove(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
        self.running.remove(&queue);
    }
}

impl ClaimIndex {
    /// The settings of a queue; nothing if they are the default.
    pub(crate) fn settings(&self, queue: QueueKey) -> Option<&Arc<QueueSettings>> {
        if self.settings.queues.is_empty() { None } else { self.settings.queues.get(&queue) }
    }

    /// Sets the settings of a queue. From its first limit on its running tasks are counted: all of them are visited once.
    pub(crate) fn set_settings(&mut self, queue: QueueKey, settings: QueueSettings) {
        if !settings.limits_claims() {
            self.settings.running.remove(&queue);
        } else if !self.settings.running.contains_key(&queue) {
            let mut counts = RunningCounts::default();
            let own = self.running.values().filter(|running| running.queue == queue);
            own.for_each(|running| counts.begin(running.head.lifecycle.last_route.as_ref()));
            self.settings.running.insert(queue, counts);
        }
        if settings == QueueSettings::default() {
            self.settings.queues.remove(&queue);
        } else {
            self.settings.queues.insert(queue, Arc::new(settings));
        }
    }

    /// How many tasks of a queue are running, and how many of them were claimed for a route, if its claims are limited.
    pub(crate) fn count_running(&self, queue: QueueKey, route: &Route) -> RunningTasks {
        self.settings.running.get(&queue).map_or_else(RunningTasks::default, |counts| RunningTasks {
            of_queue: counts.of_queue,
            of_route: counts.of_routes.get(route).copied().unwrap_or(0),
        })
    }

    /// How many more tasks may be claimed for a route; nothing if there is no limit.
    pub(crate) fn room(&self, queue: QueueKey, route: &Route) -> Option<u64> {
        self.settings(queue).and_then(|settings| settings.room(route, self.count_running(queue, route)))
    }

    /// How many tasks claims for a route could take now.
    pub(crate) fn claimable(&self, queue: QueueKey, route: &Route) -> usize {
        match self.room(queue, route) {
            Some(0) => 0,
            Some(room) => self.pending(queue, route.as_str()).min(usize::try_from(room).unwrap_or(usize::MAX)),
            None => self.pending(queue, route.as_str()),
        }
    }
}
