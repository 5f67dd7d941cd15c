//! What needs the attention of people: the rules, from what was read, and what was seen last in the newest tasks of queues that fail. How
//! much is read for them is decided by the overview. A look that takes too long, because the storage is busy, shows what is known from
//! before: what a page says does not come and go with the load of the server.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_core::activity::{Counts, Event};
use taskqueue_core::time::between;
use taskqueue_core::{QueueFigures, Status, Timestamp};
use taskqueue_store::figures::ProcessFigures;
use tokio::time::{Instant, timeout};

use crate::host::HostFigures;

/// A queue fails if at least this many runs of the last hour did,
const FAILED_RUNS: u64 = 3;
/// and at least one of so many.
const ONE_RUN_OF: u64 = 10;
/// What so many failed tasks have in common is worth showing.
const SEVERAL: usize = 2;

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// The storage does not work.
    StorageFails,
    /// More than half of the writes wait that may.
    WritesPileUp { queued: usize, capacity: usize },
    /// No more requests may wait.
    WaitingIsFull { limit: usize },
    /// Tasks wait on a route without a worker.
    Starving { queue: String, route: String, pending: u64, oldest: Option<Duration> },
    /// Many runs of the last hour failed.
    Failing { queue: String, now: Timestamp, failed: u64, ended: u64, newest: FailurePattern },
    /// Runs of the last hour ended because nobody heard of them any more.
    Lost { queue: String, expired: u64 },
    /// Tasks of those that were looked at have one attempt left, or are in it.
    LastAttempt { queue: String, tasks: usize, looked_at: usize },
    /// What the settings of the storage risk, in a sentence.
    Risk(String),
}

/// What the newest failed tasks of a queue have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailurePattern {
    pub(crate) looked_at: usize,
    /// The route of all of them.
    pub(crate) route: Option<String>,
    /// The most common message, and how many have it.
    pub(crate) message: Option<(String, usize)>,
}

/// A task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// The route of its last run.
    pub(crate) route: Option<String>,
}

/// What is known of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueSight<'s> {
    pub(crate) queue: &'s str,
    pub(crate) figures: &'s QueueFigures,
    pub(crate) now: Timestamp,
    /// Nothing if its activity was not read.
    pub(crate) last_hour: Option<Counts>,
    pub(crate) newest: NewestTasks,
}

/// Returns whether so many runs fail that somebody should know.
pub(crate) fn is_failing(last_hour: &Counts) -> bool {
    let failed = last_hour.of(Event::Failed);
    failed >= FAILED_RUNS && failed.saturating_mul(ONE_RUN_OF) >= ended(last_hour)
}

/// Runs that ended, one way or another, but for those that were given back or cancelled.
pub(crate) fn ended(counts: &Counts) -> u64 {
    [Event::Succeeded, Event::Failed, Event::Expired].into_iter().map(|event| counts.of(event)).sum()
}

/// Returns what of the server needs attention. `risks` are those of the settings of its storage; nothing if that does not work.
pub(crate) fn of_server(risks: Option<Vec<String>>, process: &ProcessFigures, host: &HostFigures) -> Vec<Concern> {
    let ProcessFigures { queued_writes: queued, queue_capacity: capacity, .. } = *process;
    let (waiting, limit) = (host.waiting.iter().sum::<usize>(), host.waiting_limit);
    let pile_up = capacity > 0 && queued.saturating_mul(2) > capacity;
    let found = [
        risks.is_none().then_some(Concern::StorageFails),
        pile_up.then_some(Concern::WritesPileUp { queued, capacity }),
        (limit > 0 && waiting >= limit).then_some(Concern::WaitingIsFull { limit }),
    ];
    found.into_iter().flatten().chain(risks.into_iter().flatten().map(Concern::Risk)).collect()
}

/// Returns whether a route of a queue misses a worker. Those that do are told first.
pub(crate) fn misses_worker(figures: &QueueFigures) -> bool {
    figures.routes().any(|(_, route)| route.is_starving())
}

/// Returns whether somebody is there for what waits in a queue: workers report or run something, and no route misses one.
pub(crate) fn is_served(figures: &QueueFigures) -> bool {
    let [idle, busy] = figures.workers();
    !misses_worker(figures) && idle + busy + figures.tasks(Status::Running) > 0
}

/// Returns on how many routes of a queue tasks wait that no worker serves, besides those that are told one by one. Where none of those that
/// were looked at misses a worker, the others are not known to.
pub(crate) fn untold(figures: &QueueFigures) -> u64 {
    if figures.settings.paused || !misses_worker(figures) { 0 } else { figures.left_out.starving }
}

