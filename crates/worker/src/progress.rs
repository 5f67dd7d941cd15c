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
}

#[derive(Default)]
struct State {
    /// What needs not be sent again.
    settled: Option<JsonObject>,
    /// The last one was taken, and is sent before the report.
    is_over: bool,
}

impl ProgressOfRun {
    pub(crate) fn new() -> (RunProgress, Self) {
        let (sender, values) = watch::channel(None);
        (RunProgress(Arc::new(sender)), Self { values, state: Mutex::default() })
    }

    /// Waits for something that was not sent.
    async fn next(&self) -> JsonObject {
        let mut values = self.values.clone();
        loop {
            if let Some(progress) = self.unsent() {
                return progress;
            }
            values.mark_unchanged();
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

    /// The last one, if it is not known to have arrived. No other is sent from now on.
    pub(crate) fn take_unsent(&self) -> Option<JsonObject> {
        let unsent = self.unsent();
        self.state().is_over = true;
        unsent
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
            let newest = progress.next().await;
            if self.server_features().await.progress {
                match self.send_progress(run, &newest).await {
                    Ok(()) => {
                        progress.settle(newest);
                        backoff.reset();
                    }
                    Err(error) => match class_of(&error) {
                        // The lease hears of it too.
                        ErrorClass::RunOver => std::future::pending().await,
                        ErrorClass::Rejected => {
                            progress.settle(newest);
                            self.progress_refused(run, &error);
                        }
                        ErrorClass::Retryable => sleep(backoff.next()).await,
                    },
                }
            }
            sleep(self.settings.intervals.progress).await;
        }
    }

    /// Sends the last progress of a run that is about to be reported, once.
    pub(crate) async fn send_last_progress(&self, run: &RunKey, progress: Option<JsonObject>) {
        let Some(progress) = progress.filter(|_| self.features.known().progress) else { return };
        if let Ok(Err(error)) = timeout(LAST_TIMEOUT, self.send_progress(run, &progress)).await
            && class_of(&error) == ErrorClass::Rejected
        {
            self.progress_refused(run, &error);
        }
    }

    fn progress_refused(&self, run: &RunKey, error: &Error) {
        let text = &format!("the server refused its progress: {error}");
        self.events.on_event(&Event::Note { task_id: Some(run.task_id), text });
    }
}

/// A server that does not know of progress does not know it the next time.
fn class_of(error: &Error) -> ErrorClass {
    match (ErrorClass::of(error), error) {
        (ErrorClass::Retryable, Error::Api { status: 404 | 405, .. }) => ErrorClass::RunOver,
        (class, _) => class,
    }
}
