//! Waiting claims: requests that wait until a task becomes claimable. After each commit a backend wakes waiters for the
//! tasks that became claimable ([`Waiters::wake`]), and a woken waiter does an ordinary claim. The claim decides who gets a
//! task; an unnecessary wake-up only costs a claim that finds nothing.

mod claim;
mod registry;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use taskqueue_core::ids::{QueueName, Route, TaskId};
use tokio::sync::Notify;

use crate::claimable::Claimable;
pub use claim::claim;
pub use registry::{Hint, Registry, WaiterId};

#[derive(Default)]
pub struct Waiters {
    registry: Mutex<Registry>,
    /// The number of waiters, readable without the lock.
    count: AtomicUsize,
    closed: AtomicBool,
    registered: Notify,
}

impl Waiters {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new waiter, unless there are `limit` already or the server is stopping. It must claim before it waits.
    pub fn register(self: &Arc<Self>, queue: &QueueName, route: &Route, limit: usize) -> Option<Waiter> {
        let mut registry = self.registry();
        if self.is_closed() || registry.len() >= limit {
            return None;
        }
        let id = registry.register(queue, route);
        self.count.store(registry.len(), Ordering::SeqCst);
        drop(registry);
        self.registered.notify_one();
        Some(Waiter { waiters: Arc::clone(self), id, claimed: None })
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a waiter has been registered since the last call.
    pub async fn registration(&self) {
        self.registered.notified().await;
    }

    /// After a commit: wakes one waiter for each task that became claimable, and all waiters of a deleted queue. The caller
    /// polls if [`Claimable::must_poll_all_routes`].
    pub fn wake(&self, claimable: &Claimable) {
        if self.is_empty() {
            return;
        }
        let mut registry = self.registry();
        let deleted =
            claimable.deleted_queues().iter().flat_map(|queue| registry.queue_deleted(queue)).collect::<Vec<_>>();
        let hinted = claimable.hints().iter().filter_map(|hint| registry.hint(hint.clone())).collect::<Vec<_>>();
        drop(registry);
        deleted.into_iter().chain(hinted).for_each(Waker::wake);
    }

    /// Wakes as many waiters of a route as there are tasks.
    pub fn wake_for_route(&self, queue: &QueueName, route: &Route, tasks: usize) {
        let woken = self.registry().wake_for_route(queue, route, tasks);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes all waiters of a deleted queue.
    pub fn queue_deleted(&self, queue: &QueueName) {
        let woken = self.registry().queue_deleted(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The routes with waiters, and how many of them are parked.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        self.registry().waiting_routes()
    }

    /// Wakes all waiters and refuses new ones, because the server is stopping.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let woken = self.registry().wake_all();
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
    claimed: Option<TaskId>,
}

impl Waiter {
    /// Called after a claim that found nothing. If a hint came during the claim, the waiter is woken at once.
    pub fn park(&mut self) {
        let _ = self.waiters.registry().park(self.id);
    }

    /// Waits to be woken. Cancel safe.
    pub async fn woken(&mut self) {
        poll_fn(|context| match self.waiters.registry().is_woken(self.id, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Whether the server is stopping.
    pub fn is_closed(&self) -> bool {
        self.waiters.is_closed()
    }

    /// Unregisters after a claim that got a task.
    pub fn finish_with(mut self, task: TaskId) {
        self.claimed = Some(task);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut registry = self.waiters.registry();
        let next = registry.unregister(self.id, self.claimed);
        self.waiters.count.store(registry.len(), Ordering::SeqCst);
        drop(registry);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