/// What of a queue needs attention. Of the routes that starve, as many as the figures tell one by one; [`untold`] counts the others.
pub(crate) fn of_queue(sight: &QueueSight<'_>) -> Vec<Concern> {
    let queue = || sight.queue.to_owned();
    let starving =
        sight.figures.routes().filter(|(_, route)| route.is_starving()).map(|(name, route)| Concern::Starving {
            queue: queue(),
            route: name.to_owned(),
            pending: route.pending,
            oldest: route.oldest_pending.map(|since| between(since, sight.now)),
        });
    // Nobody need serve what is not claimed anyway.
    let mut concerns: Vec<Concern> = if sight.figures.settings.paused { Vec::new() } else { starving.collect() };
    let Some(last_hour) = sight.last_hour else { return concerns };
    let NewestTasks { failures, attempts } = &sight.newest;
    if is_failing(&last_hour) {
        let (failed, ended, newest) = (last_hour.of(Event::Failed), ended(&last_hour), FailurePattern::of(failures));
        concerns.push(Concern::Failing { queue: queue(), now: sight.now, failed, ended, newest });
    }
    let expired = last_hour.of(Event::Expired);
    concerns.extend((expired > 0).then(|| Concern::Lost { queue: queue(), expired }));
    let is_last = |&&(attempt, most): &&(i64, i64)| attempt > 0 && attempt >= most.saturating_sub(1);
    let tasks = attempts.iter().filter(is_last).count();
    concerns.extend((tasks > 0).then(|| Concern::LastAttempt { queue: queue(), tasks, looked_at: attempts.len() }));
    concerns
}

impl FailurePattern {
    fn of(failures: &[Failure]) -> Self {
        let first = failures.first().and_then(|failure| failure.route.as_ref());
        let is_shared = failures.len() >= SEVERAL && failures.iter().all(|failure| failure.route.as_ref() == first);
        let route = first.filter(|_| is_shared).cloned();
        Self { looked_at: failures.len(), route, message: most_frequent(failures) }
    }
}

fn most_frequent(failures: &[Failure]) -> Option<(String, usize)> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in failures {
        *times.entry(&failure.message).or_default() += 1;
    }
    // Of two that are as common, the first by the alphabet: it stays when the page is refreshed.
    let (message, times) = times.into_iter().rev().max_by_key(|(_, times)| *times)?;
    (times >= SEVERAL.min(failures.len()) && !message.is_empty()).then(|| (message.to_owned(), times))
}

/// How long a look may take when something is known from before, and when nothing is.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// What is older is not shown any more.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// Queues of which something is kept.
const QUEUES_REMEMBERED: usize = 100;

/// What was seen in the newest tasks of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewestTasks {
    /// The newest failed tasks.
    pub(crate) failures: Vec<Failure>,
    /// Attempts and most attempts of the newest tasks that have not ended.
    pub(crate) attempts: Vec<(i64, i64)>,
}

/// The last looks, by queue.
#[derive(Debug, Default)]
pub(crate) struct NewestTasksSeen {
    known: Mutex<HashMap<String, (Instant, NewestTasks)>>,
}

impl NewestTasksSeen {
    /// Looks at a queue by `read`, which says nothing if it cannot; or says what was seen last.
    pub(crate) async fn look(&self, queue: &str, read: impl Future<Output = Option<NewestTasks>>) -> NewestTasks {
        let known = self.last(queue);
        let wait = if known.is_some() { LOOK_AGAIN } else { FIRST_LOOK };
        match timeout(wait, read).await {
            Ok(Some(look)) => {
                self.keep(queue, look.clone());
                look
            }
            _ => known.unwrap_or_default(),
        }
    }

    fn last(&self, queue: &str) -> Option<NewestTasks> {
        let known = self.known.lock();
        known.get(queue).filter(|(at, _)| at.elapsed() < KEPT_FOR).map(|(_, look)| look.clone())
    }

    fn keep(&self, queue: &str, look: NewestTasks) {
        let mut known = self.known.lock();
        if known.len() >= QUEUES_REMEMBERED {
            known.retain(|_, (at, _)| at.elapsed() < KEPT_FOR);
        }
        if known.len() < QUEUES_REMEMBERED || known.contains_key(queue) {
            known.insert(queue.to_owned(), (Instant::now(), look));
        }
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
