//! Wakes waiting claims and held heartbeats after a commit: those of this server directly, those of other servers by
//! notifications of the database (`notify.rs`), which are sent only while something at another server waits for them.
//! Notifications may be lost; a server with waiters also polls every second (`poll`).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_core::{QueueName, Route, RunId};
use taskqueue_store::claimable::Claimable;
use taskqueue_store::waiting::{Hint, Waiters};
use taskqueue_store::{Clock, StoreResult};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::notify::{Message, Waiting};
use crate::readers::{Lane, Read, Readers};
use crate::session::Session;
use crate::{random_u64, rows, statements as sql};

/// How long an announcement of another server that it has waiters is valid.
const ANNOUNCEMENT_VALIDITY: Duration = Duration::from_secs(5);
/// The shortest time between two announcements of this server.
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(900);

/// The wake-ups of one server.
#[derive(Default)]
pub(crate) struct Wakeups {
    pub(crate) waiters: Arc<Waiters>,
    /// Not yet sent to other servers.
    outbox: Mutex<Message>,
    remote: Mutex<Remote>,
    announced_at: Mutex<Option<Instant>>,
    /// Notified when the outbox is filled.
    pub(crate) outbox_filled: Notify,
    /// Notified to poll at once.
    pub(crate) poll_now: Notify,
    /// Notified to announce the waiters of this server.
    pub(crate) announce: Notify,
}

/// Until when other servers are assumed to have waiters.
#[derive(Clone, Copy, Debug, Default)]
struct Remote {
    claims_until: Option<Instant>,
    heartbeats_until: Option<Instant>,
}

impl Wakeups {
    /// Wakes the waiters after a commit of this server.
    pub(crate) fn committed(&self, claimable: &Claimable) {
        if claimable.is_empty() {
            return;
        }
        self.wake_local(claimable);
        let receivers = self.remote_waiting();
        if receivers != Waiting::default() {
            let mut outbox = self.outbox.lock();
            outbox.add(claimable, receivers);
            if !outbox.is_empty() {
                self.outbox_filled.notify_one();
            }
        }
    }

    /// What waits at this server.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting { claims: self.waiters.has_claims(), heartbeats: self.waiters.has_heartbeats() }
    }

    /// What waits at other servers, as far as known.
    fn remote_waiting(&self) -> Waiting {
        let remote = *self.remote.lock();
        let is_valid = |until: Option<Instant>| until.is_some_and(|until| until > Instant::now());
        Waiting { claims: is_valid(remote.claims_until), heartbeats: is_valid(remote.heartbeats_until) }
    }

    fn note_remote(&self, waiting: Waiting) {
        let (until, mut remote) = (Instant::now() + ANNOUNCEMENT_VALIDITY, self.remote.lock());
        remote.claims_until = if waiting.claims { Some(until) } else { remote.claims_until };
        remote.heartbeats_until = if waiting.heartbeats { Some(until) } else { remote.heartbeats_until };
    }

    fn wake_local(&self, claimable: &Claimable) {
        self.waiters.wake(claimable);
        if claimable.poll_all && !self.waiters.is_empty() {
            self.poll_now.notify_one();
        }
    }

    /// Handles a message of another server.
    pub(crate) fn receive(&self, message: &Message) {
        if message.waiting != Waiting::default() {
            tracing::debug!("another server announces that something waits there");
        }
        if !message.tasks.is_empty() || !message.ended_runs.is_empty() {
            tracing::debug!("another server notifies of a task or the end of a run");
        }
        self.note_remote(message.waiting);
        let mut claimable = Claimable::new(true);
        message.deleted_queues.iter().for_each(|queue| claimable.queue_deleted(queue));
        for ((queue, routes), tasks) in &message.tasks {
            let hint = |task: &_| Hint { queue: queue.clone(), routes: routes.clone(), task: Some(*task) };
            tasks.iter().map(hint).for_each(|hint| claimable.hint(hint));
        }
        message.ended_runs.iter().for_each(|run_id| self.waiters.run_ended(*run_id));
        if message.poll_all {
            claimable.poll_all = true;
        }
        self.wake_local(&claimable);
    }

    /// Announces the waiters of this server to the others, but not at every poll: a poll may have been requested by another
    /// server, and then every server would notify all others.
    pub(crate) fn announce_waiters(&self, now: Instant) {
        let mut announced_at = self.announced_at.lock();
        if announced_at.is_none_or(|at| now.duration_since(at) >= ANNOUNCEMENT_INTERVAL) {
            *announced_at = Some(now);
            self.announce.notify_one();
        }
    }

    pub(crate) fn take_outbox(&self) -> Option<Message> {
        let message = std::mem::take(&mut *self.outbox.lock());
        (!message.is_empty()).then_some(message)
    }
}

