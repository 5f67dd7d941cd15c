//! How far a worker has been asked to stop, and what a run is told about it.

use tokio::sync::watch;

/// What a worker has been asked to do. Each step includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Nothing: claim and run.
    #[default]
    Go,
    /// Claim nothing more; what runs may finish.
    Finish,
    /// Stop what runs and give it back.
    Release,
    /// Kill what runs and leave at once; whatever could not be reported stays for the next worker.
    Kill,
}

/// What a run is told. Each step includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Go on.
    #[default]
    Run,
    /// End in good order, soon.
    Stop,
    /// End now.
    Kill,
}

/// Comes back when the worker was asked to go at least this far; gives how far that is.
pub(crate) async fn reached(stop: &mut watch::Receiver<Stop>, least: Stop) -> Stop {
    match stop.wait_for(|stop| *stop >= least).await {
        Ok(stop) => *stop,
        // The worker is gone, and nobody will be asked anything any more.
        Err(_) => Stop::Kill,
    }
}
