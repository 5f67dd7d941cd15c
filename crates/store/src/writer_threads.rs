//! The threads of the writers of a store, and how a store is closed without blocking an async thread.

use std::io;
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub struct WriterThreads(Mutex<Vec<JoinHandle<()>>>);

impl WriterThreads {
    pub fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name.into()).spawn(run)?;
        self.0.lock().push(thread);
        Ok(())
    }

    /// Waits for the end of all. Their queues must be closed. Only the first caller waits: another one, which gave up on the
    /// first, must not be blocked by a thread that hangs.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.0.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a writer ended by a panic");
            }
        }
    }
}

/// Runs the last work of a store on a thread of its own: a caller that has no time to wait for it can stop waiting.
pub async fn close_on_thread(close: impl FnOnce() + Send + 'static) {
    let (done, closed) = oneshot::channel();
    let closing = Builder::new().name("closing".into()).spawn(move || {
        close();
        let _ = done.send(());
    });
    match closing {
        Ok(_) => drop(closed.await),
        Err(error) => tracing::error!(%error, "the store could not be closed in order"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_the_first_caller_waits_for_a_thread_that_hangs() {
        let (threads, (release, released)) = (WriterThreads::default(), channel::<()>());
        threads.spawn("hanging", move || while released.recv().is_ok() {}).unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| threads.join());
            while !threads.0.lock().is_empty() {
                std::thread::yield_now();
            }
            threads.join();
            assert!(!first.is_finished());
            drop(release);
        });
    }
}