// The poll: every second, while any claim waits, one statement asks for all routes with waiters whether a task is pending
// there. While heartbeats are held, others ask which of their runs have ended, and while output is waited for, which runs have
// printed or ended. They find what no notification has reported, so no waiter misses a task, or what became of its run, for
// longer than that. What is printed at another server is found only here.

/// Between two polls, plus a random part: servers that were started together do not poll together.
const POLL_INTERVAL: Duration = Duration::from_millis(900);
const POLL_JITTER_MICROS: u64 = 200_000;
/// The longest interval after polls that failed.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Runs that one statement asks for. For ten thousand the database would compile it each time, which takes longer than to
/// execute it.
const RUNS_AT_ONCE: usize = 1_000;

/// Queue, route and number of parked waiters.
type WaitingRoutes = Vec<(QueueName, Route, usize)>;

/// Where the output of each watched run ended at the last poll, if anything was kept of it.
type SeenOutputs = HashMap<RunId, Option<i64>>;

/// Polls until the store is dropped.
pub(crate) async fn poll(wakeups: Arc<Wakeups>, readers: Arc<Readers>, clock: Option<Arc<dyn Clock>>) -> Infallible {
    let (mut interval, mut seen) = (POLL_INTERVAL, SeenOutputs::new());
    loop {
        while wakeups.waiters.is_empty() {
            wakeups.waiters.registration().await;
        }
        if wakeups.waiting() != Waiting::default() {
            wakeups.announce_waiters(Instant::now());
        }
        let pause = jittered(interval, random_u64());
        let requested = timeout(pause, wakeups.poll_now.notified()).await.is_ok();
        let polled = [
            poll_routes(&wakeups, &readers, clock.as_deref()).await,
            poll_runs(&wakeups, &readers).await,
            poll_outputs(&wakeups, &readers, &mut seen).await,
        ];
        let polled = polled.into_iter().collect::<Result<Vec<_>, _>>();
        if let Ok(found) = &polled {
            let found = if found.contains(&true) { "something" } else { "nothing" };
            tracing::debug!("a poll found {found} for what waits");
        }
        interval = next_interval(interval, polled.is_ok(), requested);
    }
}

/// The pause before a poll, with its random part.
fn jittered(interval: Duration, random: u64) -> Duration {
    interval + Duration::from_micros(random % POLL_JITTER_MICROS)
}

/// The interval after a poll. One that was requested and failed says nothing about the pace.
fn next_interval(interval: Duration, succeeded: bool, requested: bool) -> Duration {
    match (succeeded, requested) {
        (true, _) => POLL_INTERVAL,
        (false, true) => interval,
        (false, false) => (interval * 2).min(MAX_POLL_INTERVAL),
    }
}

/// Whether there is anything for a waiting claim.
async fn poll_routes(wakeups: &Wakeups, readers: &Readers, clock: Option<&dyn Clock>) -> StoreResult<bool> {
    let routes = wakeups.waiters.waiting_routes();
    if routes.is_empty() {
        return Ok(false);
    }
    let (time, waiting) = (clock.map(|clock| clock.now().as_micros()), &routes);
    let read = |session: Arc<Session>| async move { count(&session, waiting, time).await };
    let counts = readers.read(Lane::Short, "polling for waiting claims", read).await?;
    let found = counts.iter().any(|count| *count != Some(0));
    for ((queue, route, _), count) in routes.iter().zip(counts) {
        match count {
            Some(tasks) => wakeups.waiters.wake_for_route(queue, route, tasks),
            None => wakeups.waiters.queue_deleted(queue),
        }
    }
    Ok(found)
}

/// Whether the run of a held heartbeat has ended.
async fn poll_runs(wakeups: &Wakeups, readers: &Readers) -> StoreResult<bool> {
    let mut found = false;
    for watched in wakeups.waiters.watched_runs().chunks(RUNS_AT_ONCE) {
        let read = |session: Arc<Session>| async move { ended_runs(&session, watched).await };
        let ended = readers.read(Lane::Short, "polling for held heartbeats", read).await?;
        found |= !ended.is_empty();
        ended.into_iter().for_each(|run_id| wakeups.waiters.run_ended(run_id));
    }
    Ok(found)
}

