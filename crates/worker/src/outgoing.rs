//! Sends what this worker says of its runs: what comes together is sent with one request, and each message is answered for
//! itself. What is repeated is sent alone. A final report is sent until the server accepts or refuses it. Of the progress of a
//! run the newest is sent, at most once a second, and the last one before the final report, because afterwards the server takes none.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{Error, JsonObject, RunAction, RunItem, RunKey, RunReport};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::collector::Collected;
use crate::context::WorkerContext;
use crate::events::Event;
use crate::handler::RunProgress;
use crate::report::{AfterError, ErrorClass, RunMessage, SendResult, after_error, split_into_requests};
use crate::settings::Backoff;
use crate::stop::{StopMode, stop_reached};

impl WorkerContext {
    /// Sends a message about a run once, alone or with others. Returns the moment before the request was sent: a lease cannot have
    /// been renewed earlier.
    pub(crate) async fn say(&self, run: &RunKey, action: RunAction, is_alone: bool) -> SendResult {
        if is_alone || !self.reports_together() {
            return self.send_alone(run, &action).await;
        }
        let (message, answered) = RunMessage::new(run, action);
        self.outgoing.push(message);
        answered.await
    }

    /// Returns whether what comes together is sent with one request.
    pub(crate) fn reports_together(&self) -> bool {
        self.settings.slots.len() > 1
    }

    async fn send_alone(&self, run: &RunKey, action: &RunAction) -> SendResult {
        let sent = Instant::now();
        match action {
            RunAction::End(report) => self.client.report_run(run, report).await,
            RunAction::Progress { progress } => self.client.report_progress(run, progress).await,
            RunAction::Heartbeat { .. } => self.client.heartbeat(run, None).await.map(drop),
        }
        .map(|()| sent)
    }

    /// Sends what comes together until it is dropped.
    pub(crate) async fn serve_outgoing(self: Arc<Self>, collected: Collected<RunMessage>) {
        collected
            .send_all(move |items| {
                let context = Arc::clone(&self);
                async move {
                    let mut requests: JoinSet<()> = split_into_requests(items)
                        .into_iter()
                        .map(|items| Arc::clone(&context).send_batch(items))
                        .collect();
                    while requests.join_next().await.is_some() {}
                }
            })
            .await;
    }

    async fn send_batch(self: Arc<Self>, items: Vec<RunMessage>) {
        if items.len() == 1 {
            return self.send_one_by_one(items).await;
        }
        let reports: Vec<RunItem> = items.iter().map(|item| item.run.item(item.action.clone())).collect();
        let sent = Instant::now();
        let answer = self.client.report_runs(&self.settings.queue, &reports).await;
        if answer.request_error.as_ref().is_some_and(Error::is_too_large) {
            return self.send_one_by_one(items).await;
        }
        for (item, outcome) in items.into_iter().zip(answer.items) {
            item.answer(outcome.map(|_| sent));
        }
    }

    async fn send_one_by_one(self: Arc<Self>, items: Vec<RunMessage>) {
        let mut requests = JoinSet::new();
        for item in items {
            let context = Arc::clone(&self);
            requests.spawn(async move {
                let sent = context.send_alone(&item.run, &item.action).await;
                item.answer(sent);
            });
        }
        while requests.join_next().await.is_some() {}
    }
}

#[derive(Debug)]
pub(crate) enum Delivery {
    /// The server accepted this report. It differs from the first one if the server refused that.
    Accepted(RunReport),
    /// The run was over already, or the server refuses every report about it.
    Refused(Error),
    /// The worker was asked to exit at once.
    Abandoned,
}

impl WorkerContext {
    /// Sends a report until the server accepts or refuses it, or the worker is asked to exit at once. Meanwhile the report is in
    /// the spool. The first time it may be sent with others; it is repeated alone. The last progress is sent before it.
    pub(crate) async fn deliver(
        &self,
        run: &RunKey,
        mut report: RunReport,
        progress: Option<&ProgressOfRun>,
    ) -> Delivery {
        let (mut backoff, mut stop) = (Backoff::new(self.settings.intervals.backoff), self.stop.subscribe());
        self.spool.store(run, &report, &*self.events).await;
        if let Some(progress) = progress {
            self.send_last_progress(run, progress).await;
        }
        let mut is_repeated = false;
        loop {
            let sent = Instant::now();
            let answer = tokio::select! {
                biased;
                answer = self.say(run, RunAction::End(report.clone()), is_repeated) => answer,
                () = self.shutdown_timeout(stop.clone()) => return Delivery::Abandoned,
            };
            let Err(error) = answer else {
                self.reachability.call_succeeded(sent);
                self.spool.remove(run).await;
                return Delivery::Accepted(report);
            };
            is_repeated = true;
            match after_error(report, error) {
                AfterError::Retry(same, error) => {
                    report = same;
                    self.reachability.call_failed(&error, sent);
                    self.spool.sync(run).await;
                    tokio::select! {
                        biased;
                        _ = stop_reached(&mut stop, StopMode::Kill) => return Delivery::Abandoned,
                        () = sleep(backoff.next()) => {}
                    }
                }
                AfterError::ReportInstead(other) => {
                    report = other;
                    self.spool.store(run, &report, &*self.events).await;
                }
                AfterError::GiveUp(error) => {
                    self.spool.remove(run).await;
                    return Delivery::Refused(error);
                }
            }
        }
    }

    /// Returns some time after the worker was asked to exit at once: long enough for a server that answers.
    async fn shutdown_timeout(&self, mut stop: watch::Receiver<StopMode>) {
        stop_reached(&mut stop, StopMode::Kill).await;
        sleep(self.settings.intervals.shutdown_timeout).await;
    }
}

/// The time that the final report waits for the last progress.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The other end of a [`RunProgress`].
pub(crate) struct ProgressOfRun {
    values: watch::Receiver<Option<JsonObject>>,
    state: Mutex<ProgressState>,
    /// Held while one is sent: an older one that arrives later would replace it.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ProgressState {
    /// The progress that needs not be sent again.
    settled: Option<JsonObject>,
    /// The last one was sent, and the report comes next.
    is_over: bool,
    /// It was said that the server refuses it.
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
        let (newest, state) = (self.values.borrow().clone(), self.state.lock());
        newest.filter(|newest| !state.is_over && state.settled.as_ref() != Some(newest))
    }

    fn settle(&self, progress: JsonObject) {
        self.state.lock().settled = Some(progress);
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
        progress.state.lock().is_over = true;
    }

    /// Sends the newest, if that has not arrived. One that is refused is not sent again.
    async fn send_newest(&self, run: &RunKey, progress: &ProgressOfRun) -> Result<(), Error> {
        let Some(newest) = progress.unsent() else { return Ok(()) };
        let sent = self.say(run, RunAction::Progress { progress: newest.clone() }, false).await.map(drop);
        match &sent {
            Ok(()) => progress.settle(newest),
            Err(error) if ErrorClass::of(error) == ErrorClass::Rejected => {
                progress.settle(newest);
                // A run may send something new every second, and all of it be refused.
                if !std::mem::replace(&mut progress.state.lock().is_refusal_noted, true) {
                    let text = &format!("the server refused its progress: {error}");
                    self.events.on_event(&Event::Note { task_id: Some(run.task_id), text });
                }
            }
            Err(_) => {}
        }
        sent
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
