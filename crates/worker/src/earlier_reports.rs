//! Delivers the reports that an earlier worker left in the spool: together, and those that such a request did not settle one by one.

use std::collections::HashMap;
use std::sync::Arc;

use taskqueue_client::{Error, QueueName, RunItem};
use tokio::time::{Instant, sleep};

use crate::context::WorkerContext;
use crate::events::Event;
use crate::intervals::Backoff;
use crate::report::{self, AfterError, FinalReport, RunKey};

type Stored = (RunKey, FinalReport);

impl WorkerContext {
    /// Delivers these until none is left.
    pub(crate) async fn deliver_earlier(self: Arc<Self>, reports: Vec<Stored>) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let mut reports = self.deliver_together(reports).await;
        while !reports.is_empty() {
            let mut remaining = Vec::new();
            for (run, report) in reports {
                let sent = Instant::now();
                let answer = report::send(&self.client, &run, &report).await;
                remaining.extend(self.settle_earlier(run, report, sent, answer).await);
            }
            reports = remaining;
            if !reports.is_empty() {
                sleep(backoff.next()).await;
            }
        }
    }

    /// Sends them once, those of a queue together. Returns what is not settled.
    async fn deliver_together(&self, reports: Vec<Stored>) -> Vec<Stored> {
        if reports.len() < 2 {
            return reports;
        }
        let mut queues: HashMap<QueueName, Vec<Stored>> = HashMap::new();
        for stored in reports {
            queues.entry(stored.0.queue.clone()).or_default().push(stored);
        }
        let mut remaining = Vec::new();
        for (queue, reports) in queues {
            let item = |(run, report): &Stored| RunItem {
                task_id: run.task_id,
                run_id: run.run_id,
                action: report.clone().in_batch(),
            };
            let sent = Instant::now();
            let answer = self.client.report_runs(&queue, &reports.iter().map(item).collect::<Vec<_>>()).await;
            for ((run, report), outcome) in reports.into_iter().zip(answer.items) {
                match outcome {
                    Ok(_) => remaining.extend(self.settle_earlier(run, report, sent, Ok(())).await),
                    // What the server says of the single report counts.
                    Err(_) => remaining.push((run, report)),
                }
            }
        }
        remaining
    }

    /// Removes a report that was accepted or refused. Returns what is to be sent again.
    async fn settle_earlier(
        &self,
        run: RunKey,
        report: FinalReport,
        sent: Instant,
        answer: Result<(), Error>,
    ) -> Option<Stored> {
        let refused = match answer {
            Ok(()) => None,
            Err(error) => match report::after_error(report, error) {
                AfterError::Retry(report, error) => {
                    self.reachability.call_failed(&error, sent);
                    return Some((run, report));
                }
                AfterError::ReportInstead(other) => return Some((run, other)),
                AfterError::GiveUp(error) => Some(error.to_string()),
            },
        };
        self.spool.remove(&run).await;
        self.events.on_event(&Event::EarlierReport { task_id: run.task_id, refused: refused.as_deref() });
        None
    }
}
