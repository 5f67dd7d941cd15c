//! What the keeper does with the runs that a killed worker has left: those that have ended are reported, the others are given back,
//! uncharged. What no server takes in time stays in the spool, for the next worker.

use std::collections::HashMap;
use std::time::Duration;

use taskqueue_client::{Client, Error, QueueName, RunId, TaskId};
use tokio::time::{Instant, sleep, timeout};

use crate::intervals::{Backoff, BackoffLimits};
use crate::keeper::LeftRun;
use crate::report::{AfterError, FinalReport, RunKey, after_error, send};
use crate::settings::SpoolSettings;
use crate::spool::Spool;

const BACKOFF: BackoffLimits = BackoffLimits { first: Duration::from_millis(200), longest: Duration::from_secs(2) };

/// What became of the tasks of runs that a worker has left.
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
    let mut stored: HashMap<RunId, FinalReport> =
        spool.load(&()).into_iter().map(|(run, report)| (run.run_id, report)).collect();
    let (deadline, mut left) = (Instant::now() + patience, LeftTasks::default());
    for LeftRun { task_id, run_id } in runs {
        let run = RunKey { queue: queue.clone(), task_id, run_id, trace: None };
        let report = match stored.remove(&run_id) {
            Some(report) => report,
            None => {
                spool.store(&run, &FinalReport::Unclaim, &()).await;
                FinalReport::Unclaim
            }
        };
        let is_given_back = report == FinalReport::Unclaim;
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

/// Whether the server accepted or refused the report; the last error, if there was one, when the time is over.
async fn deliver(
    client: &Client,
    run: &RunKey,
    mut report: FinalReport,
    deadline: Instant,
) -> Result<bool, Option<Error>> {
    let (mut backoff, mut last_error) = (Backoff::new(BACKOFF), None);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match timeout(left, send(client, run, &report)).await {
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
