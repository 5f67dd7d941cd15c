//! An open loop: decides when each request is to begin, whether or not a connection is free by then.
//! A thread of its own, because timers of the runtime are a millisecond coarse.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Intended starts, to be taken by whichever connection is free.
#[derive(Debug)]
pub(crate) struct OpenLoop(Mutex<UnboundedReceiver<Instant>>);

impl OpenLoop {
    /// Starts so many requests per second, for so long.
    pub(crate) fn start(rate: f64, length: Duration) -> Self {
        let (sender, receiver) = unbounded_channel();
        let begin = Instant::now();
        thread::spawn(move || {
            for intended in starts(rate, length) {
                let intended = begin + intended;
                thread::sleep(intended.saturating_duration_since(Instant::now()));
                if sender.send(intended).is_err() {
                    return;
                }
            }
        });
        Self(Mutex::new(receiver))
    }

    /// The next intended start, once it has come; none after the last.
    pub(crate) async fn next(&self) -> Option<Instant> {
        self.0.lock().await.recv().await
    }
}

fn starts(rate: f64, length: Duration) -> impl Iterator<Item = Duration> {
    (0_u32..).map(move |index| Duration::from_secs_f64(f64::from(index) / rate)).take_while(move |at| *at < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_even_and_end() {
        let starts: Vec<u128> = starts(1000.0, Duration::from_millis(4)).map(|at| at.as_micros()).collect();
        assert_eq!(starts, [0, 1000, 2000, 3000]);
    }
}
