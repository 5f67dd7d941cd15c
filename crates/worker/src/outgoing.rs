//! What this worker says of its runs, heartbeats, progress and final reports: what comes together is sent with one request. Each is answered for itself. When something is repeated is decided elsewhere, and what is repeated is sent alone.

use std::sync::Arc;

use taskqueue_client::{Error, JsonObject, RunAction, RunItem};
use taskqueue_core::limits::{BATCH_ITEMS, REQUEST_BODY_BYTES};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::collector::Collected;
use crate::context::WorkerContext;
use crate::report::{FinalReport, RunKey, send};

/// About how much a request takes at most, unless one report alone is larger: what a single request may have. So a network that is
/// too slow for more delivers as much as without batches. Escaping can double a text.
const REQUEST_BYTES: usize = REQUEST_BODY_BYTES / 2;
/// What a report takes besides its texts.
const FRAME_BYTES: usize = 160;

/// When it was sent, or why it failed.
pub(crate) type Sent = Result<Instant, Error>;

/// One call about a run of the worker's queue.
pub(crate) struct Outgoing {
    run: RunKey,
    what: What,
    answer: oneshot::Sender<Sent>,
}

/// What is said of a run.
#[derive(Clone, Debug)]
enum What {
    Heartbeat,
    Progress(JsonObject),
    End(FinalReport),
}

impl WorkerContext {
    /// Renews the lease of a run. Returns the moment before the request was sent: the lease cannot have been renewed earlier.
    pub(crate) async fn heartbeat(&self, run: &RunKey, is_alone: bool) -> Sent {
        self.say(run, What::Heartbeat, is_alone).await
    }

    /// Sends the progress of a run once.
    pub(crate) async fn send_progress(&self, run: &RunKey, progress: &JsonObject) -> Result<(), Error> {
        self.say(run, What::Progress(progress.clone()), false).await.map(drop)
    }

    /// Sends a final report once.
    pub(crate) async fn send_report(&self, run: &RunKey, report: &FinalReport, is_alone: bool) -> Result<(), Error> {
        self.say(run, What::End(report.clone()), is_alone).await.map(drop)
    }

    async fn say(&self, run: &RunKey, what: What, is_alone: bool) -> Sent {
        if is_alone || !self.reports_together() {
            self.send_alone(run, &what).await
        } else {
            self.send_together(run, what).await
        }
    }

    /// Whether what comes together is sent with one request.
    pub(crate) fn reports_together(&self) -> bool {
        self.settings.slots.len() > 1
    }

    async fn send_alone(&self, run: &RunKey, what: &What) -> Sent {
        let (sent, RunKey { queue, task_id, run_id, .. }) = (Instant::now(), run);
        let client = self.client_of(run);
        match what {
            What::End(report) => send(&client, run, report).await,
            What::Progress(progress) => client.report_progress(queue, *task_id, *run_id, progress).await,
            What::Heartbeat => client.heartbeat(queue, *task_id, *run_id).await.map(drop),
        }
        .map(|()| sent)
    }

    async fn send_together(&self, run: &RunKey, what: What) -> Sent {
        let (answer, sent) = oneshot::channel();
        self.outgoing.push(Outgoing { run: run.clone(), what, answer });
        let dropped = || Error::Transport { message: "the request was dropped".to_owned(), may_have_arrived: true };
        sent.await.unwrap_or_else(|_| Err(dropped()))
    }

    /// Sends what comes together until it is dropped.
    pub(crate) async fn serve_outgoing(self: Arc<Self>, collected: Collected<Outgoing>) {
        collected
            .send_all(move |items| {
                let context = Arc::clone(&self);
                async move {
                    let mut requests: JoinSet<()> =
                        split(items).into_iter().map(|items| Arc::clone(&context).send_batch(items)).collect();
                    while requests.join_next().await.is_some() {}
                }
            })
            .await;
    }

    async fn send_batch(self: Arc<Self>, items: Vec<Outgoing>) {
        if items.len() == 1 {
            return self.send_one_by_one(items).await;
        }
        let (reports, sent): (Vec<RunItem>, _) = (items.iter().map(Outgoing::in_batch).collect(), Instant::now());
        let answer = self.client.report_runs(&self.settings.queue, &reports).await;
        if answer.request_error.as_ref().is_some_and(Error::is_too_large) {
            return self.send_one_by_one(items).await;
        }
        for (item, outcome) in items.into_iter().zip(answer.items) {
            item.answer(outcome.map(|_| sent));
        }
    }

    async fn send_one_by_one(self: Arc<Self>, items: Vec<Outgoing>) {
        let mut requests = JoinSet::new();
        for item in items {
            let context = Arc::clone(&self);
            requests.spawn(async move {
                let sent = context.send_alone(&item.run, &item.what).await;
                item.answer(sent);
            });
        }
        while requests.join_next().await.is_some() {}
    }
}

impl Outgoing {
    pub(crate) fn heartbeat(run: RunKey, answer: oneshot::Sender<Sent>) -> Self {
        Self { run, what: What::Heartbeat, answer }
    }

    fn in_batch(&self) -> RunItem {
        let action = match self.what.clone() {
            What::Heartbeat => RunAction::Heartbeat { progress: None },
            What::Progress(progress) => RunAction::Progress { progress },
            What::End(report) => report.in_batch(),
        };
        RunItem { task_id: self.run.task_id, run_id: self.run.run_id, action }
    }

    fn answer(self, sent: Sent) {
        // Whoever asked may be gone: a run that has ended needs no heartbeat.
        drop(self.answer.send(sent));
    }

    fn bytes(&self) -> usize {
        FRAME_BYTES
            + match &self.what {
                What::Heartbeat => 0,
                What::Progress(progress) => progress.as_str().len(),
                What::End(report) => report.text_bytes(),
            }
    }
}

/// Splits into what is sent with one request.
fn split(items: Vec<Outgoing>) -> Vec<Vec<Outgoing>> {
    let (mut requests, mut bytes): (Vec<Vec<Outgoing>>, usize) = (Vec::new(), 0);
    for item in items {
        bytes += item.bytes();
        match requests.last_mut().filter(|request| request.len() < BATCH_ITEMS && bytes <= REQUEST_BYTES) {
            Some(request) => request.push(item),
            None => {
                bytes = item.bytes();
                requests.push(vec![item]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{JsonObject, QueueName, RunId, TaskId};

    use super::*;

    fn report(result_bytes: usize) -> Outgoing {
        let run = RunKey {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse("r_000000000001").unwrap(),
            trace: None,
        };
        let result = JsonObject::from_canonical(&format!("{{\"a\":\"{}\"}}", "x".repeat(result_bytes)));
        Outgoing { run, what: What::End(FinalReport::Complete(result)), answer: oneshot::channel().0 }
    }

    fn sizes(result_bytes: &[usize]) -> Vec<usize> {
        split(result_bytes.iter().map(|bytes| report(*bytes)).collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_has_no_more_than_a_thousand_and_no_more_bytes_than_a_single_one() {
        assert_eq!(sizes(&[1; 1001]), [1000, 1]);
        assert_eq!(sizes(&[1, 1, REQUEST_BYTES, 1, 1]), [2, 1, 2], "a large one is alone");
        assert_eq!(sizes(&[REQUEST_BYTES / 4; 7]), [3, 3, 1]);
    }
}
