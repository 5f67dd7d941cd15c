//! From requests to stop to what the worker does about them: the first, the second, the third.

use std::sync::Arc;

use taskqueue_worker::Stop;
use taskqueue_worker::keeper::StopRequests;
use tokio::sync::watch;

use super::console_reporter::ConsoleReporter;
use crate::args::OnStop;

/// How far the worker shall stop, from now on.
pub(super) fn watch(
    mut requests: StopRequests,
    on_stop: OnStop,
    reporter: Arc<ConsoleReporter>,
) -> watch::Receiver<Stop> {
    let (stops, watched) = watch::channel(Stop::Go);
    tokio::spawn(async move {
        loop {
            let stop = match requests.next().await {
                Some(()) => further(*stops.borrow(), on_stop),
                // Whoever watched over this worker is gone, and so is the terminal or the service that started it.
                None => Stop::Kill,
            };
            // Told first, while what it will end still runs.
            reporter.stopping(stop);
            stops.send_replace(stop);
            if stop == Stop::Kill {
                // Held, so that the worker does not think that nobody can tell it any more.
                stops.closed().await;
                return;
            }
        }
    });
    watched
}

/// The next step.
fn further(stop: Stop, on_stop: OnStop) -> Stop {
    match (stop, on_stop) {
        (Stop::Go, OnStop::Finish) => Stop::Finish,
        (Stop::Go, OnStop::Release) | (Stop::Finish, _) => Stop::Release,
        (Stop::Release | Stop::Kill, _) => Stop::Kill,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_goes_one_step_further() {
        let steps = |on_stop| {
            let first = further(Stop::Go, on_stop);
            let second = further(first, on_stop);
            [first, second, further(second, on_stop)]
        };
        assert_eq!(steps(OnStop::Finish), [Stop::Finish, Stop::Release, Stop::Kill]);
        assert_eq!(steps(OnStop::Release), [Stop::Release, Stop::Kill, Stop::Kill]);
    }
}
