//! Settles what an earlier worker has left. The next worker delivers the reports in the spool: together, and those that such a
//! request did not settle one by one. The keeper of a killed worker reports the runs that have ended and gives the others back,
//! uncharged. What no server takes in time stays in the spool.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Client, Error, QueueName, RunAction, RunId, RunKey, RunReport, TaskId};
use tokio::time::{Instant, sleep, timeout};

use crate::context::WorkerContext;
use crate::events::Event;
use crate::keeper::LeftRun;
use crate::report::{AfterError, GIVE_BACK, after_error};
use crate::settings::{Backoff, BackoffLimits, SpoolSettings};
use crate::spool::Spool;

const BACKOFF: BackoffLimits = BackoffLimits { first: Duration::from_millis(200), longest: Duration::from_secs(2) };

/// The tasks of runs that a worker has left, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftTasks {
    /// Pending again.
    pub given_back: Vec<TaskId>,
    /// The run had ended, and the server knows that now, or had ended it itself.
    pub settled: Vec<TaskId>,
    /// Neither: the server did not answer, or not what settles the run, such as that the token is wrong.
    pub undelivered: Vec<TaskId>,
    /// The last answer to the last of these, if there was one.
    pub last_error: Option<Error>,
}

/// Settles these runs with the server, which is asked again and again for so long. Their processes must be gone.
pub async fn settle_left_runs(
    client: &Client,
    queue: &QueueName,
    spool: Option<&SpoolSettings>,
    runs: Vec<LeftRun>,
    patience: Duration,
) -> LeftTasks {
    let opened = spool.map(|spool| Spool::open(&spool.run_dir, &spool.url));
    let spool = opened.and_then(Result::ok).unwrap_or_else(Spool::disabled);
    let mut stored: HashMap<RunId, RunReport> =
        spool.load(&()).into_iter().map(|(run, report)| (run.run_id, report)).collect();
    let (deadline, mut left) = (Instant::now() + patience, LeftTasks::default());
    for LeftRun { task_id, run_id } in runs {
        let run = RunKey::new(queue, task_id, run_id);
        let report = match stored.remove(&run_id) {
            Some(report) => report,
            None => {
                spool.store(&run, &GIVE_BACK, &()).await;
                GIVE_BACK
            }
        };
        let is_given_back = report == GIVE_BACK;
        let tasks = match deliver(client, &run, report, deadline).await {
            Err(error) => {
                left.last_error = error.or_else(|| left.last_error.take());
                &mut left.undelivered
            }
            Ok(is_accepted) => {
                spool.remove(&run).await;
                if is_accepted && is_given_back { &mut left.given_back } else { &mut left.settled }
            }
        };
        tasks.push(task_id);
    }
    left
}

/// Returns whether the server accepted (not refused) the report; as an error the last one, if there was one, when the time is over.
async fn deliver(
    client: &Client,
    run: &RunKey,
    mut report: RunReport,
    deadline: Instant,
) -> Result<bool, Option<Error>> {
    let (mut backoff, mut last_error) = (Backoff::new(BACKOFF), None);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A refused connection is faster than the shortest timeout, so that one alone would not end this.
        if left.is_zero() {
            return Err(last_error);
        }
        let error = match timeout(left, client.report_run(run, &report)).await {
            Err(_) => return Err(last_error),
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) => error,
        };
        report = match after_error(report, error) {
            AfterError::Retry(report, error) => {
                last_error = Some(error);
                sleep(backoff.next().min(left)).await;
                report
            }
            AfterError::ReportInstead(other) => other,
            AfterError::GiveUp(_) => return Ok(false),
        };
    }
}

type StoredReport = (RunKey, RunReport);

impl WorkerContext {
    /// Delivers these until none is left.
    pub(crate) async fn deliver_earlier(self: Arc<Self>, reports: Vec<StoredReport>) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let mut reports = self.deliver_together(reports).await;
        while !reports.is_empty() {
            let mut remaining = Vec::new();
            for (run, report) in reports {
                let sent = Instant::now();
                let answer = self.client.report_run(&run, &report).await;
                remaining.extend(self.settle_earlier(run, report, sent, answer).await);
            }
            reports = remaining;
            if !reports.is_empty() {
                sleep(backoff.next()).await;
            }
        }
    }

    /// Sends them once, those of a queue together. Returns what is not settled.
    async fn deliver_together(&self, reports: Vec<StoredReport>) -> Vec<StoredReport> {
        if reports.len() < 2 {
            return reports;
        }
        let mut queues: HashMap<QueueName, Vec<StoredReport>> = HashMap::new();
        for stored in reports {
            queues.entry(stored.0.queue.clone()).or_default().push(stored);
        }
        let mut remaining = Vec::new();
        for (queue, reports) in queues {
            let item = |(run, report): &StoredReport| run.item(RunAction::End(report.clone()));
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
        report: RunReport,
        sent: Instant,
        answer: Result<(), Error>,
    ) -> Option<StoredReport> {
        let refused = match answer {
            Ok(()) => None,
            Err(error) => match after_error(report, error) {
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
