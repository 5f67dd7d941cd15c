//! Requests that wait: claims until a task becomes claimable, heartbeats until their run ends, reads of output until a run
//! prints or ends. After each commit a backend wakes them for what happened ([`Waiters::wake`]), and a woken waiter does an
//! ordinary claim, heartbeat or read, which decides what is answered. An unnecessary wake-up only costs one of these in vain.
//! However many are woken together, only some of each kind go on at a time (`attempts.rs`).

mod attempts;
mod registry;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
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
    /// The number of waiting claims, held heartbeats and waiting reads of output, readable without the lock.
    counts: [AtomicUsize; 3],
    closed: AtomicBool,
    registration: Notify,
    claim_turns: Turns,
    /// Of held heartbeats, and of reads of output.
    watch_turns: [Turns; 2],
}

#[derive(Default)]
struct Registered {
    claims: Registry,
    /// The runs of held heartbeats, and those whose output is waited for.
    runs: [WatchedRuns; 2],
}

impl Registered {
    fn lens(&self) -> [usize; 3] {
        [self.claims.len(), self.runs[END].len(), self.runs[OUTPUT].len()]
    }
}

/// The part of a run that is watched: its end.
const END: usize = 0;
/// Its output and its end.
const OUTPUT: usize = 1;

impl Waiters {
    /// A new waiter, unless `limit` requests wait already or the server is stopping. It must claim before it waits.
    pub fn register(self: &Arc<Self>, queue: &QueueName, route: &Route, limit: usize) -> Option<Waiter> {
        let id = self.add(limit, |registered| registered.claims.register(queue, route))?;
        Some(Waiter { waiters: Arc::clone(self), id, claimed: Vec::new() })
    }

    /// A new watcher of a run, under the same limit. It must send its heartbeat before it waits.
    pub fn watch(self: &Arc<Self>, run_id: RunId, limit: usize) -> Option<Watcher> {
        self.watcher(END, run_id, limit)
    }

    /// A new watcher of the output of a run, under the same limit. It must read the output before it waits.
    pub fn watch_output(self: &Arc<Self>, run_id: RunId, limit: usize) -> Option<Watcher> {
        self.watcher(OUTPUT, run_id, limit)
    }

    /// The turn of a read of output that may come to wait: also those that arrive together read some at a time.
    pub async fn output_turn(&self) -> Turn {
        self.watch_turns[OUTPUT].next().await
    }

    fn watcher(self: &Arc<Self>, what: usize, run_id: RunId, limit: usize) -> Option<Watcher> {
        let id = self.add(limit, |registered| registered.runs[what].add(run_id))?;
        Some(Watcher { waiters: Arc::clone(self), what, id })
    }

    fn add<I>(&self, limit: usize, add: impl FnOnce(&mut Registered) -> I) -> Option<I> {
        let mut registered = self.registered.lock();
        if self.is_closed() || registered.lens().into_iter().sum::<usize>() >= limit {
            return None;
        }
        let id = add(&mut registered);
        self.count(&registered);
        drop(registered);
        self.registration.notify_one();
        Some(id)
    }

    fn count(&self, registered: &Registered) {
        for (count, waiting) in self.counts.iter().zip(registered.lens()) {
            count.store(waiting, Ordering::SeqCst);
        }
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.counts().into_iter().sum()
    }

    /// How many claims, heartbeats and reads of output wait.
    pub fn counts(&self) -> [usize; 3] {
        self.counts.each_ref().map(|count| count.load(Ordering::SeqCst))
    }

    pub fn has_claims(&self) -> bool {
        self.counts[0].load(Ordering::SeqCst) > 0
    }

