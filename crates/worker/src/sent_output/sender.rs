//! The task that sends the output of one run: at most once a second while the run goes on, and what is left when it is over. It outlives
//! its run for some seconds and keeps nobody waiting. Here is also the text that is sent, and the offset of each piece in it: given the time,
//! [`OutputText`] says what to send next.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::RunKey;
use taskqueue_core::limits::OUTPUT_TEXT_BYTES;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::line_state::LineState;
use super::{OutputBuffer, OutputFeed, RunOutput, SendOutput, SharedOutput};
use crate::handler::{Event, StopMode};
use crate::report::ErrorClass;
use crate::settings::{Backoff, BackoffLimits, sleep_until_some};
use crate::worker::WorkerContext;

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
        let is_wanted = tokio::select! {
            biased;
            is_wanted = self.send_all() => is_wanted,
            () = too_late(&context, reported) => true,
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
    take(buffer.bytes.len()).or_else(|| {
        buffer.shrink(LATE_END_BYTES);
        take(buffer.bytes.len())
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

/// So much of the buffer becomes text at a time.
const STEP_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct OutputText {
    lines: LineState,
    /// The text that is to be sent next, and the number of bytes before it.
    text: String,
    offset: u64,
    /// The number of bytes that are missing because they were printed too fast.
    unsent: u64,
    /// The time at which a line that has not ended was given away last.
    shown_at: Option<Instant>,
    /// A line that changes again and again is sent so seldom.
    rewrite_interval: Duration,
    limit: SizeLimit,
}

/// The limit of what is sent of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SizeLimit {
    #[default]
    None,
    /// The number of bytes that are allowed, and of those that are left.
    Left(u64, u64),
    Reached,
}

impl OutputText {
    pub(super) fn new(send: SendOutput, rewrite_interval: Duration) -> Self {
        let limit = match send {
            SendOutput::First(bytes) => SizeLimit::Left(bytes, bytes),
            SendOutput::On | SendOutput::Off => SizeLimit::None,
        };
        Self { rewrite_interval, limit, ..Self::default() }
    }

    /// Takes from the buffer what is to be sent next, about as much as a request may have.
    pub(super) fn gather(&mut self, shared: &SharedOutput, now: Instant) {
        self.lines.settle();
        while self.text.len() < OUTPUT_TEXT_BYTES && self.limit != SizeLimit::Reached {
            let taken = {
                let mut state = shared.state.lock();
                // What comes behind a gap is another piece.
                let is_before_gap = state.buffer.dropped > 0 && !(self.text.is_empty() && self.lines.is_shown());
                (!is_before_gap).then(|| (state.buffer.take_dropped(), state.buffer.take(STEP_BYTES), state.is_ended))
            };
            let Some((gap, bytes, is_end)) = taken else {
                let unfinished = self.lines.take_all();
                return self.add(&unfinished);
            };
            if gap > 0 {
                self.skip(gap);
            }
            self.lines.push(&bytes);
            let finished = self.lines.take_finished();
            self.add(&finished);
            if bytes.is_empty() {
                return self.add_unfinished(now, is_end);
            }
        }
    }

    /// The bytes are gone, and everything before them is sent.
    fn skip(&mut self, gap: u64) {
        self.lines = LineState::default();
        self.offset += gap;
        self.unsent += gap;
    }

    /// A line that has not ended is sent as far as it goes. One that changes again and again is sent when it was not for a while.
    fn add_unfinished(&mut self, now: Instant, is_end: bool) {
        if is_end {
            self.lines.end();
        }
        let is_due = is_end || !self.lines.is_rewritten() || self.rewrite_due().is_none_or(|time| now >= time);
        if is_due && !self.lines.is_shown() {
            self.shown_at = Some(now);
            let unfinished = self.lines.take_all();
            self.add(&unfinished);
        }
    }

    fn rewrite_due(&self) -> Option<Instant> {
        self.shown_at.map(|shown_at| shown_at + self.rewrite_interval)
    }

    /// Returns the time at which there is something to send although nothing more is printed.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        if !self.text.is_empty() {
            return Some(now);
        }
        if self.lines.is_shown() { None } else { Some(self.rewrite_due().unwrap_or(now)) }
    }

    fn add(&mut self, text: &str) {
        match &mut self.limit {
            SizeLimit::None => self.text.push_str(text),
            SizeLimit::Reached => {}
            SizeLimit::Left(limit, left) => {
                let room = usize::try_from(*left).unwrap_or(usize::MAX);
                let fitting = &text[..text.floor_char_boundary(room)];
                self.text.push_str(fitting);
                *left -= fitting.len() as u64;
                if fitting.len() < text.len() {
                    let line = format!(
                        "\n[taskqueue: the worker sends {limit} bytes of a run (--send-output); the rest is in its log]\n"
                    );
                    self.text.push_str(&line);
                    self.limit = SizeLimit::Reached;
                }
            }
        }
    }

    /// Returns whether no more may be sent than there is.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.limit == SizeLimit::Reached
    }

    /// Returns the next piece and its offset: at most as much as a request may have.
    pub(super) fn piece(&self) -> Option<(u64, Arc<str>)> {
        let piece = &self.text[..self.text.floor_char_boundary(OUTPUT_TEXT_BYTES)];
        (!piece.is_empty()).then(|| (self.offset, piece.into()))
    }

    /// So many bytes of it have arrived.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if bytes == self.text.len() {
            self.text = String::new();
        } else {
            self.text.drain(..bytes);
        }
    }

    /// Gives up. Returns how many bytes are missing.
    pub(super) fn give_up(&mut self, shared: &SharedOutput) -> u64 {
        let mut state = shared.state.lock();
        state.is_ignored = true;
        let waiting = state.buffer.take(usize::MAX).len() as u64 + state.buffer.take_dropped();
        drop(state);
        let is_limited = self.is_limit_reached();
        if is_limited { 0 } else { self.unsent + waiting + (self.text.len() + self.lines.take_all().len()) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OutputFeed, RunOutput};
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
        assert_eq!(buffers[0].bytes.len(), 10 * 1024 + 3);
        assert_eq!(buffers[1].bytes.len(), LATE_END_BYTES);
        assert!(buffers[1].take(usize::MAX).ends_with(b"xend"));
    }

    const REWRITE: Duration = Duration::from_secs(5);

    /// An output of which the sent pieces are recorded.
    struct Trial {
        output: Option<RunOutput>,
        shared: Arc<SharedOutput>,
        text: OutputText,
        now: Instant,
    }

    impl Trial {
        fn new(send: SendOutput, buffer_bytes: usize) -> Self {
            let shared = SharedOutput::new(send, buffer_bytes);
            let output = Some(RunOutput(Some(Arc::new(OutputFeed(Arc::clone(&shared))))));
            Self { output, shared, text: OutputText::new(send, REWRITE), now: Instant::now() }
        }

        fn print(&self, bytes: impl AsRef<[u8]>) {
            self.output.as_ref().unwrap().print(Stream::Stdout, bytes.as_ref());
        }

        /// Returns what is sent now, a second later.
        fn next(&mut self) -> Option<(u64, String)> {
            self.now += Duration::from_secs(1);
            self.text.gather(&self.shared, self.now);
            let (offset, text) = self.text.piece()?;
            self.text.sent(text.len());
            Some((offset, text.to_string()))
        }

        fn end(&mut self) {
            self.output = None;
        }
    }

    fn piece(offset: u64, text: &str) -> Option<(u64, String)> {
        Some((offset, text.to_owned()))
    }

    #[test]
    fn lines_are_sent_with_the_bytes_before_them() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        assert_eq!(trial.next(), None);
        trial.print("one\ntwo\n");
        assert_eq!(trial.next(), piece(0, "one\ntwo\n"));
        trial.print("grüße\nname: ");
        assert_eq!(trial.next(), piece(8, "grüße\nname: "));
        assert_eq!(trial.next(), None);
        trial.print("x");
        trial.end();
        assert_eq!(trial.next(), piece(22, "x"));
        assert_eq!(trial.text.next_look(trial.now), None);
        assert_eq!(trial.text.give_up(&trial.shared), 0);
    }

    #[test]
    fn bytes_that_are_no_text_count_as_what_is_sent_for_them() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        trial.print(b"a\xff\n");
        assert_eq!(trial.next(), piece(0, "a\u{fffd}\n"));
        trial.print(b"b\xe2\x82");
        assert_eq!(trial.next(), piece(5, "b"));
        trial.end();
        assert_eq!(trial.next(), piece(6, "\u{fffd}"));
    }

    #[test]
    fn a_bar_is_sent_every_five_seconds_and_at_its_end() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        let mut sent = Vec::new();
        for second in 0..12 {
            (0..10).for_each(|tenth| trial.print(format!("\r{second}.{tenth}")));
            sent.extend(trial.next().map(|(_, text)| (second, text)));
        }
        trial.print("\rdone\nnext\n");
        sent.extend(trial.next().map(|(_, text)| (12, text)));
        let expected = [(0, "0.9"), (5, "\r5.9"), (10, "\r10.9"), (12, "\rdone\nnext\n")];
        assert_eq!(sent, expected.map(|(second, text)| (second, text.to_owned())));
    }

    #[test]
    fn a_bar_that_stands_still_is_looked_at_again() {
        let mut trial = Trial::new(SendOutput::On, 1000);
        trial.print("10%");
        assert_eq!(trial.next(), piece(0, "10%"));
        trial.print("\r20%");
        assert_eq!(trial.next(), None);
        let look = trial.text.next_look(trial.now).unwrap();
        assert_eq!(look, trial.now + Duration::from_secs(4));
        trial.now = look - Duration::from_secs(1);
        assert_eq!(trial.next(), piece(3, "\r20%"));
        assert_eq!(trial.text.next_look(trial.now), None);
    }

    #[test]
    fn what_is_printed_too_fast_is_a_gap_and_its_end_is_sent() {
        let mut trial = Trial::new(SendOutput::On, 100_000);
        trial.print("begin\nhalf");
        assert_eq!(trial.next(), piece(0, "begin\nhalf"));
        trial.print(vec![b'x'; 1_000_000]);
        trial.print("\nend\n");
        trial.end();
        let (offset, first) = trial.next().unwrap();
        let gap = 1_000_000 + 5 - 100_000;
        assert_eq!((offset, first.len()), (10 + gap, OUTPUT_TEXT_BYTES));
        let (offset, rest) = trial.next().unwrap();
        assert_eq!(offset, 10 + gap + OUTPUT_TEXT_BYTES as u64);
        assert!(rest.ends_with("xxx\nend\n") && first.len() + rest.len() == 100_000, "{}", rest.len());
        assert_eq!((trial.next(), trial.text.give_up(&trial.shared)), (None, gap));
    }

    #[test]
    fn a_gap_behind_something_that_is_not_sent_yet_is_another_piece() {
        let mut trial = Trial::new(SendOutput::On, 10);
        trial.print("one\n");
        trial.text.gather(&trial.shared, trial.now);
        trial.print("0123456789abcde\n");
        assert_eq!(trial.next(), piece(0, "one\n"));
        assert_eq!(trial.next(), piece(10, "6789abcde\n"));
    }

    #[test]
    fn at_the_limit_a_line_says_so_and_nothing_more_is_sent() {
        let mut trial = Trial::new(SendOutput::First(7), 1000);
        trial.print("one\n");
        assert_eq!(trial.next(), piece(0, "one\n"));
        trial.print("zwöo\nthree\n");
        let (offset, text) = trial.next().unwrap();
        assert!(offset == 4 && text.starts_with("zw\n[taskqueue: the worker sends 7 bytes"), "{text}");
        trial.print("four\n");
        assert_eq!((trial.next(), trial.text.is_limit_reached()), (None, true));
        assert_eq!(trial.text.give_up(&trial.shared), 0, "that is what was wanted");
        let mut exact = Trial::new(SendOutput::First(4), 1000);
        exact.print("one\n");
        assert_eq!((exact.next(), exact.next()), (piece(0, "one\n"), None));
    }

    #[test]
    fn the_first_bytes_are_sent_however_fast_more_is_printed() {
        let mut trial = Trial::new(SendOutput::First(7), 10);
        trial.print("one\ntwo\n");
        trial.print("x".repeat(1000));
        let (offset, text) = trial.next().unwrap();
        assert!(offset == 0 && text.starts_with("one\ntwo\n[taskqueue: "), "{text}");
        let mut more = Trial::new(SendOutput::First(12), 10);
        more.print("0123456789abc\n");
        assert_eq!(more.next(), piece(0, "0123456789"));
        more.print("d\n");
        more.end();
        let (offset, text) = more.next().unwrap();
        assert!(offset == 14 && text == "d\n", "{text}");
    }

    #[test]
    fn what_could_not_be_sent_is_counted() {
        let mut trial = Trial::new(SendOutput::On, 10);
        trial.print("0123456789abcdef");
        trial.text.gather(&trial.shared, trial.now);
        trial.print("more");
        assert_eq!(trial.text.give_up(&trial.shared), 20);
        trial.print("ignored");
        assert_eq!(trial.text.give_up(&trial.shared), 6 + 10);
    }
}
