//! Waiting claims: requests that wait until a task becomes claimable. A backend says after each commit what became so
//! ([`Waiters::wake`]); whoever waits looks by an ordinary claim. Nothing here decides who gets a task: that is the
//! claim's business, and a wake-up too many costs a look, nothing else.

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

/// All waiters of a store.
#[derive(Default)]
pub struct Waiters {
    registry: Mutex<Registry>,
    /// How many there are, for those who only want to know whether there is anybody.
    count: AtomicUsize,
    closed: AtomicBool,
    /// Told when a waiter comes.
    arrival: Notify,
}

impl Waiters {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new waiter, unless there are `most` already or the server is about to stop. It must look before it waits.
    pub fn register(self: &Arc<Self>, queue: &QueueName, route: &Route, most: usize) -> Option<Waiter> {
        let mut registry = self.registry();
        if self.is_closed() || registry.len() >= most {
            return None;
        }
        let id = registry.register(queue, route);
        self.count.store(registry.len(), Ordering::SeqCst);
        drop(registry);
        self.arrival.notify_one();
        Some(Waiter { waiters: Arc::clone(self), id, took: None })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a waiter has come since this was last called.
    pub async fn registration(&self) {
        self.arrival.notified().await;
    }

    /// Something was committed: wakes one waiter for each task that became claimable, and all of a queue that is gone.
    /// Whether everything is to be looked at besides, [`Claimable::must_poll_all_routes`] says.
    pub fn wake(&self, claimable: &Claimable) {
        if self.is_empty() {
            return;
        }
        let mut registry = self.registry();
        let gone =
            claimable.deleted_queues().iter().flat_map(|queue| registry.queue_deleted(queue)).collect::<Vec<_>>();
        let hinted = claimable.hints().iter().filter_map(|hint| registry.hint(hint.clone())).collect::<Vec<_>>();
        drop(registry);
        gone.into_iter().chain(hinted).for_each(Waker::wake);
    }

    /// So many tasks were seen for a route.
    pub fn wake_for_route(&self, queue: &QueueName, route: &Route, tasks: usize) {
        let woken = self.registry().wake_for_route(queue, route, tasks);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A queue was seen to be gone.
    pub fn queue_deleted(&self, queue: &QueueName) {
        let woken = self.registry().queue_deleted(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The routes at which somebody waits, and how many of them rest.
    pub fn waiting_routes(&self) -> Vec<(QueueName, Route, usize)> {
        self.registry().waiting_routes()
    }

    /// Nobody waits any longer: those who do are told so, others are not taken.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let woken = self.registry().wake_all();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether the server is about to stop.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// One who waits; leaves when dropped.
pub struct Waiter {
    waiters: Arc<Waiters>,
    id: WaiterId,
    took: Option<TaskId>,
}

impl Waiter {
    /// A look found nothing. If something happened meanwhile, the waiter does not rest: it is woken already.
    pub fn park(&mut self) {
        let _ = self.waiters.registry().park(self.id);
    }

    /// Waits to be woken. May be dropped and called again.
    pub async fn woken(&mut self) {
        poll_fn(|context| match self.waiters.registry().is_woken(self.id, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Whether nobody may wait any longer.
    pub fn is_closed(&self) -> bool {
        self.waiters.is_closed()
    }

    /// Leaves with a task.
    pub fn finish_with(mut self, task: TaskId) {
        self.took = Some(task);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut registry = self.waiters.registry();
        let next = registry.unregister(self.id, self.took);
        self.waiters.count.store(registry.len(), Ordering::SeqCst);
        drop(registry);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
