//! The look: every second, as long as anybody waits, one statement asks for all routes that are waited for whether
//! anything is pending there. Whatever became of the wakeups, no waiter misses a task by more than that.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use taskqueue_core::ids::{QueueName, Route};
use taskqueue_store::StoreError;
use tokio::time::{Instant, timeout};

use crate::random_u64;
use crate::readers::{Lane, ReadError, Readers};
use crate::session::Session;
use crate::statements as sql;
use crate::wakeups::Wakeups;

/// Between two looks, more or less: servers that were started together do not look together.
const INTERVAL: Duration = Duration::from_millis(900);
const JITTER_MICROS: u64 = 200_000;
/// The longest pause after looks that failed.
const LONGEST: Duration = Duration::from_secs(5);

type Lines = Vec<(QueueName, Route, usize)>;

/// Looks for ever.
pub(crate) async fn run(wakeups: Arc<Wakeups>, readers: Arc<Readers>) -> Infallible {
    let mut pause = INTERVAL;
    loop {
        while wakeups.waiters.is_empty() {
            wakeups.waiters.registration().await;
        }
        wakeups.somebody_waits(Instant::now());
        let due = pause + Duration::from_micros(random_u64() % JITTER_MICROS);
        // Whoever asks for a look before its time asks for one at once.
        let asked = timeout(due, wakeups.look.notified()).await.is_ok();
        pause = match look(&wakeups, &readers).await {
            Ok(()) => INTERVAL,
            Err(_) if asked => pause,
            Err(_) => (pause * 2).min(LONGEST),
        };
    }
}

async fn look(wakeups: &Wakeups, readers: &Readers) -> Result<(), StoreError> {
    let lines: Lines = wakeups.waiters.waiting_routes();
    if lines.is_empty() {
        return Ok(());
    }
    let doing = "looking for tasks that are waited for";
    let seen = readers.read(Lane::Short, doing, &lines, |session, lines| ask(session, lines).boxed()).await?;
    for ((queue, route, _), seen) in lines.iter().zip(seen) {
        match seen {
            Some(tasks) => wakeups.waiters.wake_for_route(queue, route, tasks),
            None => wakeups.waiters.queue_deleted(queue),
        }
    }
    Ok(())
}

/// For each line how many tasks there are; nothing where the queue is gone.
async fn ask(session: &Session, lines: &Lines) -> Result<Vec<Option<usize>>, ReadError> {
    let queues: Vec<&str> = lines.iter().map(|(queue, _, _)| queue.as_str()).collect();
    let routes: Vec<&str> = lines.iter().map(|(_, route, _)| route.as_str()).collect();
    // Where nobody rests, those who look want to know whether there is anything.
    let waiting: Vec<i64> = lines.iter().map(|line| i64::try_from(line.2.max(1)).unwrap_or(i64::MAX)).collect();
    let rows = session.query(&sql::LOOK_FOR_WAITERS, &[&queues, &routes, &waiting]).await?;
    // Nobody is woken where nothing was answered.
    let mut seen = vec![Some(0); lines.len()];
    for row in rows {
        let (place, exists, tasks): (i64, bool, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let place = usize::try_from(place).unwrap_or(0).wrapping_sub(1);
        if let Some(seen) = seen.get_mut(place) {
            *seen = exists.then_some(usize::try_from(tasks).unwrap_or(0));
        }
    }
    Ok(seen)
}
