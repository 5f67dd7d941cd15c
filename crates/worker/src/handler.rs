//! What a worker does with a task is a [`Handler`]'s business: a command with child processes (`command/`), or a function in
//! this process. When to claim, how to keep the lease and how to report is not.

use async_trait::async_trait;
use taskqueue_client::{Claim, Failure, JsonObject, WorkerId};
use tokio::sync::watch;

use crate::stop::Order;

/// A task that is to be run, once.
#[derive(Debug)]
pub struct Run {
    /// Which of the worker's slots runs it, from 0.
    pub slot: usize,
    /// What that slot calls itself in its observations.
    pub worker_id: WorkerId,
    /// The task and the run that owns it.
    pub claim: Claim,
    /// What the worker wants of the run. A handler that does not look is dropped some time after the worker's
    /// grace.
    pub orders: watch::Receiver<Order>,
}

impl Run {
    /// Waits until the run is to end.
    pub async fn told_to_end(&mut self) {
        // A worker that is gone wants nothing to go on.
        drop(self.orders.wait_for(|order| *order > Order::Run).await);
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, with this result.
    Complete(JsonObject),
    /// It failed, which is charged.
    Fail(Failure),
    /// It asks to be given back, uncharged: another worker, or this one later, will do better.
    Release,
    /// It ended because it was told to.
    Stopped,
    /// This worker could not run it, through no fault of the task: given back uncharged, but the guard counts it.
    Unable(String),
}

/// Runs tasks.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs a task to its end. Nothing of it may go on afterwards.
    async fn run(&self, run: Run) -> Outcome;
}
