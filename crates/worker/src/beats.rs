//! The rhythm of heartbeats that the server does not hold. Those of all runs are brought together, so that they are sent with one
//! request: when one is due, it takes along what would be due soon.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::context::WorkerContext;
use crate::outgoing::{Outgoing, Sent};
use crate::report::RunKey;

/// A heartbeat that is due at some time.
pub(crate) struct Beat {
    run: RunKey,
    due: Instant,
    answer: oneshot::Sender<Sent>,
}

impl WorkerContext {
    /// Sends a heartbeat after about this pause, with those of other runs.
    pub(crate) async fn heartbeat_after(&self, run: &RunKey, pause: Duration) -> Sent {
        let (answer, sent) = oneshot::channel();
        // If nobody sends any more, that is heard below.
        drop(self.beats.send(Beat { run: run.clone(), due: Instant::now() + pause, answer }));
        let dropped = || Error::Transport { message: "the request was dropped".to_owned(), may_have_arrived: true };
        sent.await.unwrap_or_else(|_| Err(dropped()))
    }

    /// Sends heartbeats when they are due, until it is dropped.
    pub(crate) async fn serve_beats(self: Arc<Self>, mut queue: mpsc::UnboundedReceiver<Beat>) {
        let soon = self.settings.intervals.heartbeat_poll / 2;
        let mut beats: Vec<Beat> = Vec::new();
        loop {
            let next = beats.iter().map(|beat| beat.due).min();
            tokio::select! {
                biased;
                beat = queue.recv() => match beat {
                    Some(beat) => beats.push(beat),
                    None => return,
                },
                () = until(next) => {
                    for beat in take_due(&mut beats, Instant::now() + soon) {
                        self.outgoing.push(Outgoing::heartbeat(beat.run, beat.answer));
                    }
                }
            }
            if beats.len() > self.settings.slots.len() {
                beats.retain(|beat| !beat.answer.is_closed());
            }
        }
    }
}

/// Takes what is due until then. Runs that have ended need no heartbeat.
fn take_due(beats: &mut Vec<Beat>, until: Instant) -> Vec<Beat> {
    let all = std::mem::take(beats).into_iter().filter(|beat| !beat.answer.is_closed());
    let (due, later) = all.partition(|beat| beat.due <= until);
    *beats = later;
    due
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
