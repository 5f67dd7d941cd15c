//! What a run says of its progress: the newest is sent, at most once a second, with what else there is to say at that moment. The last one
//! is sent before the final report, because afterwards the server takes none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_client::{Error, JsonObject};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::context::WorkerContext;
use crate::error_class::ErrorClass;
use crate::events::Event;
use crate::intervals::Backoff;
use crate::report::RunKey;

/// How long the final report waits for the last progress.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes the progress of a run. Each replaces the one before.
#[derive(Clone, Debug)]
pub struct RunProgress(Arc<watch::Sender<Option<JsonObject>>>);

impl RunProgress {
    /// Never waits.
    pub fn report(&self, progress: JsonObject) {
        self.0.send_if_modified(|present| {
            let is_new = present.as_ref() != Some(&progress);
            *present = Some(progress);
            is_new
        });
    }
}

/// The other end of a [`RunProgress`].
pub(crate) struct ProgressOfRun {
    values: watch::Receiver<Option<JsonObject>>,
    state: Mutex<State>,
    /// Held while one is sent: an older one that arrives later would replace it.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// What needs not be sent again.
    settled: Option<JsonObject>,
    /// The last one was sent, and the report comes next.
    is_over: bool,
    /// Whether it was said that the server refuses it.
    is_refusal_noted: bool,
}

impl ProgressOfRun {
    pub(crate) fn new() -> (RunProgress, Self) {
        let (sender, values) = watch::channel(None);
        let (state, sending) = (Mutex::default(), tokio::sync::Mutex::default());
        (RunProgress(Arc::new(sender)), Self { values, state, sending })
    }

    /// Waits for something that was not sent.
    async fn next(&self) {
        let mut values = self.values.clone();
        loop {
            // Before the look: what comes behind it is a change.
            values.mark_unchanged();
            if self.unsent().is_some() {
                return;
            }
            if values.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// The newest, if it was not sent.
    fn unsent(&self) -> Option<JsonObject> {
        let (newest, state) = (self.values.borrow().clone(), self.state());
        newest.filter(|newest| !state.is_over && state.settled.as_ref() != Some(newest))
    }

    /// No other is sent from now on.
    fn finish(&self) {
        self.state().is_over = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, progress: JsonObject) {
        self.state().settled = Some(progress);
    }
}

impl WorkerContext {
    /// Sends the progress of a run while it goes on. Never returns.
    pub(crate) async fn report_progress(&self, run: &RunKey, progress: &ProgressOfRun) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        loop {
            progress.next().await;
            let sending = progress.sending.lock().await;
            let sent = self.send_newest(run, progress).await;
            drop(sending);
            match sent.map_err(|error| ErrorClass::of(&error)) {
                Ok(()) => backoff.reset(),
                // The lease hears of it too.
                Err(ErrorClass::RunOver) => std::future::pending().await,
                Err(ErrorClass::Rejected) => {}
                Err(ErrorClass::Retryable) => sleep(backoff.next()).await,
            }
            sleep(self.settings.intervals.progress).await;
        }
    }

    /// Sends the last progress of a run that is about to be reported, once.
    pub(crate) async fn send_last_progress(&self, run: &RunKey, progress: &ProgressOfRun) {
        let last = async {
            // One that is not answered by then is probably lost.
            let _sending = timeout(LAST_TIMEOUT / 2, progress.sending.lock()).await;
            self.send_newest(run, progress).await
        };
        drop(timeout(LAST_TIMEOUT, last).await);
        progress.finish();
    }

    /// Sends the newest, if that has not arrived. One that is refused is not sent again.
    async fn send_newest(&self, run: &RunKey, progress: &ProgressOfRun) -> Result<(), Error> {
        let Some(newest) = progress.unsent() else { return Ok(()) };
        let sent = self.send_progress(run, &newest).await;
        match &sent {
            Ok(()) => progress.settle(newest),
            Err(error) if ErrorClass::of(error) == ErrorClass::Rejected => {
                progress.settle(newest);
                self.note_refusal(run, progress, error);
            }
            Err(_) => {}
        }
        sent
    }

    /// A run may send something new every second, and all of it be refused.
    fn note_refusal(&self, run: &RunKey, progress: &ProgressOfRun, error: &Error) {
        if !std::mem::replace(&mut progress.state().is_refusal_noted, true) {
            let text = &format!("the server refused its progress: {error}");
            self.events.on_event(&Event::Note { task_id: Some(run.task_id), text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that comes just when the one before has arrived, again and again: the next look may be long in coming.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_progress_is_overlooked_because_of_when_it_comes() {
        let (progress, of_run) = ProgressOfRun::new();
        let of_run = Arc::new(of_run);
        let sender = Arc::clone(&of_run);
        let sending = tokio::spawn(async move {
            loop {
                sender.next().await;
                sender.unsent().into_iter().for_each(|newest| sender.settle(newest));
            }
        });
        let reporting = async {
            for step in 0..20_000 {
                progress.report(JsonObject::from_canonical(&format!("{{\"step\":{step}}}")));
                while of_run.unsent().is_some() {
                    tokio::task::yield_now().await;
                }
            }
        };
        timeout(Duration::from_secs(60), reporting).await.expect("one was overlooked");
        sending.abort();
    }
}
