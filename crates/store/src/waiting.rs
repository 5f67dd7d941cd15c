//! Requests that wait: claims until a task becomes claimable, heartbeats until their run ends, reads of output until a run
//! prints or ends. After each commit a backend wakes them for what happened ([`Waiters::wake`]), and a woken waiter does an
//! ordinary claim, heartbeat or read, which decides what is answered. An unnecessary wake-up only costs one of these in vain.
//! However many are woken together, only some of each kind go on at a time (`attempts.rs`).

mod attempts;
mod registry;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use tokio::sync::Notify;

use crate::claimable::Claimable;
pub use attempts::{Turn, claim, claim_tasks, heartbeat, output};
use attempts::{Turns, Wait};
pub use registry::{Hint, Registry, WaiterId};
use registry::{WatchedRuns, WatcherId};

#[derive(Default)]
pub struct Waiters {
    registered: Mutex<Registered>,
    /// The number of waiting claims, readable without the lock.
    claims: AtomicUsize,
    /// The number of held heartbeats.
    heartbeats: AtomicUsize,
    /// The number of waiting reads of output.
    outputs: AtomicUsize,
    closed: AtomicBool,
    registration: Notify,
    claim_turns: Turns,
    heartbeat_turns: Turns,
    output_turns: Turns,
}

#[derive(Default)]
struct Registered {
    claims: Registry,
    /// The runs of held heartbeats.
    runs: WatchedRuns,
    /// The runs whose output is waited for.
    outputs: WatchedRuns,
}

impl Registered {
    fn len(&self) -> usize {
        self.claims.len() + self.runs.len() + self.outputs.len()
    }

    fn watched(&mut self, what: Watched) -> &mut WatchedRuns {
        match what {
            Watched::End => &mut self.runs,
            Watched::Output => &mut self.outputs,
        }
    }
}

/// The part of a run that is watched.
#[derive(Clone, Copy)]
enum Watched {
    End,
    /// Its output and its end.
    Output,
}

impl Waiters {
    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new waiter, unless `limit` requests wait already or the server is stopping. It must claim before it waits.
    pub fn register(self: &Arc<Self>, queue: &QueueName, route: &Route, limit: usize) -> Option<Waiter> {
        let id = self.add(limit, |registered| registered.claims.register(queue, route))?;
        Some(Waiter { waiters: Arc::clone(self), id, claimed: Vec::new() })
    }

    /// A new watcher of a run, under the same limit. It must send its heartbeat before it waits.
    pub fn watch(self: &Arc<Self>, run_id: RunId, limit: usize) -> Option<Watcher> {
        self.watcher(Watched::End, run_id, limit)
    }

    /// A new watcher of the output of a run, under the same limit. It must read the output before it waits.
    pub fn watch_output(self: &Arc<Self>, run_id: RunId, limit: usize) -> Option<Watcher> {
        self.watcher(Watched::Output, run_id, limit)
    }

    /// The turn of a read of output that may come to wait: also those that arrive together read some at a time.
    pub async fn output_turn(&self) -> Turn {
        self.output_turns.next().await
    }

    fn watcher(self: &Arc<Self>, what: Watched, run_id: RunId, limit: usize) -> Option<Watcher> {
        let id = self.add(limit, |registered| registered.watched(what).add(run_id))?;
        Some(Watcher { waiters: Arc::clone(self), what, id })
    }

    fn add<I>(&self, limit: usize, add: impl FnOnce(&mut Registered) -> I) -> Option<I> {
        let mut registered = self.registered();
        if self.is_closed() || registered.len() >= limit {
            return None;
        }
        let id = add(&mut registered);
        self.count(&registered);
        drop(registered);
        self.registration.notify_one();
        Some(id)
    }

    fn count(&self, registered: &Registered) {
        self.claims.store(registered.claims.len(), Ordering::SeqCst);
        self.heartbeats.store(registered.runs.len(), Ordering::SeqCst);
        self.outputs.store(registered.outputs.len(), Ordering::SeqCst);
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.counts().into_iter().sum()
    }

    /// How many claims, heartbeats and reads of output wait.
    pub fn counts(&self) -> [usize; 3] {
        [&self.claims, &self.heartbeats, &self.outputs].map(|count| count.load(Ordering::SeqCst))
    }

    pub fn has_claims(&self) -> bool {
        self.claims.load(Ordering::SeqCst) > 0
    }

