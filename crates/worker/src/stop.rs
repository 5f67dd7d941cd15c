//! How a worker stops, and what that means for each run.

use tokio::sync::watch;

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
