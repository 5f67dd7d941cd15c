//! Requests to stop, as the worker hears them: from its keeper and from signals of its own. A signal to both, as Ctrl-C in a
//! terminal or a supervisor of services sends it, is one request.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Within this time the signals that one event sends to keeper and worker have reached both.
const SAME_EVENT: Duration = Duration::from_millis(500);

/// Nobody asks twice as fast as this, but `timeout` sends its signal to the command and then to the whole group.
const BURST: Duration = Duration::from_millis(50);

/// The requests to stop.
#[derive(Debug)]
pub struct StopRequests {
    streams: Streams,
    pairing: Pairing,
}

#[derive(Debug)]
enum Streams {
    /// Until somebody waits for the first request, for before that there need not be a runtime.
    Inherited(Option<(UnixStream, UnixStream)>),
    Heard(tokio::net::UnixStream, tokio::net::UnixStream),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Keeper,
    Own,
}

impl StopRequests {
    pub(super) fn new(keepers: UnixStream, own: UnixStream) -> io::Result<Self> {
        keepers.set_nonblocking(true)?;
        own.set_nonblocking(true)?;
        Ok(Self { streams: Streams::Inherited(Some((keepers, own))), pairing: Pairing::default() })
    }

    /// Waits for the next request. Nothing means that the keeper is gone: then everything is to be killed
    /// ([`kill_everything`](super::kill_everything)) and the process is to end. No request is lost when this is dropped.
    pub async fn next(&mut self) -> Option<()> {
        loop {
            match &mut self.streams {
                Streams::Inherited(streams) => {
                    let (keepers, own) = streams.take()?;
                    let listen = tokio::net::UnixStream::from_std;
                    self.streams = Streams::Heard(listen(keepers).ok()?, listen(own).ok()?);
                }
                Streams::Heard(keepers, own) => {
                    let source = tokio::select! {
                        heard = hear(keepers) => heard.map(|()| Source::Keeper),
                        heard = hear(own) => heard.map(|()| Source::Own),
                    };
                    if self.pairing.is_new(source?, Instant::now()) {
                        return Some(());
                    }
                }
            }
        }
    }
}

/// Waits for one byte; nothing when the other end is gone.
async fn hear(stream: &tokio::net::UnixStream) -> Option<()> {
    loop {
        stream.readable().await.ok()?;
        match stream.try_read(&mut [0]) {
            Ok(1..) => return Some(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
}

/// Tells requests of both sources that come from one event from those that do not.
#[derive(Debug, Default)]
struct Pairing {
    /// The source and the times of requests whose other half has not been heard yet.
    alone: Option<(Source, Vec<Instant>)>,
    /// The time of the last request that counted.
    counted: Option<Instant>,
}

impl Pairing {
    fn is_new(&mut self, source: Source, now: Instant) -> bool {
        let (owner, times) = self.alone.get_or_insert_with(|| (source, Vec::new()));
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
        let (mut pairing, start) = (Pairing::default(), Instant::now());
        requests
            .iter()
            .map(|(source, millis)| pairing.is_new(*source, start + Duration::from_millis(*millis)))
            .collect()
    }

    #[test]
    fn one_event_that_reaches_both_is_one_request() {
        use Source::{Keeper, Own};
        assert_eq!(counted(&[(Keeper, 0), (Own, 1)]), [true, false]);
        assert_eq!(counted(&[(Own, 0), (Keeper, 1), (Own, 102), (Keeper, 103)]), [true, false, true, false]);
        assert_eq!(counted(&[(Own, 0), (Own, 100), (Keeper, 101), (Keeper, 102)]), [true, true, false, false]);
    }

    #[test]
    fn one_event_that_reaches_one_of_them_twice_is_one_request() {
        use Source::{Keeper, Own};
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 0), (Own, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Keeper, 0), (Own, 0), (Keeper, 1)]), [true, false, false]);
        assert_eq!(counted(&[(Own, 0), (Keeper, 1), (Keeper, 2), (Own, 300), (Keeper, 301)])[3..], [true, false]);
    }

    #[test]
    fn requests_by_one_way_or_far_apart_all_count() {
        use Source::{Keeper, Own};
        assert_eq!(counted(&[(Keeper, 0), (Keeper, 100), (Keeper, 200)]), [true, true, true]);
        assert_eq!(counted(&[(Own, 0), (Keeper, 501), (Own, 1200)]), [true, true, true]);
    }

    #[tokio::test]
    async fn bytes_are_requests_and_the_end_of_the_keeper_is_the_end() {
        use std::io::Write;
        let (keepers, mut keeper) = UnixStream::pair().unwrap();
        let (own, _signals) = UnixStream::pair().unwrap();
        let mut requests = StopRequests::new(keepers, own).unwrap();
        keeper.write_all(b"X").unwrap();
        assert_eq!(requests.next().await, Some(()));
        drop(keeper);
        assert_eq!(requests.next().await, None);
    }
}
