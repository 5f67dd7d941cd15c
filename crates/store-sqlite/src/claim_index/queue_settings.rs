//! The settings of queues in memory, and what follows from them: how many tasks are running in queues whose claims are limited, and
//! which tasks have ended in queues that keep them for a limited time (docs/decisions/0064). A queue without settings costs a look
//! into a table that is empty as long as nobody uses them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use taskqueue_core::{QueueSettings, Route, RunningTasks, Status, Timestamp};
use taskqueue_store::QueueKey;

use crate::queries::all_rows;
use crate::{rows, statements as sql};

/// The settings of all queues that have any.
#[derive(Default)]
pub(crate) struct SettingsIndex {
    queues: HashMap<QueueKey, Arc<QueueSettings>>,
    /// Of queues whose claims are limited.
    running: HashMap<QueueKey, RunningCounts>,
    pub(crate) ended: EndedTasks,
}

/// The number of running tasks of a queue.
#[derive(Default)]
struct RunningCounts {
    of_queue: u64,
    /// The number of those that were claimed for each route; never 0.
    of_routes: HashMap<Route, u64>,
}

impl RunningCounts {
    /// One task more is running, or one less.
    fn count(&mut self, route: Option<&Route>, begins: bool) {
        let change = |count: &mut u64| *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        change(&mut self.of_queue);
        if let Some(route) = route {
            let count = self.of_routes.entry(route.clone()).or_default();
            change(count);
            if *count == 0 {
                self.of_routes.remove(route);
            }
        }
    }
}

impl SettingsIndex {
    /// A task has become a running one, or is no longer running.
    pub(super) fn count_run(&mut self, queue: QueueKey, route: Option<&Route>, begins: bool) {
        if !self.running.is_empty()
            && let Some(counts) = self.running.get_mut(&queue)
        {
            counts.count(route, begins);
        }
    }

    pub(super) fn remove(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
        self.running.remove(&queue);
        self.ended.reading.retain(|reading| *reading != queue);
    }

    /// Returns the settings of a queue; `None` if they are the default.
    pub(crate) fn of(&self, queue: QueueKey) -> Option<&Arc<QueueSettings>> {
        if self.queues.is_empty() { None } else { self.queues.get(&queue) }
    }

    /// Sets the settings of a queue. From its first limit on its running tasks are counted: `running` has the route of each.
    pub(super) fn set<'r>(
        &mut self,
        queue: QueueKey,
        settings: QueueSettings,
        running: impl Iterator<Item = Option<&'r Route>>,
    ) {
        if !settings.limits_claims() {
            self.running.remove(&queue);
        } else if let Entry::Vacant(new) = self.running.entry(queue) {
            let counts = new.insert(RunningCounts::default());
            running.for_each(|route| counts.count(route, true));
        }
        if settings == QueueSettings::default() {
            self.queues.remove(&queue);
        } else {
            self.queues.insert(queue, Arc::new(settings));
        }
    }

    /// Returns how many tasks of a queue are running, and how many of them were claimed for a route, if its claims are limited.
    pub(crate) fn count_running(&self, queue: QueueKey, route: &Route) -> RunningTasks {
        self.running.get(&queue).map_or_else(RunningTasks::default, |counts| RunningTasks {
            of_queue: counts.of_queue,
            of_route: counts.of_routes.get(route).copied().unwrap_or(0),
        })
    }

    /// Returns how many more tasks may be claimed for a route; `None` if there is no limit.
    pub(crate) fn room(&self, queue: QueueKey, route: &Route) -> Option<u64> {
        self.of(queue).and_then(|settings| settings.room(route, self.count_running(queue, route)))
    }

    /// Returns whether tasks may have to be deleted now, or to be noted.
    pub(crate) fn has_outdated(&self, now: Timestamp) -> bool {
        !self.ended.reading.is_empty()
            || self.ended.first.iter().any(|(kind, first)| self.due(*kind, *first, now).is_some())
    }

    fn due(&self, (queue, status): EndedKind, first: Timestamp, now: Timestamp) -> Option<DueKind> {
        let status = Status::ALL[usize::from(status)];
        let until = self.of(queue).and_then(|settings| settings.retention.deleted_until(status, now));
        until.is_none_or(|until| first <= until).then_some(DueKind { queue, status, until })
    }

    /// The kinds of which some are due, behind the last one that was looked at.
    pub(crate) fn due_kinds(&self, now: Timestamp, most: usize) -> Vec<DueKind> {
        let EndedTasks { first, last, .. } = &self.ended;
        let behind = first.range((last.map_or(Unbounded, Excluded), Unbounded));
        let before = last.iter().flat_map(|last| first.range(..=*last));
        behind.chain(before).filter_map(|(kind, first)| self.due(*kind, *first, now)).take(most).collect()
    }
}

/// A queue and a state, as its place in `Status::ALL`.
type EndedKind = (QueueKey, u8);

/// The ended tasks that are noted in the file.
#[derive(Default)]
pub(crate) struct EndedTasks {
    /// The time at which the first one of each kind that is noted has ended, or an earlier one.
    first: BTreeMap<EndedKind, Timestamp>,
    /// Queues whose tasks are being read.
    pub(crate) reading: Vec<QueueKey>,
    /// The place where the last search ended: the next one begins behind it, so that no queue waits for all tasks of another one.
    last: Option<EndedKind>,
}

impl EndedTasks {
    /// Reads what the file holds: one look for each kind, however many tasks are noted.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let reading = all_rows(connection, &sql::LOAD_ENDED_READS, [], |row| row.get(0).map(QueueKey))?;
        let mut ended = Self { reading, ..Self::default() };
        let mut last = (i64::MIN, String::new());
        let mut next = connection.prepare_cached(&sql::FIND_NEXT_ENDED)?;
        while let Some(found) = next.query_row(params![last.0, last.1], rows::first_ended).optional()? {
            let (queue, status, ended_at) = found;
            ended.first.insert((queue, status as u8), ended_at);
            last = (queue.0, status.as_str().to_owned());
        }
        Ok(ended)
    }

    pub(crate) fn add(&mut self, queue: QueueKey, status: Status, ended_at: Timestamp) {
        let first = self.first.entry((queue, status as u8)).or_insert(ended_at);
        *first = ended_at.min(*first);
    }

    /// Returns whether a task of this kind that ended then may be noted. What is deleted because its time is over is not any more.
    pub(crate) fn may_have(&self, queue: QueueKey, status: Status, ended_at: Timestamp) -> bool {
        !self.first.is_empty() && self.first.get(&(queue, status as u8)).is_some_and(|first| *first <= ended_at)
    }

    /// Sets when the first one of a kind that is noted has ended, if there is one.
    pub(crate) fn set_first(&mut self, queue: QueueKey, status: Status, ended_at: Option<Timestamp>) {
        match ended_at {
            Some(ended_at) => drop(self.first.insert((queue, status as u8), ended_at)),
            None => drop(self.first.remove(&(queue, status as u8))),
        }
    }

    /// Records that a search has come to this kind.
    pub(crate) fn looked_at(&mut self, due: DueKind) {
        self.last = Some((due.queue, due.status as u8));
    }
}

/// A kind of tasks of which some are due: those that ended until then are deleted. Nothing is deleted, and what is noted is
/// dropped, if they are not kept for a limited time any more.
#[derive(Clone, Copy)]
pub(crate) struct DueKind {
    pub(crate) queue: QueueKey,
    pub(crate) status: Status,
    pub(crate) until: Option<Timestamp>,
}
