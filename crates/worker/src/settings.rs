//! What a worker is told before it starts.

use std::time::Duration;

use taskqueue_client::{QueueName, Route};

use crate::intervals::Intervals;
use crate::run_dir::RunDir;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The queue whose tasks it claims.
    pub queue: QueueName,
    /// The route it claims for.
    pub route: Route,
    /// How many tasks it runs at the same time.
    pub slots: usize,
    /// How long nothing may run and nothing be claimed until it ends; nothing means for ever.
    pub idle_timeout: Option<Duration>,
    /// How many failures in a row end it; nothing means that none do.
    pub max_consecutive_failures: Option<u32>,
    /// How many tasks it runs in all.
    pub max_tasks: Option<u64>,
    /// How long a run that is told to end may take for it.
    pub grace: Duration,
    /// Where reports are kept until the server has taken them.
    pub spool: Option<SpoolSettings>,
    /// How often and how long.
    pub pace: Intervals,
}

/// Where reports are kept.
#[derive(Clone, Debug)]
pub struct SpoolSettings {
    /// The run directory.
    pub run_dir: RunDir,
    /// The server, as the next worker will call it.
    pub url: String,
}

impl Settings {
    /// One slot that works until it is stopped, or until five runs in a row have failed.
    pub fn new(queue: QueueName, route: Route) -> Self {
        Self {
            queue,
            route,
            slots: 1,
            idle_timeout: None,
            max_consecutive_failures: Some(5),
            max_tasks: None,
            grace: Duration::from_secs(10),
            spool: None,
            pace: Intervals::default(),
        }
    }
}
