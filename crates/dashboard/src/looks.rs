//! What was seen last in the newest tasks of queues that fail. A look that takes too long, because the storage is busy, shows what is
//! known from before: what a page says does not come and go with the load of the server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::attention::Failure;

/// How long a look may take when something is known from before, and when nothing is.
const AGAIN: Duration = Duration::from_millis(200);
const FIRST: Duration = Duration::from_secs(1);
/// What is older is not shown any more.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// Queues of which something is kept.
const QUEUES: usize = 100;

/// What was seen in the newest tasks of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The newest failed tasks.
    pub(crate) failures: Vec<Failure>,
    /// Attempts and most attempts of the newest tasks that have not ended.
    pub(crate) attempts: Vec<(i64, i64)>,
}

/// The last looks, by queue.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    known: Mutex<HashMap<String, (Instant, Look)>>,
}

impl Looks {
    /// Looks at a queue by `read`, which says nothing if it cannot; or says what was seen last.
    pub(crate) async fn look(&self, queue: &str, read: impl Future<Output = Option<Look>>) -> Look {
        let known = self.last(queue);
        let wait = if known.is_some() { AGAIN } else { FIRST };
        match timeout(wait, read).await {
            Ok(Some(look)) => {
                self.keep(queue, look.clone());
                look
            }
            _ => known.unwrap_or_default(),
        }
    }

    fn last(&self, queue: &str) -> Option<Look> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(queue).filter(|(at, _)| at.elapsed() < KEPT_FOR).map(|(_, look)| look.clone())
    }

    fn keep(&self, queue: &str, look: Look) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= QUEUES {
            known.retain(|_, (at, _)| at.elapsed() < KEPT_FOR);
        }
        if known.len() < QUEUES || known.contains_key(queue) {
            known.insert(queue.to_owned(), (Instant::now(), look));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_that_takes_too_long_shows_what_was_seen_before_and_not_for_ever() {
        let looks = Looks::default();
        let seen = Look { attempts: vec![(1, 2)], ..Look::default() };
        let slow = |millis| async move {
            let wait = Duration::from_millis(millis);
            tokio::time::interval_at(tokio::time::Instant::now() + wait, wait).tick().await;
            Some(Look { attempts: vec![(1, 2)], ..Look::default() })
        };
        assert_eq!(looks.look("q", slow(800)).await, seen, "nothing is known, so it waits");
        assert_eq!(looks.look("q", pending()).await, seen);
        assert_eq!(looks.look("q", ready(None)).await, seen);
        assert_eq!(looks.look("other", pending()).await, Look::default());
        assert_eq!(looks.look("q", ready(Some(Look::default()))).await, Look::default(), "what is new counts");
        assert_eq!(looks.look("q", slow(1)).await, seen);
        tokio::time::advance(KEPT_FOR).await;
        assert_eq!(looks.look("q", pending()).await, Look::default());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_queues_are_remembered_than_fit_and_old_ones_make_room() {
        let looks = Looks::default();
        let seen = || Look { attempts: vec![(1, 2)], ..Look::default() };
        for n in 0..=QUEUES {
            looks.look(&format!("q{n}"), ready(Some(seen()))).await;
        }
        assert_eq!(looks.last(&format!("q{QUEUES}")), None);
        tokio::time::advance(KEPT_FOR).await;
        looks.look("new", ready(Some(seen()))).await;
        assert_eq!(looks.last("new"), Some(seen()));
    }
}
