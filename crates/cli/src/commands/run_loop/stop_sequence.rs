//! What the first, second and third stop request do.

use std::sync::Arc;

use taskqueue_worker::StopMode;
use taskqueue_worker::keeper::StopRequests;
use tokio::sync::watch;

use super::console_reporter::ConsoleReporter;
use crate::args::OnStop;

/// Turns stop requests into stop modes.
pub(super) fn watch(
    mut requests: StopRequests,
    on_stop: OnStop,
    reporter: Arc<ConsoleReporter>,
) -> watch::Receiver<StopMode> {
    let (modes, receiver) = watch::channel(StopMode::Running);
    tokio::spawn(async move {
        loop {
            let stop = match requests.next().await {
                Some(()) => next_mode(*modes.borrow(), on_stop),
                // The keeper was killed.
                None => StopMode::Kill,
            };
            // Printed first, while the runs are still there to be counted.
            reporter.stopping(stop);
            modes.send_replace(stop);
            if stop == StopMode::Kill {
                // Keeps the channel to the worker open.
                modes.closed().await;
                return;
            }
        }
    });
    receiver
}

fn next_mode(stop: StopMode, on_stop: OnStop) -> StopMode {
    match (stop, on_stop) {
        (StopMode::Running, OnStop::Finish) => StopMode::Finish,
        (StopMode::Running, OnStop::Release) | (StopMode::Finish, _) => StopMode::Release,
        (StopMode::Release | StopMode::Kill, _) => StopMode::Kill,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_goes_one_step_further() {
        let steps = |on_stop| {
            let first = next_mode(StopMode::Running, on_stop);
            let second = next_mode(first, on_stop);
            [first, second, next_mode(second, on_stop)]
        };
        assert_eq!(steps(OnStop::Finish), [StopMode::Finish, StopMode::Release, StopMode::Kill]);
        assert_eq!(steps(OnStop::Release), [StopMode::Release, StopMode::Kill, StopMode::Kill]);
    }
}
