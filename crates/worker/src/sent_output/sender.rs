//! The task that sends the output of one run: at most once a second while the run goes on, and what is left when it is over. It outlives
//! its run for some seconds and keeps nobody waiting.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::RunKey;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::text::OutputText;
use super::{OutputBuffer, OutputFeed, RunOutput, SendOutput, SharedOutput};
use crate::context::WorkerContext;
use crate::events::Event;
use crate::report::ErrorClass;
use crate::settings::{Backoff, BackoffLimits, sleep_until_some};
use crate::stop::StopMode;

/// The buffer of one run: what the server keeps of a task.
const BUFFER_BYTES: usize = 256 * 1024;
/// The buffers of all slots together.
const ALL_BUFFERS_BYTES: usize = 32 * 1024 * 1024;
/// If there is no room for more, so much of the end of a run is kept.
const LATE_END_BYTES: usize = 8 * 1024;
/// The time within which what is printed is sent with one request.
const COLLECT_TIME: Duration = Duration::from_millis(100);
const BACKOFF: BackoffLimits = BackoffLimits { first: Duration::from_secs(1), longest: Duration::from_secs(5) };

struct OutputSender {
    context: Arc<WorkerContext>,
    run: RunKey,
    shared: Arc<SharedOutput>,
    text: OutputText,
    /// Closed when the run has been reported.
    reported: watch::Receiver<()>,
}

impl WorkerContext {
    /// Returns the output that a run prints to, and its end. The second is to be dropped when the run was reported.
    pub(crate) fn start_output(self: &Arc<Self>, run: &RunKey) -> (RunOutput, watch::Sender<()>) {
        let (end, reported) = watch::channel(());
        if self.settings.send_output == SendOutput::Off || self.keeps_output.get() != Some(&true) {
            return (RunOutput::off(), end);
        }
        let buffer_bytes = BUFFER_BYTES.min(ALL_BUFFERS_BYTES / self.settings.slots.len().max(1));
        let shared = SharedOutput::new(self.settings.send_output, buffer_bytes);
        let sender = OutputSender {
            context: Arc::clone(self),
            run: run.clone(),
            shared: Arc::clone(&shared),
            text: OutputText::new(self.settings.send_output, self.settings.intervals.output_rewrite),
            reported,
        };
        let mut senders = self.late_output.senders.lock();
        while senders.try_join_next().is_some() {}
        senders.spawn(sender.run());
        (RunOutput(Some(Arc::new(OutputFeed(shared)))), end)
    }

    /// Gives the senders some more time, when all runs are over.
    pub(crate) async fn finish_output(&self) {
        let intervals = &self.settings.intervals;
        let is_killed = *self.stop.borrow() == StopMode::Kill;
        let time = if is_killed { intervals.shutdown_timeout } else { intervals.output_at_exit };
        let deadline = Instant::now() + time;
        self.late_output.deadline.send_replace(Some(deadline));
        let mut senders = std::mem::take(&mut *self.late_output.senders.lock());
        // They end by themselves; the second is for a machine that is busy.
        let all = async { while senders.join_next().await.is_some() {} };
        drop(timeout_at(deadline + Duration::from_secs(1), all).await);
    }
}

impl OutputSender {
    async fn run(mut self) {
        let (context, reported) = (Arc::clone(&self.context), self.reported.clone());
        let is_wanted = {
            let mut too_late = pin!(too_late(&context, reported));
            tokio::select! {
                biased;
                is_wanted = self.send_all() => is_wanted,
                () = &mut too_late => true,
            }
        };
        let bytes = self.text.give_up(&self.shared);
        if bytes > 0 && is_wanted {
            context.events.on_event(&Event::OutputNotSent { task_id: self.run.task_id, bytes });
        }
    }

    /// Sends until the output has ended and all of it has arrived, or there is no room for the rest. Returns false if the server has no
    /// use for it.
    async fn send_all(&mut self) -> bool {
        let context = Arc::clone(&self.context);
        let (mut last_look, mut room) = (None, None);
        loop {
            self.wait_for_look(last_look).await;
            last_look = Some(Instant::now());
            let is_ended = self.shared.state.lock().is_ended;
            if is_ended && room.is_none() {
                room = room_for_rest(&context.late_output.room, &mut self.shared.state.lock().buffer);
                if room.is_none() {
                    return true;
                }
            }
            self.text.gather(&self.shared, Instant::now());
            let piece = self.text.piece();
            let is_over = piece.is_none() && (is_ended || self.text.is_limit_reached());
            if is_over {
                return true;
            }
            if let Some((offset, piece)) = piece
                && !self.send(offset, piece).await
            {
                return false;
            }
        }
    }