/// Wakes the watchers of output that is not where it was at the last poll. A run that was not watched then counts as one that has
/// printed since: its watchers may have read before that. Whether there was any.
async fn poll_outputs(wakeups: &Wakeups, readers: &Readers, seen: &mut SeenOutputs) -> StoreResult<bool> {
    let mut found = false;
    let mut watched = wakeups.waiters.watched_outputs();
    watched.sort_unstable();
    watched.dedup();
    seen.retain(|run_id, _| watched.binary_search(run_id).is_ok());
    for watched in watched.chunks(RUNS_AT_ONCE) {
        let read = |session: Arc<Session>| async move { ends(&session, watched).await };
        for (run_id, is_active, end) in readers.read(Lane::Short, "polling for output", read).await? {
            let is_seen = seen.insert(run_id, end) == Some(end);
            found |= !is_active || !is_seen;
            match is_active {
                false => wakeups.waiters.run_ended(run_id),
                true if !is_seen => wakeups.waiters.output_added(run_id),
                true => {}
            }
        }
    }
    Ok(found)
}

/// Of each run whether it is active, and where its output ends.
async fn ends(session: &Session, watched: &[RunId]) -> Read<Vec<(RunId, bool, Option<i64>)>> {
    let watched: Vec<&str> = watched.iter().map(RunId::as_str).collect();
    let mut ends = Vec::with_capacity(watched.len());
    for row in session.query(&sql::POLL_OUTPUTS, &[&watched]).await? {
        let (is_active, end) = (row.try_get(1)?, row.try_get(2)?);
        ends.extend(RunId::parse(row.try_get(0)?).map(|run_id| (run_id, is_active, end)));
    }
    Ok(ends)
}

async fn ended_runs(session: &Session, watched: &[RunId]) -> Read<Vec<RunId>> {
    let watched: Vec<&str> = watched.iter().map(RunId::as_str).collect();
    let mut ended = Vec::new();
    for row in session.query(&sql::POLL_RUNS, &[&watched]).await? {
        ended.extend(RunId::parse(row.try_get(0)?));
    }
    Ok(ended)
}