    pub fn has_heartbeats(&self) -> bool {
        self.counts[1].load(Ordering::SeqCst) > 0
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a waiter has been registered since the last call.
    pub async fn registration(&self) {
        self.registration.notified().await;
    }

    /// After a commit: wakes one waiter for each task that became claimable, all waiters of a deleted queue, and the watchers
    /// of the runs that ended or printed. The caller polls if [`Claimable::poll_all`] is set.
    pub fn wake(&self, claimable: &Claimable) {
        if self.is_empty() {
            return;
        }
        self.wake_chosen(|registered| {
            let mut woken = Vec::new();
            for queue in &claimable.deleted_queues {
                woken.extend(registered.claims.queue_deleted(queue));
            }
            for hint in &claimable.hints {
                woken.extend(registered.claims.hint(hint.clone()));
            }
            for run in &claimable.ended_runs {
                registered.runs.iter_mut().for_each(|runs| woken.extend(runs.wake(run.run_id)));
            }
            for run_id in &claimable.printed_runs {
                woken.extend(registered.runs[OUTPUT].wake(*run_id));
            }
            woken
        });
    }

    /// Wakes waiters when the lock is free again.
    fn wake_chosen(&self, choose: impl FnOnce(&mut Registered) -> Vec<Waker>) {
        let woken = choose(&mut self.registered.lock());
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes as many waiters of a route as there are tasks.
    pub fn wake_for_route(&self, queue: &QueueName, route: &Route, tasks: usize) {
        self.wake_chosen(|registered| registered.claims.wake_for_route(queue, route, tasks));
    }

    /// Wakes all waiters of a deleted queue.
    pub fn queue_deleted(&self, queue: &QueueName) {
        self.wake_chosen(|registered| registered.claims.queue_deleted(queue));
    }

    /// Wakes the watchers of a run that has ended, and of its output.
    pub fn run_ended(&self, run_id: RunId) {
        self.wake_chosen(|registered| registered.runs.iter_mut().flat_map(|runs| runs.wake(run_id)).collect());
    }

    /// Wakes the watchers of the output of a run, of which there is more.
    pub fn output_added(&self, run_id: RunId) {
        self.wake_chosen(|registered| registered.runs[OUTPUT].wake(run_id).collect());
    }

    /// Wakes the watchers of all runs that are not active, and of their output.
    pub fn wake_unless(&self, is_active: impl Fn(RunId) -> bool) {
        let watched = [self.watched_runs(), self.watched_outputs()];
        let ended = watched.into_iter().flatten().filter(|run_id| !is_active(*run_id));
        ended.for_each(|run_id| self.run_ended(run_id));
    }

    /// The routes with waiters, and how many of them are parked.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        self.registered.lock().claims.waiting_routes()
    }

    /// The runs whose end is watched, once for each watcher.
    pub fn watched_runs(&self) -> Vec<RunId> {
        self.registered.lock().runs[END].run_ids()
    }

    /// The runs whose output is watched, once for each watcher.
    pub fn watched_outputs(&self) -> Vec<RunId> {
        self.registered.lock().runs[OUTPUT].run_ids()
    }

    /// Wakes all waiters and refuses new ones, because the server is stopping.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        std::iter::once(&self.claim_turns).chain(&self.watch_turns).for_each(Turns::close);
        self.wake_chosen(|registered| {
            let mut woken = registered.claims.wake_all();
            registered.runs.iter_mut().for_each(|runs| woken.extend(runs.wake_all()));
            woken
        });
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
        let (_, next) = self.waiters.registered.lock().claims.park(self.id);
        next.into_iter().for_each(Waker::wake);
    }

    /// Waits to be woken. Cancel safe.
    pub async fn woken(&mut self) {
        poll_fn(|context| ready(self.waiters.registered.lock().claims.is_woken(self.id, context.waker()))).await;
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
        let mut registered = self.waiters.registered.lock();
        let next = registered.claims.unregister(self.id, &self.claimed);
        self.waiters.count(&registered);
        drop(registered);
        next.into_iter().for_each(Waker::wake);
    }
}

/// A registered watcher of the end of a run, for a heartbeat, or of what it prints, for a reader; dropping it unregisters it.
pub struct Watcher {
    waiters: Arc<Waiters>,
    what: usize,
    id: WatcherId,
}

impl Watcher {
    fn is_woken(&self, waker: &Waker) -> bool {
        self.waiters.registered.lock().runs[self.what].is_woken(self.id, waker)
    }

    fn take_wake_up(&self) -> bool {
        self.waiters.registered.lock().runs[self.what].take_wake_up(self.id)
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
        self.waiters.watch_turns[self.what].next().await
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
        let mut registered = self.waiters.registered.lock();
        registered.runs[self.what].remove(self.id);
        self.waiters.count(&registered);
    }
}

fn ready(is_ready: bool) -> Poll<()> {
    if is_ready { Poll::Ready(()) } else { Poll::Pending }
}

#[cfg(test)]
mod tests;
