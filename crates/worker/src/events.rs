//! The events of a worker. The worker never prints: the program that starts it passes an [`EventSink`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Claim, Error, RunId, TaskId, Timestamp};

/// The outcome of a run for its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The server has the result.
    Succeeded,
    /// The server has the failure.
    Failed { kind: Arc<str>, message: Arc<str> },
    /// The task was given back.
    Released,
    /// This worker could not run the task, for this reason, and gave it back.
    CannotRun(String),
    /// The server had ended the run (cancelled, expired, or owned by another worker), for this reason. One that it ended because of
    /// the time limit of the task has failed.
    Revoked(String),
    /// The worker stopped before the server accepted the report. It is stored if there is a run directory.
    Undelivered,
}

/// The reason for which there is no task to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// No task is pending for the route.
    NoTask,
    /// The server does not tell, or not to this token: one with the scope `work` may not read.
    Untold,
    /// Tasks are pending for these routes, so many for each, and none for that of the worker.
    OtherRoutes(Vec<(String, u64)>),
    QueuePaused,
    /// As many tasks are running as the queue allows.
    QueueAtLimit(u64),
    /// As many tasks of the route are running as the queue allows.
    RouteAtLimit,
    /// So many tasks of the route are pending; one can be claimed from this time on.
    Delayed(u64, Timestamp),
    /// So many tasks of the route are pending; one waits for others.
    Dependencies(u64),
    /// So many tasks of the route are pending, and none can be claimed.
    Held(u64),
}

#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    Started {
        slot: usize,
        claim: &'a Claim,
    },
    /// A run ended and, where that was possible, was reported.
    Ended {
        slot: usize,
        task_id: TaskId,
        run_id: RunId,
        outcome: &'a RunOutcome,
        /// From the start of the run to the answer to its report.
        took: Duration,
    },
    /// The server has answered a claim for the first time: the worker is up.
    Connected,
    /// Calls began to fail. They are repeated; no run is stopped.
    ServerUnreachable(&'a Error),
    /// Calls succeed again, after so long.
    ServerReachable {
        took: Duration,
    },
    /// No heartbeat succeeded for the duration of a lease. The run continues; the server decides about it.
    LeaseInDoubt {
        slot: usize,
        task_id: TaskId,
    },
    /// A report of an earlier worker was delivered, or refused for the reason given.
    EarlierReport {
        task_id: TaskId,
        refused: Option<&'a str>,
    },
    /// The disk of the run directory is nearly full.
    LowDisk {
        run_dir: &'a Path,
        available_bytes: u64,
        total_bytes: u64,
    },
    /// So many bytes of the output of a run were not sent: they were printed too fast, or the server did not take them in time.
    OutputNotSent {
        task_id: TaskId,
        bytes: u64,
    },
    /// So many failures in a row of different tasks, of which this is the last: nothing is claimed for so long.
    SlowedDown {
        failures: u32,
        pause: Duration,
        task_id: TaskId,
    },
    /// There was nothing to do for a while, for this reason. Again only when there is another one.
    Idle(&'a IdleReason),
    /// The whole worker was stopped for so long (SIGSTOP, a frozen machine) and sent no heartbeats.
    Paused(Duration),
    /// A remark about a run or about the worker's own files.
    Note {
        task_id: Option<TaskId>,
        text: &'a str,
    },
}

/// Receives the events. It is called from the worker's tasks, so it must return quickly.
pub trait EventSink: Send + Sync + 'static {
    fn on_event(&self, event: &Event<'_>);
}

/// Ignores all events.
impl EventSink for () {
    fn on_event(&self, _: &Event<'_>) {}
}
