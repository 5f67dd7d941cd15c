//! The final report of a run, and its delivery: it is sent until the server accepts or refuses it.

use taskqueue_client::{
    Claim, Client, Error, Failure, JsonObject, QueueName, RunAction, RunId, RunReport, TaskId, TraceParent,
};
use taskqueue_core::json::{Found, lookup};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::context::WorkerContext;
use crate::error_class::ErrorClass;
use crate::intervals::Backoff;
use crate::progress::ProgressOfRun;
use crate::stop::{StopMode, stop_reached};

/// Identifies a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunKey {
    pub(crate) queue: QueueName,
    pub(crate) task_id: TaskId,
    pub(crate) run_id: RunId,
    /// For the requests about the run; of an earlier worker's run it is not known.
    pub(crate) trace: Option<TraceParent>,
}

impl RunKey {
    pub(crate) fn new(queue: &QueueName, claim: &Claim) -> Self {
        let trace = Some(trace_of(claim));
        Self { queue: queue.clone(), task_id: claim.task.id, run_id: claim.run_id, trace }
    }
}

/// The member of a task's metadata in which its creator says which trace it belongs to.
const TRACE_MEMBER: &str = "traceparent";

/// The trace of a run: that of the task, or a new one.
pub(crate) fn trace_of(claim: &Claim) -> TraceParent {
    let creator = match lookup(claim.task.metadata.as_str(), &[TRACE_MEMBER]) {
        Some(Found::Str(text)) => TraceParent::parse(&text.to_text()),
        _ => None,
    };
    TraceParent::of_run(claim.run_id, creator)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FinalReport {
    Complete(JsonObject),
    /// Without `retry` the task has failed for good.
    Fail {
        failure: Failure,
        retry: bool,
    },
    Unclaim,
}

impl FinalReport {
    /// The same as an item of a batch.
    pub(crate) fn in_batch(self) -> RunAction {
        RunAction::End(match self {
            Self::Complete(result) => RunReport::Complete { result },
            Self::Fail { failure, retry } => RunReport::Fail { failure, retry, retry_after: None },
            Self::Unclaim => RunReport::Unclaim { delay: None },
        })
    }

    /// What its texts take in a request, if nothing in them has to be escaped.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Complete(result) => result.as_str().len(),
            Self::Fail { failure: Failure { kind, message, traceback }, .. } => {
                kind.len() + message.len() + traceback.as_ref().map_or(0, |traceback| traceback.len())
            }
            Self::Unclaim => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Delivery {
    /// The server accepted this report. It differs from the first one if the server refused that.
    Accepted(FinalReport),
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
        mut report: FinalReport,
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
                answer = self.send_report(run, &report, is_repeated) => answer,
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

/// Sends a report once.
pub(crate) async fn send(client: &Client, run: &RunKey, report: &FinalReport) -> Result<(), Error> {
    let RunKey { queue, task_id, run_id, .. } = run;
    match report {
        FinalReport::Complete(result) => client.complete(queue, *task_id, *run_id, result).await,
        FinalReport::Fail { failure, retry } => client.fail(queue, *task_id, *run_id, failure, *retry).await,
        FinalReport::Unclaim => client.unclaim(queue, *task_id, *run_id).await,
    }
}

/// What to do after an error.
pub(crate) enum AfterError {
    Retry(FinalReport, Error),
    /// Send this report at once.
    ReportInstead(FinalReport),
    GiveUp(Error),
}

/// If the server refuses the result of a success, the run is reported as failed, with that reason: otherwise the task would stay
/// running until its lease ends, and then run again.
pub(crate) fn after_error(report: FinalReport, error: Error) -> AfterError {
    match (ErrorClass::of(&error), report) {
        (ErrorClass::Retryable, report) => AfterError::Retry(report, error),
        (ErrorClass::Rejected, FinalReport::Complete(_)) => AfterError::ReportInstead(FinalReport::Fail {
            failure: Failure {
                kind: "ResultRefused".into(),
                message: format!("the command succeeded, but the server refused its result: {error}").into(),
                traceback: None,
            },
            retry: true,
        }),
        (ErrorClass::Rejected | ErrorClass::RunOver, _) => AfterError::GiveUp(error),
    }
}
