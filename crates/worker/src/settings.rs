//! The settings of a worker.

use std::time::Duration;

use taskqueue_client::{JsonObject, QueueName, Route};

use crate::failure_guard::OnFailures;
use crate::intervals::Intervals;
use crate::run_dir::RunDir;
use crate::sent_output::SendOutput;

#[derive(Clone, Debug)]
pub struct Settings {
    pub queue: QueueName,
    pub route: Route,
    /// Tells this worker apart from others of its machine.
    pub name: Option<String>,
    /// What is shown with its observations and runs, besides what the worker says itself. Members that the server has no room for are
    /// left out.
    pub metadata: JsonObject,
    /// The numbers of the slots. Each slot runs one task at a time.
    pub slots: Vec<usize>,
    /// The worker ends after being idle for this long; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// What failures in a row of different tasks do.
    pub on_failures: OnFailures,
    /// The worker ends after this many tasks.
    pub max_tasks: Option<u64>,
    /// How long a run may take to end after it was asked to.
    pub grace: Duration,
    /// Where reports are stored until the server has accepted or refused them.
    pub spool: Option<SpoolSettings>,
    /// What of the output of runs is sent, to a server that keeps it.
    pub send_output: SendOutput,
    /// Whether it is measured what runs, the machine and its GPUs use, and sent to the server. For that a program may be
    /// started, so `main` has to begin with [`run_if_supervisor`](crate::run_if_supervisor).
    pub telemetry: bool,
    pub intervals: Intervals,
}

#[derive(Clone, Debug)]
pub struct SpoolSettings {
    pub run_dir: RunDir,
    /// The URL of the server. The next worker delivers the stored reports only to the same URL.
    pub url: String,
}

impl Settings {
    /// One slot that works until it is stopped, or until five different tasks have failed and none has succeeded.
    pub fn new(queue: QueueName, route: Route) -> Self {
        Self {
            queue,
            route,
            name: None,
            metadata: JsonObject::empty(),
            slots: vec![0],
            idle_timeout: None,
            on_failures: OnFailures::SlowDown,
            max_tasks: None,
            grace: Duration::from_secs(10),
            spool: None,
            send_output: SendOutput::On,
            telemetry: false,
            intervals: Intervals::default(),
        }
    }
}