    /// Waits until there may be something to send and it is time to. When the output has ended, it is.
    async fn wait_for_look(&self, last_look: Option<Instant>) {
        let interval = self.context.settings.intervals.output;
        let next_look = self.text.next_look(Instant::now());
        let in_time = async {
            tokio::select! {
                () = self.shared.printed() => {}
                () = sleep_until_some(next_look) => {}
            }
            sleep(COLLECT_TIME.min(interval)).await;
            if let Some(last_look) = last_look {
                sleep_until(last_look + interval).await;
            }
        };
        tokio::select! {
            biased;
            () = self.shared.ended() => {}
            () = in_time => {}
        }
    }

    /// Sends a piece until it has arrived: always with the same offset, so that it is there once. Whether the server wants more.
    async fn send(&mut self, offset: u64, piece: Arc<str>) -> bool {
        let mut backoff = Backoff::new(BACKOFF);
        let (mut hurry, mut is_hurried) = (pin!(last_chance(&self.context, self.reported.clone())), false);
        loop {
            match self.context.client.add_output(&self.run, offset, Arc::clone(&piece)).await {
                Ok(()) => {
                    self.text.sent(piece.len());
                    return true;
                }
                // It would be refused again: the run is over and another one has begun, or the task is gone.
                Err(error) if ErrorClass::of(&error) != ErrorClass::Retryable => return false,
                // Heartbeats find out whether the server is there.
                Err(_) => tokio::select! {
                    () = sleep(backoff.next()) => {}
                    () = &mut hurry, if !is_hurried => is_hurried = true,
                },
            }
        }
    }
}

/// Room for what is left of a run that is over: for all of it, or else for its end.
fn room_for_rest<'r>(room: &'r Semaphore, buffer: &mut OutputBuffer) -> Option<SemaphorePermit<'r>> {
    let take = |bytes: usize| room.try_acquire_many(u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)).ok();
    take(buffer.len()).or_else(|| {
        buffer.shrink(LATE_END_BYTES);
        take(buffer.len())
    })
}

/// Returns when the run was reported, so the server is there again; or when the worker is about to end.
async fn last_chance(context: &WorkerContext, mut reported: watch::Receiver<()>) {
    let mut deadline = context.late_output.deadline.subscribe();
    tokio::select! {
        _ = reported.changed() => {}
        _ = deadline.wait_for(Option::is_some) => {}
    }
}

/// Returns some seconds after the run was reported, or when the worker has to end.
async fn too_late(context: &WorkerContext, mut reported: watch::Receiver<()>) {
    let mut deadline = context.late_output.deadline.subscribe();
    let exit = async {
        let at = deadline.wait_for(Option::is_some).await.ok().and_then(|at| *at);
        sleep_until(at.unwrap_or_else(Instant::now)).await;
    };
    let late = async {
        drop(reported.changed().await);
        sleep(context.settings.intervals.late_output).await;
    };
    tokio::select! {
        () = exit => {}
        () = late => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent_output::Stream;

    #[test]
    fn the_end_of_a_run_has_room_when_the_whole_of_it_has_none() {
        let room = Semaphore::new(20);
        let full = || {
            let mut buffer = OutputBuffer::new(BUFFER_BYTES, false);
            buffer.push(Stream::Stdout, &[b'x'; 10 * 1024]);
            buffer.push(Stream::Stdout, b"end");
            buffer
        };
        let mut buffers = [full(), full(), full()];
        let rooms: Vec<_> = buffers.iter_mut().map(|buffer| room_for_rest(&room, buffer)).collect();
        assert_eq!(rooms.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(buffers[0].len(), 10 * 1024 + 3);
        assert_eq!(buffers[1].len(), LATE_END_BYTES);
        assert!(buffers[1].take(usize::MAX).ends_with(b"xend"));
    }
}
