//! ThreadPool that are started when they are needed and end when they are not: each runs one piece of work at a time, with
//! something of its own (a connection) that it keeps from one piece to the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::StoreError;

/// How long a thread that is not among the kept ones waits for more work.
const IDLE: Duration = Duration::from_secs(5);

/// What a thread does with what it owns.
pub(super) type Work<R> = Box<dyn FnOnce(&mut R) + Send>;

/// Work and the right to do it, which is given back when the thread can take more.
type Order<R> = (Work<R>, OwnedSemaphorePermit);

/// What a thread that waits is told: what to do next, or to end.
type Next<R> = Option<Order<R>>;

/// The threads. How many there may be is decided by who hands out the permits.
pub(super) struct ThreadPool<R: 'static> {
    shared: Arc<Inner<R>>,
}

struct Inner<R> {
    name: &'static str,
    /// How many threads stay when there is nothing to do.
    kept: usize,
    make: Box<dyn Fn() -> R + Send + Sync>,
    state: Mutex<State<R>>,
    ended: Condvar,
}

struct State<R> {
    threads: usize,
    /// Those that wait for work, with their numbers. The last one has waited for the shortest time.
    idle: Vec<(u64, Sender<Next<R>>)>,
    numbers: u64,
    closed: bool,
}

impl<R: 'static> ThreadPool<R> {
    /// No threads yet. Each one makes what it owns when it begins.
    pub(super) fn new(name: &'static str, kept: usize, make: impl Fn() -> R + Send + Sync + 'static) -> Self {
        let state = State { threads: 0, idle: Vec::new(), numbers: 0, closed: false };
        let (make, state) = (Box::new(make), Mutex::new(state));
        Self { shared: Arc::new(Inner { name, kept, make, state, ended: Condvar::new() }) }
    }

    /// Hands work to a thread that has none, or to a new one.
    pub(super) fn run(&self, work: Work<R>, permit: OwnedSemaphorePermit) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(StoreError::Unavailable);
        }
        if let Some((_, thread)) = state.idle.pop() {
            // It has not ended: it would have taken itself off the list.
            return thread.send(Some((work, permit))).map_err(|_| StoreError::Unavailable);
        }
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name(self.shared.name.into());
        match builder.spawn(move || shared.live((work, permit))) {
            Ok(_) => {
                state.threads += 1;
                Ok(())
            }
            // The system has no room for another thread now.
            Err(_) => Err(StoreError::Busy),
        }
    }

    /// Takes no more work. ThreadPool that wait end, the others end with what they do.
    pub(super) fn stop(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        for (_, thread) in state.idle.drain(..) {
            let _ = thread.send(None);
        }
    }

    /// Waits until every thread has ended, once they were told to stop.
    pub(super) fn join(&self) {
        let mut state = self.shared.lock();
        while state.threads > 0 {
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<R: 'static> Drop for ThreadPool<R> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<R> Inner<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a thread.
    fn live(&self, first: Order<R>) {
        let mut own = (self.make)();
        let (give, take) = channel();
        let mut order = Some(first);
        while let Some((work, permit)) = order {
            // A panic costs its caller the answer; what the thread owns may be in any state and is made anew.
            if catch_unwind(AssertUnwindSafe(|| work(&mut own))).is_err() {
                own = (self.make)();
            }
            order = self.next(&give, &take, permit);
        }
        drop(own);
        self.lock().threads -= 1;
        self.ended.notify_all();
    }

    /// Waits for more work; nothing if the thread is to end.
    fn next(&self, give: &Sender<Next<R>>, take: &Receiver<Next<R>>, permit: OwnedSemaphorePermit) -> Next<R> {
        let number = {
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            state.numbers += 1;
            let number = state.numbers;
            state.idle.push((number, give.clone()));
            number
        };
        drop(permit);
        loop {
            match take.recv_timeout(IDLE) {
                Ok(next) => return next,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let mut state = self.lock();
            // A thread that is not on the list any more is about to be told what to do.
            if let Some(place) = state.idle.iter().position(|(own, _)| *own == number)
                && state.idle.len() > self.kept
            {
                state.idle.remove(place);
                return None;
            }
        }
    }
}
