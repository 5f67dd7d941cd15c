//! Who is to be told what became claimable: the waiters of this server at once, and those of others through the database
//! (`notify.rs`) while any other server says that it has some. Wakeups may be lost on the way: what counts is the look that
//! a server with waiters takes every second (`poll.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_store::claimable::Claimable;
use taskqueue_store::waiting::{Hint, Waiters};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::notify::message::Notice;

/// For how long another server is believed to have waiters after it said so.
const BELIEF: Duration = Duration::from_secs(5);
/// How often it says so at most.
const ANNOUNCEMENT: Duration = Duration::from_millis(900);

/// Wakeups of this server on their way.
#[derive(Default)]
pub(crate) struct Wakeups {
    pub(crate) waiters: Arc<Waiters>,
    /// Not yet told to other servers.
    outbox: Mutex<Notice>,
    others_wait_until: Mutex<Option<Instant>>,
    announced_at: Mutex<Option<Instant>>,
    /// ClockRow when there is something in the outbox.
    pub(crate) outgoing: Notify,
    /// ClockRow when a look is due before its time.
    pub(crate) look: Notify,
    /// ClockRow when the other servers are to know that somebody waits here.
    pub(crate) announce: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeups {
    /// A transaction of this server was committed.
    pub(crate) fn committed(&self, claimable: &Claimable) {
        if claimable.is_empty() {
            return;
        }
        self.tell_waiters(claimable);
        if self.others_wait() {
            locked(&self.outbox).add(claimable);
            self.outgoing.notify_one();
        }
    }

    fn tell_waiters(&self, claimable: &Claimable) {
        self.waiters.wake(claimable);
        if claimable.must_poll_all_routes() && !self.waiters.is_empty() {
            self.look.notify_one();
        }
    }

    /// Another server said something.
    pub(crate) fn heard(&self, notice: &Notice) {
        if notice.waits {
            *locked(&self.others_wait_until) = Some(Instant::now() + BELIEF);
        }
        let mut claimable = Claimable::new(true);
        notice.gone.iter().for_each(|queue| claimable.queue_deleted(queue));
        for ((queue, routes), tasks) in &notice.tasks {
            let hint = |task: &_| Hint { queue: queue.clone(), routes: routes.clone(), task: Some(*task) };
            tasks.iter().map(hint).for_each(|hint| claimable.hint(hint));
        }
        if notice.everywhere {
            claimable.poll_all_routes();
        }
        self.tell_waiters(&claimable);
    }

    /// Somebody waits here, and the others are to know. Not at each look: a look may be what another server asked all
    /// of them for, and then each of them would tell all of them something.
    pub(crate) fn somebody_waits(&self, now: Instant) {
        let mut announced_at = locked(&self.announced_at);
        if announced_at.is_none_or(|at| now.duration_since(at) >= ANNOUNCEMENT) {
            *announced_at = Some(now);
            self.announce.notify_one();
        }
    }

    fn others_wait(&self) -> bool {
        locked(&self.others_wait_until).is_some_and(|until| until > Instant::now())
    }

    /// What is to be told, if anything.
    pub(crate) fn take_outgoing(&self) -> Option<Notice> {
        let notice = std::mem::take(&mut *locked(&self.outbox));
        (!notice.is_empty()).then_some(notice)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use taskqueue_store::conformance::commands::{queue, route, routes, task_id};

    use super::*;

    /// More than one transaction keeps wakeups of.
    const MANY: usize = 1_025;

    fn claimable(tasks: usize) -> Claimable {
        let mut claimable = Claimable::new(true);
        let hint = |task| Hint { queue: queue("q"), routes: routes(&["default"]), task: Some(task_id(task)) };
        (0..tasks).map(hint).for_each(|hint| claimable.hint(hint));
        claimable
    }

    /// Whether a look before its time was asked for, with somebody waiting or not.
    fn asks_for_a_look(wakeups: &Wakeups, told: impl FnOnce(&Wakeups)) -> bool {
        told(wakeups);
        wakeups.look.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn more_than_is_hinted_at_is_looked_for_here_and_by_the_others() {
        let wakeups = Wakeups::default();
        wakeups.heard(&Notice::of_waiting());
        let _waiter = wakeups.waiters.register(&queue("q"), &route("default"), 1).unwrap();
        assert!(!asks_for_a_look(&wakeups, |wakeups| wakeups.committed(&claimable(1))));
        assert_eq!(wakeups.take_outgoing().unwrap().tasks.len(), 1);
        assert!(asks_for_a_look(&wakeups, |wakeups| wakeups.committed(&claimable(MANY))), "ours");
        assert_eq!(wakeups.take_outgoing().unwrap().to_text("me"), "me\nlook", "theirs");
    }

    #[tokio::test]
    async fn what_others_tell_to_look_for_is_looked_for() {
        let wakeups = Wakeups::default();
        let everything = Notice::of_text("other\nlook").1;
        assert!(!asks_for_a_look(&wakeups, |wakeups| wakeups.heard(&everything)), "nobody waits");
        let _waiter = wakeups.waiters.register(&queue("q"), &route("default"), 1).unwrap();
        assert!(asks_for_a_look(&wakeups, |wakeups| wakeups.heard(&everything)));
        let mut told = Notice::default();
        told.tasks.insert((queue("q"), routes(&["default"])), (0..MANY).map(task_id).collect());
        assert!(asks_for_a_look(&wakeups, |wakeups| wakeups.heard(&told)), "more than is kept");
    }

    #[tokio::test]
    async fn that_somebody_waits_is_not_announced_at_each_look() {
        let (wakeups, now) = (Wakeups::default(), Instant::now());
        let announced = [0, 1, 899, 900, 1_000, 1_800].map(|millis| {
            wakeups.somebody_waits(now + Duration::from_millis(millis));
            wakeups.announce.notified().now_or_never().is_some()
        });
        assert_eq!(announced, [true, false, false, true, false, true]);
    }
}