/// How many tasks claims of each route may take, at most as many as it has waiters; nothing where the queue does not exist. Routes of
/// one queue share the room that it has.
async fn count(session: &Session, routes: &WaitingRoutes, time: Option<i64>) -> Read<Vec<Option<usize>>> {
    let queues: Vec<&str> = routes.iter().map(|(queue, _, _)| queue.as_str()).collect();
    let names: Vec<&str> = routes.iter().map(|(_, route, _)| route.as_str()).collect();
    // Where no waiter is parked, those that are claiming need to know whether there is any task.
    let limits: Vec<i64> = routes.iter().map(|route| i64::try_from(route.2.max(1)).unwrap_or(i64::MAX)).collect();
    let rows = session.query(&sql::POLL_ROUTES, &[&queues, &names, &limits, &time]).await?;
    let (mut counts, mut taken) = (vec![Some(0); routes.len()], HashMap::new());
    for row in rows {
        let (number, exists, tasks): (i64, bool, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        let (Some(count), Some((queue, route, _))) = (counts.get_mut(index), routes.get(index)) else { continue };
        let mut tasks = usize::try_from(tasks).unwrap_or(0);
        if let Some(settings) = rows::settings(&row)? {
            let (mut running, taken) = (rows::running_tasks(&row)?, taken.entry(queue).or_insert(0));
            running.of_queue += *taken;
            let room = settings.room(route, running).map(|room| usize::try_from(room).unwrap_or(usize::MAX));
            tasks = room.map_or(tasks, |room| tasks.min(room));
            *taken += tasks as u64;
        }
        *count = exists.then_some(tasks);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use taskqueue_core::task::{FinishedRun, RunEnd};
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::conformance::commands::{queue, route, routes, run_id, task_id};
    use taskqueue_store::{StoreError, waiting};

    use super::*;

    /// More hints than one transaction collects.
    const MANY: usize = 2_049;

    fn claimable(tasks: usize) -> Claimable {
        let mut claimable = Claimable::new(true);
        let hint = |task| Hint { queue: queue("q"), routes: routes(&["default"]), task: Some(task_id(task)) };
        (0..tasks).map(hint).for_each(|hint| claimable.hint(hint));
        claimable
    }

    /// Whether `action` requests an immediate poll.
    fn requests_poll(wakeups: &Wakeups, action: impl FnOnce(&Wakeups)) -> bool {
        action(wakeups);
        wakeups.poll_now.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn more_tasks_than_hints_are_polled_for_here_and_by_the_others() {
        let wakeups = Wakeups::default();
        wakeups.receive(&Message::announcement(Waiting { claims: true, heartbeats: false }));
        let _waiter = wakeups.waiters.register(&queue("q"), &route("default"), 1).unwrap();
        assert!(!requests_poll(&wakeups, |wakeups| wakeups.committed(&claimable(1))));
        assert_eq!(wakeups.take_outbox().unwrap().tasks.len(), 1);
        assert!(requests_poll(&wakeups, |wakeups| wakeups.committed(&claimable(MANY))), "ours");
        assert_eq!(wakeups.take_outbox().unwrap().to_text("me"), "me\nlook", "theirs");
    }

    #[tokio::test]
    async fn a_poll_that_another_server_requests_is_done() {
        let wakeups = Wakeups::default();
        let everything = Message::parse("other\nlook").1;
        assert!(!requests_poll(&wakeups, |wakeups| wakeups.receive(&everything)), "nobody waits");
        let _waiter = wakeups.waiters.register(&queue("q"), &route("default"), 1).unwrap();
        assert!(requests_poll(&wakeups, |wakeups| wakeups.receive(&everything)));
        let mut message = Message::default();
        message.tasks.insert((queue("q"), routes(&["default"])), (0..MANY).map(task_id).collect());
        assert!(requests_poll(&wakeups, |wakeups| wakeups.receive(&message)), "more than is collected");
    }

    #[tokio::test]
    async fn a_task_of_another_server_wakes_a_claim_at_once() {
        let (here, there) = (Wakeups::default(), Wakeups::default());
        let mut waiter = there.waiters.register(&queue("q"), &route("default"), 1).unwrap();
        waiter.park();
        here.receive(&Message::announcement(there.waiting()));
        here.committed(&claimable(1));
        let message = here.take_outbox().unwrap();
        assert!(waiter.woken().now_or_never().is_none(), "nothing is known of it yet");
        there.receive(&Message::parse(&message.to_text("here")).1);
        assert!(waiter.woken().now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_waits_is_announced_and_only_that_is_notified() {
        let (here, there) = (Wakeups::default(), Wakeups::default());
        let mut committed = claimable(1);
        committed.run_ended(FinishedRun { run_id: run_id(1), end: RunEnd::Cancel });
        here.committed(&committed);
        assert_eq!(here.take_outbox(), None, "nothing is known to wait elsewhere");
        let watcher = there.waiters.watch(run_id(1), 1).unwrap();
        here.receive(&Message::announcement(there.waiting()));
        here.committed(&committed);
        let message = here.take_outbox().unwrap();
        assert_eq!((message.tasks.len(), &message.ended_runs[..]), (0, &[run_id(1)][..]));
        there.receive(&message);
        let heartbeats = std::cell::Cell::new(0);
        let heartbeat = || async {
            heartbeats.set(heartbeats.get() + 1);
            if heartbeats.get() == 1 { Ok(Timestamp::default()) } else { Err(StoreError::Broken("the run is over")) }
        };
        let held = waiting::heartbeat(watcher, heartbeat, std::future::pending());
        assert_eq!(held.now_or_never(), Some(Err(StoreError::Broken("the run is over"))));
        // A report of the worker itself is left to the poll.
        let mut reported = Claimable::new(true);
        reported.run_ended(FinishedRun { run_id: run_id(2), end: RunEnd::Complete });
        here.committed(&reported);
        assert_eq!(here.take_outbox(), None);
        assert!(here.outbox_filled.notified().now_or_never().is_some(), "by the cancel");
        assert!(here.outbox_filled.notified().now_or_never().is_none());
    }

    #[tokio::test]
    async fn waiters_are_not_announced_at_each_poll() {
        let (wakeups, now) = (Wakeups::default(), Instant::now());
        let announced = [0, 1, 899, 900, 1_000, 1_800].map(|millis| {
            wakeups.announce_waiters(now + Duration::from_millis(millis));
            wakeups.announce.notified().now_or_never().is_some()
        });
        assert_eq!(announced, [true, false, false, true, false, true]);
    }
}

#[cfg(test)]
mod poll_tests {
    use super::*;

    /// The longest pause with any random part.
    fn longest(interval: Duration) -> Duration {
        let pauses = [0, POLL_JITTER_MICROS - 1, POLL_JITTER_MICROS, u64::MAX].map(|random| jittered(interval, random));
        pauses.into_iter().fold(Duration::ZERO, Duration::max)
    }

    /// What the tests with several servers call the next poll.
    #[test]
    fn less_than_two_seconds_after_a_poll_comes_the_next_one() {
        for interval in [POLL_INTERVAL, MAX_POLL_INTERVAL] {
            for requested in [false, true] {
                assert!(longest(next_interval(interval, true, requested)) < Duration::from_secs(2));
            }
        }
    }

    #[test]
    fn polls_that_fail_come_less_often_but_every_few_seconds() {
        let mut interval = POLL_INTERVAL;
        for _ in 0..10 {
            let next = next_interval(interval, false, false);
            assert!(next >= interval && longest(next) < Duration::from_secs(6), "{next:?}");
            assert_eq!(next_interval(next, false, true), next, "one that was requested counts for nothing");
            interval = next;
        }
        assert!(interval > POLL_INTERVAL);
    }
}
