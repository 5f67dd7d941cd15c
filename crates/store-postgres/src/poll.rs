//! The poll: every second, while any claim waits, one statement asks for all routes with waiters whether a task is pending
//! there. While heartbeats are held, others ask which of their runs have ended, and while output is waited for, which runs have
//! printed or ended. They find what no notification has reported, so no waiter misses a task, or what became of its run, for
//! longer than that. What is printed at another server is found only here.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::ids::{QueueName, Route, RunId};
use taskqueue_store::StoreResult;
use taskqueue_store::clock::Clock;
use tokio::time::{Instant, timeout};

use crate::notify::Waiting;
use crate::random_u64;
use crate::readers::{Lane, Read, Readers};
use crate::rows;
use crate::session::Session;
use crate::statements as sql;
use crate::wakeups::Wakeups;

/// Between two polls, plus a random part: servers that were started together do not poll together.
const INTERVAL: Duration = Duration::from_millis(900);
const JITTER_MICROS: u64 = 200_000;
/// The longest interval after polls that failed.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Runs that one statement asks for. For ten thousand the database would compile it each time, which takes longer than to
/// execute it.
const RUNS_AT_ONCE: usize = 1_000;

/// Queue, route and number of parked waiters.
type WaitingRoutes = Vec<(QueueName, Route, usize)>;

/// Where the output of each watched run ended at the last poll, if anything was kept of it.
type SeenOutputs = HashMap<RunId, Option<i64>>;

/// Polls until the store is dropped.
pub(crate) async fn run(wakeups: Arc<Wakeups>, readers: Arc<Readers>, clock: Option<Arc<dyn Clock>>) -> Infallible {
    let (mut interval, mut seen) = (INTERVAL, SeenOutputs::new());
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
    interval + Duration::from_micros(random % JITTER_MICROS)
}

/// The interval after a poll. One that was requested and failed says nothing about the pace.
fn next_interval(interval: Duration, succeeded: bool, requested: bool) -> Duration {
    match (succeeded, requested) {
        (true, _) => INTERVAL,
        (false, true) => interval,
        (false, false) => (interval * 2).min(MAX_INTERVAL),
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
    use super::*;

    /// The longest pause with any random part.
    fn longest(interval: Duration) -> Duration {
        let pauses = [0, JITTER_MICROS - 1, JITTER_MICROS, u64::MAX].map(|random| jittered(interval, random));
        pauses.into_iter().fold(Duration::ZERO, Duration::max)
    }

    /// What the tests with several servers call the next poll.
    #[test]
    fn less_than_two_seconds_after_a_poll_comes_the_next_one() {
        for interval in [INTERVAL, MAX_INTERVAL] {
            for requested in [false, true] {
                assert!(longest(next_interval(interval, true, requested)) < Duration::from_secs(2));
            }
        }
    }

    #[test]
    fn polls_that_fail_come_less_often_but_every_few_seconds() {
        let mut interval = INTERVAL;
        for _ in 0..10 {
            let next = next_interval(interval, false, false);
            assert!(next >= interval && longest(next) < Duration::from_secs(6), "{next:?}");
            assert_eq!(next_interval(next, false, true), next, "one that was requested counts for nothing");
            interval = next;
        }
        assert!(interval > INTERVAL);
    }
}