    pub fn has_heartbeats(&self) -> bool {
        self.heartbeats.load(Ordering::SeqCst) > 0
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a waiter has been registered since the last call.
    pub async fn registration(&self) {
        self.registration.notified().await;
    }

    /// After a commit: wakes one waiter for each task that became claimable, all waiters of a deleted queue, and the watchers
    /// of the runs that ended or printed. The caller polls if [`Claimable::must_poll`].
    pub fn wake(&self, claimable: &Claimable) {
        if self.is_empty() {
            return;
        }
        let mut registered = self.registered();
        let mut woken = Vec::new();
        for queue in claimable.deleted_queues() {
            woken.extend(registered.claims.queue_deleted(queue));
        }
        for hint in claimable.hints() {
            woken.extend(registered.claims.hint(hint.clone()));
        }
        for run in claimable.ended_runs() {
            woken.extend(registered.runs.wake(run.run_id));
            woken.extend(registered.outputs.wake(run.run_id));
        }
        for run_id in claimable.printed_runs() {
            woken.extend(registered.outputs.wake(*run_id));
        }
        drop(registered);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes as many waiters of a route as there are tasks.
    pub fn wake_for_route(&self, queue: &QueueName, route: &Route, tasks: usize) {
        let woken = self.registered().claims.wake_for_route(queue, route, tasks);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes all waiters of a deleted queue.
    pub fn queue_deleted(&self, queue: &QueueName) {
        let woken = self.registered().claims.queue_deleted(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes the watchers of a run that has ended, and of its output.
    pub fn run_ended(&self, run_id: RunId) {
        let mut registered = self.registered();
        let mut woken: Vec<Waker> = registered.runs.wake(run_id).collect();
        woken.extend(registered.outputs.wake(run_id));
        drop(registered);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes the watchers of the output of a run, of which there is more.
    pub fn output_added(&self, run_id: RunId) {
        let woken: Vec<Waker> = self.registered().outputs.wake(run_id).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes the watchers of all runs that are not active, and of their output.
    pub fn wake_unless(&self, is_active: impl Fn(RunId) -> bool) {
        let watched = [self.watched_runs(), self.watched_outputs()];
        let ended = watched.into_iter().flatten().filter(|run_id| !is_active(*run_id));
        ended.for_each(|run_id| self.run_ended(run_id));
    }

    /// The routes with waiters, and how many of them are parked.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        self.registered().claims.waiting_routes()
    }

    /// The runs whose end is watched, once for each watcher.
    pub fn watched_runs(&self) -> Vec<RunId> {
        self.registered().runs.run_ids()
    }

    /// The runs whose output is watched, once for each watcher.
    pub fn watched_outputs(&self) -> Vec<RunId> {
        self.registered().outputs.run_ids()
    }

    /// Wakes all waiters and refuses new ones, because the server is stopping.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        [&self.claim_turns, &self.heartbeat_turns, &self.output_turns].into_iter().for_each(Turns::close);
        let mut registered = self.registered();
        let mut woken = registered.claims.wake_all();
        woken.extend(registered.runs.wake_all());
        woken.extend(registered.outputs.wake_all());
        drop(registered);
        woken.into_iter().for_each(Waker::wake);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// A registered waiter; dropping it unregisters it.
pub struct Waiter {
    waiters: Arc<Waiters>,
    id: WaiterId,
    claimed: Vec<TaskId>,
}

impl Waiter {
    /// Called after a claim that found nothing. If a hint came during the claim, the waiter is woken at once.
    pub fn park(&mut self) {
        let (_, next) = self.waiters.registered().claims.park(self.id);
        next.into_iter().for_each(Waker::wake);
    }

    /// Waits to be woken. Cancel safe.
    pub async fn woken(&mut self) {
        poll_fn(|context| ready(self.waiters.registered().claims.is_woken(self.id, context.waker()))).await;
    }

    /// Unregisters after a claim that got these tasks.
    pub fn finish_with(mut self, tasks: impl IntoIterator<Item = TaskId>) {
        self.claimed.extend(tasks);
    }
}

impl Wait for Waiter {
    fn park(&mut self) {
        self.park();
    }

    async fn woken(&mut self) -> Turn {
        self.woken().await;
        self.turn().await
    }

    async fn turn(&self) -> Turn {
        self.waiters.claim_turns.next().await
    }

    /// A claim whose time is over takes no task. Its hint passes to the next waiter.
    fn is_due(&mut self) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        self.waiters.is_closed()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut registered = self.waiters.registered();
        let next = registered.claims.unregister(self.id, &self.claimed);
        self.waiters.count(&registered);
        drop(registered);
        next.into_iter().for_each(Waker::wake);
    }
}

/// A registered watcher of the end of a run, for a heartbeat, or of what it prints, for a reader; dropping it unregisters it.
pub struct Watcher {
    waiters: Arc<Waiters>,
    what: Watched,
    id: WatcherId,
}

impl Watcher {
    fn is_woken(&self, waker: &Waker) -> bool {
        self.waiters.registered().watched(self.what).is_woken(self.id, waker)
    }

    fn take_wake_up(&self) -> bool {
        self.waiters.registered().watched(self.what).take_wake_up(self.id)
    }
}

impl Wait for Watcher {
    /// Does nothing: what comes during an attempt is kept.
    fn park(&mut self) {}

    /// The wake-up is kept until its turn has come.
    async fn woken(&mut self) -> Turn {
        poll_fn(|context| ready(self.is_woken(context.waker()))).await;
        let turn = self.turn().await;
        self.take_wake_up();
        turn
    }

    async fn turn(&self) -> Turn {
        match self.what {
            Watched::End => self.waiters.heartbeat_turns.next().await,
            Watched::Output => self.waiters.output_turn().await,
        }
    }

    /// No lease is told for a run whose end was noted before, and no output is left out that was noted before.
    fn is_due(&mut self) -> bool {
        self.take_wake_up()
    }

    fn is_closed(&self) -> bool {
        self.waiters.is_closed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut registered = self.waiters.registered();
        registered.watched(self.what).remove(self.id);
        self.waiters.count(&registered);
    }
}

fn ready(is_ready: bool) -> Poll<()> {
    if is_ready { Poll::Ready(()) } else { Poll::Pending }
}

#[cfg(test)]
mod tests;
