//! The stop requests that a worker receives: from its keeper, and from its own signals. A signal that is sent to both processes
//! (Ctrl-C in a terminal, a service supervisor) is one request.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::active_runs::ActiveRuns;

/// Within this time the signals of one event have reached both keeper and worker.
const SAME_EVENT: Duration = Duration::from_millis(500);

/// Signals that follow this fast are one request: `timeout` sends its signal to the command and then to the whole group.
const BURST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct StopRequests {
    streams: Streams,
    duplicates: DuplicateFilter,
    active_runs: ActiveRuns,
}

#[derive(Debug)]
enum Streams {
    /// Until the first call of `next`; before that there may be no runtime.
    Blocking(Option<(UnixStream, UnixStream)>),
    Async(tokio::net::UnixStream, tokio::net::UnixStream),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Keeper,
    Signal,
}

impl StopRequests {
    pub(super) fn new(keeper: UnixStream, signals: UnixStream) -> io::Result<Self> {
        keeper.set_nonblocking(true)?;
        signals.set_nonblocking(true)?;
        let active_runs = ActiveRuns::new(keeper.try_clone()?);
        let streams = Streams::Blocking(Some((keeper, signals)));
        Ok(Self { streams, duplicates: DuplicateFilter::default(), active_runs })
    }

    /// Tells the keeper, over the same stream, which runs there are.
    #[must_use]
    pub fn active_runs(&self) -> ActiveRuns {
        self.active_runs.clone()
    }

    /// Waits for the next request. `None` means that the keeper has ended: the worker has to call
    /// [`kill_everything`](super::kill_everything) and exit. No request is lost when this future is dropped.
    pub async fn next(&mut self) -> Option<()> {
        loop {
            match &mut self.streams {
                Streams::Blocking(streams) => {
                    let (keeper, signals) = streams.take()?;
                    let register = tokio::net::UnixStream::from_std;
                    self.streams = Streams::Async(register(keeper).ok()?, register(signals).ok()?);
                }
                Streams::Async(keeper, signals) => {
                    let source = tokio::select! {
                        read = read_byte(keeper) => read.map(|()| Source::Keeper),
                        read = read_byte(signals) => read.map(|()| Source::Signal),
                    };
                    if self.duplicates.is_new(source?, Instant::now()) {
                        return Some(());
                    }
                }
            }
        }
    }
}

/// Waits for one byte; `None` when the other end is closed.
async fn read_byte(stream: &tokio::net::UnixStream) -> Option<()> {
    loop {
        stream.readable().await.ok()?;
        match stream.try_read(&mut [0]) {
            Ok(1..) => return Some(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
}

/// Recognises requests that come from the same event as an earlier one.
#[derive(Debug, Default)]
struct DuplicateFilter {
    /// One source and the times of its requests that have not arrived from the other source yet.
    unpaired: Option<(Source, Vec<Instant>)>,
    /// The time of the last request that counted.
    counted: Option<Instant>,
}

impl DuplicateFilter {
    fn is_new(&mut self, source: Source, now: Instant) -> bool {
        let (owner, times) = self.unpaired.get_or_insert_with(|| (source, Vec::new()));
        times.retain(|time| now.saturating_duration_since(*time) <= SAME_EVENT);
        if *owner != source && !times.is_empty() {
            times.remove(0);
            return false;
        }
        if self.counted.is_some_and(|counted| now.saturating_duration_since(counted) <= BURST) {
            return false;
        }
        self.counted = Some(now);
        *owner = source;
        times.push(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the requests count, each given as its source and its time in milliseconds.
    fn counted(requests: &[(Source, u64)]) -> Vec<bool> {
        let (mut duplicates, start) = (DuplicateFilter::default(), Instant::now());
        requests
            .iter()
            .map(|(source, millis)| duplicates.is_new(*source, start + Duration::from_millis(*millis)))
            .collect()
    }

    #[test]
    fn one_event_that_reaches_both_is_one_request() {
        use Source::{Keeper, Signal};
        assert_eq!(counted(&[(Keeper, 0), (Signal, 1)]), [true, false]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 1), (Signal, 102), (Keeper, 103)]), [true, false, true, false]);
        assert_eq!(counted(&[(Signal, 0), (Signal, 100), (Keeper, 101), (Keeper, 102)]), [true, true, false, false]);
    }

    #[test]
    fn one_event_that_reaches_one_of_them_twice_is_one_request() {
        use Source::{Keeper, Signal};
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 0), (Signal, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Keeper, 0), (Signal, 0), (Keeper, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 1), (Keeper, 2), (Signal, 300), (Keeper, 301)])[3..], [true, false]);
    }

    #[test]
    fn requests_by_one_way_or_far_apart_all_count() {
        use Source::{Keeper, Signal};
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 100), (Keeper, 200)]), [true, true, true]);
        assert_eq!(counted(&[(Signal, 0), (Keeper, 501), (Signal, 1200)]), [true, true, true]);
    }

    #[tokio::test]
    async fn bytes_are_requests_and_the_end_of_the_keeper_is_the_end() {
        use std::io::Write;
        let (from_keeper, mut keeper) = UnixStream::pair().unwrap();
        let (from_signals, _signals) = UnixStream::pair().unwrap();
        let mut requests = StopRequests::new(from_keeper, from_signals).unwrap();
        keeper.write_all(b"X").unwrap();
        assert_eq!(requests.next().await, Some(()));
        drop(keeper);
        assert_eq!(requests.next().await, None);
    }
}
