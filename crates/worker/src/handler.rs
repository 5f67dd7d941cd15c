//! A [`Handler`] decides what is done with a task: start a command (`command/`), or call a function in this process. Claims,
//! leases and reports are not its business.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_client::{Claim, Failure, JsonObject, TraceParent, WorkerId};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::sent_output::RunOutput;
use crate::stop::RunControl;
use crate::telemetry::processes::RunProcesses;

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
