//! Wakes waiting claims after a commit: those of this server directly, those of other servers by notifications of the
//! database (`notify.rs`), which are sent only while another server has waiters. Notifications may be lost; a server with
//! waiters also polls every second (`poll.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_store::claimable::Claimable;
use taskqueue_store::waiting::{Hint, Waiters};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::notify::message::Message;

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
    /// Until when other servers are assumed to have waiters.
    remote_waiters_until: Mutex<Option<Instant>>,
    announced_at: Mutex<Option<Instant>>,
    /// Notified when the outbox is filled.
    pub(crate) outbox_filled: Notify,
    /// Notified to poll at once.
    pub(crate) poll_now: Notify,
    /// Notified to announce the waiters of this server.
    pub(crate) announce: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeups {
    /// Wakes the waiters after a commit of this server.
    pub(crate) fn committed(&self, claimable: &Claimable) {
        if claimable.is_empty() {
            return;
        }
        self.wake_local(claimable);
        if locked(&self.remote_waiters_until).is_some_and(|until| until > Instant::now()) {
            locked(&self.outbox).add(claimable);
            self.outbox_filled.notify_one();
        }
    }

    fn wake_local(&self, claimable: &Claimable) {
        self.waiters.wake(claimable);
        if claimable.must_poll_all_routes() && !self.waiters.is_empty() {
            self.poll_now.notify_one();
        }
    }

    /// Handles a message of another server.
    pub(crate) fn receive(&self, message: &Message) {
        if message.has_waiters {
            *locked(&self.remote_waiters_until) = Some(Instant::now() + ANNOUNCEMENT_VALIDITY);
        }
        let mut claimable = Claimable::new(true);
        message.deleted_queues.iter().for_each(|queue| claimable.queue_deleted(queue));
        for ((queue, routes), tasks) in &message.tasks {
            let hint = |task: &_| Hint { queue: queue.clone(), routes: routes.clone(), task: Some(*task) };
            tasks.iter().map(hint).for_each(|hint| claimable.hint(hint));
        }
        if message.poll_all {
            claimable.poll_all_routes();
        }
        self.wake_local(&claimable);
    }

    /// Announces the waiters of this server to the others, but not at every poll: a poll may have been requested by another
    /// server, and then every server would notify all others.
    pub(crate) fn announce_waiters(&self, now: Instant) {
        let mut announced_at = locked(&self.announced_at);
        if announced_at.is_none_or(|at| now.duration_since(at) >= ANNOUNCEMENT_INTERVAL) {
            *announced_at = Some(now);
            self.announce.notify_one();
        }
    }

    pub(crate) fn take_outbox(&self) -> Option<Message> {
        let message = std::mem::take(&mut *locked(&self.outbox));
        (!message.is_empty()).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use taskqueue_store::conformance::commands::{queue, route, routes, task_id};

    use super::*;

    /// More hints than one transaction collects.
    const MANY: usize = 1_025;

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
        wakeups.receive(&Message::announcement());
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
    async fn waiters_are_not_announced_at_each_poll() {
        let (wakeups, now) = (Wakeups::default(), Instant::now());
        let announced = [0, 1, 899, 900, 1_000, 1_800].map(|millis| {
            wakeups.announce_waiters(now + Duration::from_millis(millis));
            wakeups.announce.notified().now_or_never().is_some()
        });
        assert_eq!(announced, [true, false, false, true, false, true]);
    }
}
