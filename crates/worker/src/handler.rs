//! What a program that starts a worker gives it: a [`Handler`], which decides what is done with a task, by a command (`command/`) or by a
//! function in this process, and an [`EventSink`], which hears of everything, because the worker never prints. And how it asks a worker
//! to stop, and a worker a run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_client::{Claim, Error, Failure, JsonObject, RunId, TaskId, Timestamp, TraceParent, WorkerId};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::sent_output::RunOutput;
use crate::telemetry::RunProcesses;

/// One run of a task.
#[derive(Debug)]
pub struct TaskRun {
    /// The number of the slot that runs it.
    pub slot: usize,
    /// The id of that slot in its observations.
    pub worker_id: WorkerId,
    pub claim: Claim,
    /// The end of its time, if the task limits it. The server ends the run then; a handler that ends it itself can say more about
    /// it, and does so while the server cannot be reached.
    pub times_out_at: Option<Instant>,
    /// Its place in a trace, for what it calls: the requests that the worker makes about it have the same.
    pub trace: TraceParent,
    /// The wish of the worker for this run. A handler that ignores it is dropped some time after the worker's grace time.
    pub control: watch::Receiver<RunControl>,
    /// Takes what the run prints, for the server.
    pub output: RunOutput,
    /// Takes what the run says of its progress.
    pub progress: RunProgress,
    /// Learns which processes the run has, for telemetry.
    pub processes: RunProcesses,
}

impl TaskRun {
    /// Waits until the run is asked to end.
    pub async fn stop_requested(&mut self) {
        // An error means that the worker was dropped, which also ends the run.
        drop(self.control.wait_for(|control| *control > RunControl::Continue).await);
    }
}

/// The result that a handler gives for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerResult {
    /// The run succeeded.
    Complete(JsonObject),
    /// The run failed; the attempt is charged.
    Fail(Failure),
    /// The run failed, and so would every other run of this task: it is not tried again, whatever is left of its attempts.
    Reject(Failure),
    /// The run asks to be given back uncharged, to be tried again later or elsewhere.
    Release,
    /// The run ended because it was asked to.
    Stopped,
    /// This worker could not run the task, for a reason that is not the task's. It is given back uncharged, but the failure
    /// guard counts it.
    CannotRun(String),
    /// This first task shows that the worker is not set up for the tasks of its queue. It is given back uncharged, and the worker ends.
    Misfit(Misfit),
}

/// A value that the worker needs and the args of a task do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The path of the value that the task does not have.
    pub missing: String,
    /// The paths of values that it has.
    pub present: Vec<String>,
}

#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs a task to its end. Nothing of the run may continue afterwards.
    async fn run(&self, run: TaskRun) -> HandlerResult;
}

/// Takes the progress of a run. Each replaces the one before.
#[derive(Clone, Debug)]
pub struct RunProgress(pub(crate) Arc<watch::Sender<Option<JsonObject>>>);

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
    /// A run began.
    Started { slot: usize, claim: &'a Claim },
    /// A run ended and, where that was possible, was reported. It took the time from its start to the answer to its report.
    Ended { slot: usize, task_id: TaskId, run_id: RunId, outcome: &'a RunOutcome, took: Duration },
    /// The server has answered a claim for the first time: the worker is up.
    Connected,
    /// Calls began to fail. They are repeated; no run is stopped.
    ServerUnreachable(&'a Error),
    /// Calls succeed again, after so long.
    ServerReachable { took: Duration },
    /// No heartbeat succeeded for the duration of a lease. The run continues; the server decides about it.
    LeaseInDoubt { slot: usize, task_id: TaskId },
    /// A report of an earlier worker was delivered, or refused for the reason given.
    EarlierReport { task_id: TaskId, refused: Option<&'a str> },
    /// The disk of the run directory is nearly full.
    LowDisk { run_dir: &'a Path, available_bytes: u64, total_bytes: u64 },
    /// So many bytes of the output of a run were not sent: they were printed too fast, or the server did not take them in time.
    OutputNotSent { task_id: TaskId, bytes: u64 },
    /// So many failures in a row of different tasks, of which this is the last: nothing is claimed for so long.
    SlowedDown { failures: u32, pause: Duration, task_id: TaskId },
    /// There was nothing to do for a while, for this reason. Again only when there is another one.
    Idle(&'a IdleReason),
    /// The whole worker was stopped for so long (SIGSTOP, a frozen machine) and sent no heartbeats.
    Paused(Duration),
    /// A remark about a run or about the worker's own files.
    Note { task_id: Option<TaskId>, text: &'a str },
}

/// Receives the events. It is called from the worker's tasks, so it must return quickly.
pub trait EventSink: Send + Sync + 'static {
    fn on_event(&self, event: &Event<'_>);
}

/// Ignores all events.
impl EventSink for () {
    fn on_event(&self, _: &Event<'_>) {}
}

/// The stop that the worker was asked for. Each step includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// Not stopping: claim and run.
    #[default]
    Running,
    /// Claim nothing more; running tasks may finish.
    Finish,
    /// Stop running tasks and give them back.
    Release,
    /// Kill running tasks and exit at once. Reports that could not be delivered stay in the spool.
    Kill,
}

/// The wish of the worker for one run. Each step includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunControl {
    #[default]
    Continue,
    /// End in an orderly way, soon.
    Stop,
    /// End now.
    Kill,
}

/// Waits until the worker was asked for at least this mode; returns the current one.
pub(crate) async fn stop_reached(stop: &mut watch::Receiver<StopMode>, least: StopMode) -> StopMode {
    match stop.wait_for(|stop| *stop >= least).await {
        Ok(stop) => *stop,
        // The worker was dropped.
        Err(_) => StopMode::Kill,
    }
}
