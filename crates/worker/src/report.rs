//! The end of a run as the server is told it, and how long that is tried: until the server takes it or refuses it.

use std::time::Duration;

use taskqueue_client::{Client, Error, Failure, JsonObject, QueueName, RunId, TaskId};
use tokio::sync::watch;

use crate::error_class::ErrorClass;
use crate::events::{Contact, Listener};
use crate::intervals::{Backoff, Pauses};
use crate::spool::Spool;
use crate::stop::{Stop, reached};

/// Which run of which task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunOf {
    pub(crate) queue: QueueName,
    pub(crate) task_id: TaskId,
    pub(crate) run_id: RunId,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Complete(JsonObject),
    Fail(Failure),
    Unclaim,
}

/// What became of a report.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The server has this; it differs from what was to be reported when the server would not take that.
    Taken(Report),
    /// The run was over already, or the server will not hear of it.
    Refused(Error),
    /// The worker was told to leave first.
    Left,
}

/// What reporting needs.
pub(crate) struct Reporter<'a> {
    pub(crate) client: &'a Client,
    pub(crate) spool: &'a Spool,
    pub(crate) contact: &'a Contact,
    pub(crate) listener: &'a dyn Listener,
    pub(crate) pauses: Pauses,
    /// How long a last try may take when the worker is to leave at once.
    pub(crate) farewell: Duration,
}

impl Reporter<'_> {
    /// Reports until the server takes it or refuses it, or the worker is to leave at once. From before the first try until
    /// that is known the report is kept on disk.
    pub(crate) async fn deliver(&self, run: &RunOf, report: Report, stop: &mut watch::Receiver<Stop>) -> Delivery {
        let (mut report, mut backoff) = (report, Backoff::new(self.pauses));
        self.spool.keep(run, &report, self.listener).await;
        loop {
            let sent = tokio::select! {
                biased;
                sent = send(self.client, run, &report) => sent,
                () = self.out_of_patience(stop.clone()) => return Delivery::Left,
            };
            let Err(error) = sent else {
                self.contact.made(self.listener);
                self.spool.forget(run).await;
                return Delivery::Taken(report);
            };
            match instead(report, error) {
                Next::Again(same, error) => {
                    report = same;
                    self.contact.lost(self.listener, &error);
                    self.spool.make_durable(run).await;
                    tokio::select! {
                        biased;
                        _ = reached(stop, Stop::Kill) => return Delivery::Left,
                        () = tokio::time::sleep(backoff.next()) => {}
                    }
                }
                Next::Other(other) => {
                    report = other;
                    self.spool.keep(run, &report, self.listener).await;
                }
                Next::Over(error) => {
                    self.spool.forget(run).await;
                    return Delivery::Refused(error);
                }
            }
        }
    }

    /// Comes back some time after the worker was told to leave at once: long enough for a server that answers.
    async fn out_of_patience(&self, mut stop: watch::Receiver<Stop>) {
        reached(&mut stop, Stop::Kill).await;
        tokio::time::sleep(self.farewell).await;
    }
}

/// Sends a report once.
pub(crate) async fn send(client: &Client, run: &RunOf, report: &Report) -> Result<(), Error> {
    let RunOf { queue, task_id, run_id } = run;
    match report {
        Report::Complete(result) => client.complete(queue, *task_id, *run_id, result).await,
        Report::Fail(failure) => client.fail(queue, *task_id, *run_id, failure).await,
        Report::Unclaim => client.unclaim(queue, *task_id, *run_id).await,
    }
}

/// What to do after an error.
pub(crate) enum Next {
    /// The same again, later.
    Again(Report, Error),
    /// Something else, now.
    Other(Report),
    /// Nothing more.
    Over(Error),
}

/// A success whose result the server will not take is reported as a failure that says so: the task must not look as if it
/// were still running, and not as if it had never been run.
pub(crate) fn instead(report: Report, error: Error) -> Next {
    match (ErrorClass::of(&error), report) {
        (ErrorClass::Open, report) => Next::Again(report, error),
        (ErrorClass::Refused, Report::Complete(_)) => Next::Other(Report::Fail(Failure {
            kind: "ResultRefused".into(),
            message: format!("the command succeeded, but the server refused its result: {error}").into(),
            traceback: None,
        })),
        (ErrorClass::Refused | ErrorClass::Revoked, _) => Next::Over(error),
    }
}
