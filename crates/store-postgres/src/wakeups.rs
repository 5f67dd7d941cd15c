//! Wakes waiting claims and held heartbeats after a commit: those of this server directly, those of other servers by
//! notifications of the database (`notify.rs`), which are sent only while something at another server waits for them.
//! Notifications may be lost; a server with waiters also polls every second (`poll.rs`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_store::claimable::Claimable;
use taskqueue_store::waiting::{Hint, Waiters};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::notify::{Message, Waiting};

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
