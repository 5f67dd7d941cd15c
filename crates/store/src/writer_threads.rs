//! The threads of the writers of a store, and how a store is closed without blocking an async thread.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub struct WriterThreads(Mutex<Vec<JoinHandle<()>>>);

impl WriterThreads {
    pub fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name.into()).spawn(run)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Waits for the end of all. Their queues must be closed.
    pub fn join(&self) {
        for thread in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
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
