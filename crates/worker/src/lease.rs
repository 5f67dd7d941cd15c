//! Renews the lease of a run, and hears of its end. The server is asked to hold each heartbeat until the run is over, so that a
//! cancel arrives at once; those that it does not hold are sent with those of other runs (docs/decisions/0036). Only an answer
//! of the server about this run ends it: an unreachable, slow or broken server never does, however long that lasts.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Error, RunKey};
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::context::WorkerContext;
use crate::events::Event;
use crate::report::{ErrorClass, HEARTBEAT, RunMessage, SendResult};
use crate::settings::{Intervals, has_waited, jittered, sleep_until_some, whole_seconds};

impl WorkerContext {
    /// Sends heartbeats until the server says that the run is over, and returns that answer. `claim_sent` is the earliest moment
    /// at which the server can have started the lease.
    pub(crate) async fn renew_lease(&self, run: &RunKey, slot: usize, claim_sent: Instant) -> Error {
        let intervals = &self.settings.intervals;
        let mut holding = HeartbeatPlan::new(intervals);
        let (mut renewed, mut pause, mut is_in_doubt) = (claim_sent, intervals.first_heartbeat, false);
        let mut is_alone = false;
        loop {
            let (sent, answer) = self.send_heartbeat(run, &mut holding, jittered(pause), is_alone).await;
            is_alone = answer.is_err();
            match answer {
                Ok(applied) => {
                    self.reachability.call_succeeded(sent);
                    (renewed, is_in_doubt) = (sent, false);
                    pause = holding.after_answer(applied, sent.elapsed(), self.reports_together());
                }
                Err(error) if ErrorClass::of(&error) == ErrorClass::RunOver => return error,
                Err(error) => match holding.after_error(sent.elapsed()) {
                    NextHeartbeat::AskAtOnce => pause = Duration::ZERO,
                    NextHeartbeat::Pause => {
                        self.reachability.call_failed(&error, sent);
                        pause = intervals.heartbeat_retry;
                    }
                },
            }
            if !is_in_doubt && renewed.elapsed() > Duration::from_secs(LEASE_SECONDS.unsigned_abs()) {
                is_in_doubt = true;
                self.events.on_event(&Event::LeaseInDoubt { slot, task_id: run.task_id });
            }
        }
    }

    /// Sends a heartbeat after a pause, for the server to hold it if that is worthwhile, and otherwise with those of other runs. Returns
    /// the moment before it was sent, and how long the server says that it held it.
    async fn send_heartbeat(
        &self,
        run: &RunKey,
        holding: &mut HeartbeatPlan,
        pause: Duration,
        is_alone: bool,
    ) -> (Instant, Result<Option<u32>, Error>) {
        let is_together = self.reports_together() && !is_alone;
        if is_together && !holding.wants_hold() {
            holding.next(false);
            return self.heartbeat_with_others(run, pause).await;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let permit = self.held_heartbeats.try_acquire();
        match holding.next(permit.is_ok()) {
            // A held heartbeat renews when it arrives and is answered later, so the lease counts from when it was sent.
            Some(hold) => {
                let sent = Instant::now();
                let answer = self.client.heartbeat(run, Some(whole_seconds(hold))).await;
                (sent, answer.map(|answer| answer.wait_applied))
            }
            None if is_together => self.heartbeat_with_others(run, Duration::ZERO).await,
            None => {
                let sent = Instant::now();
                (sent, self.say(run, HEARTBEAT, true).await.map(|_| None))
            }
        }
    }

    async fn heartbeat_with_others(&self, run: &RunKey, pause: Duration) -> (Instant, Result<Option<u32>, Error>) {
        match self.heartbeat_after(run, pause).await {
            Ok(sent) => (sent, Ok(None)),
            // When it was sent does not matter.
            Err(error) => (Instant::now(), Err(error)),
        }
    }
}

/// After so many whole holds in a row a shortened one is tried longer again: what cut it off may have been a single restart.
const GROW_AFTER: u32 = 10;

#[derive(Debug)]
pub(super) struct HeartbeatPlan {
    /// The time that the server is asked to hold a heartbeat.
    hold: Duration,
    longest: Duration,
    /// Since the hold was shortened, made longer or cut off.
    whole_holds: u32,
    /// Between heartbeats that are not held. Nothing is held for less time.
    poll: Duration,
    /// A held heartbeat was cut off after this time. The next one is not held, and shows whether the server is there.
    cut_off_after: Option<Duration>,
    /// The number of the next heartbeats that are not to be held, because the server did not hold one.
    polls_left: u32,
    /// The time that the server was asked to hold the heartbeat that is under way.
    asked: Option<Duration>,
}

/// A server that did not hold a heartbeat is asked again to hold one after so many that cost little, because they are sent with those of
/// other runs: half a minute.
const POLLS_TOGETHER: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHeartbeat {
    /// The outcome is unknown: send the next heartbeat at once. It will not be held.
    AskAtOnce,
    /// The server is not there.
    Pause,
}

impl HeartbeatPlan {
    pub(super) fn new(intervals: &Intervals) -> Self {
        let hold = intervals.heartbeat.min(intervals.wait);
        let poll = intervals.heartbeat_poll;
        Self { hold, longest: hold, whole_holds: 0, poll, cut_off_after: None, polls_left: 0, asked: None }
    }

    /// Returns whether the server is to hold the next heartbeat.
    pub(super) fn wants_hold(&self) -> bool {
        self.cut_off_after.is_none() && self.polls_left == 0 && self.hold >= self.poll
    }

    /// Returns the time that the server is to hold the heartbeat that is sent now. `may_hold`: this worker has not too many held ones.
    pub(super) fn next(&mut self, may_hold: bool) -> Option<Duration> {
        self.asked = (may_hold && self.wants_hold()).then_some(self.hold);
        self.asked
    }

    /// The pause after an answer, which took so long and names the wait that the server has applied. `together`: heartbeats that are not
    /// held are sent with those of other runs.
    pub(super) fn after_answer(&mut self, applied: Option<u32>, took: Duration, together: bool) -> Duration {
        if let Some(lasted) = self.cut_off_after.take() {
            // The server is there, so something else cuts held heartbeats.
            self.hold = self.hold.min(lasted) / 2;
            self.whole_holds = 0;
            return if self.wants_hold() { Duration::ZERO } else { self.poll };
        }
        if !has_waited(applied, self.asked, took) {
            let is_new = self.polls_left == 0;
            self.polls_left = if is_new && together { POLLS_TOGETHER } else { self.polls_left.saturating_sub(1) };
            return self.poll;
        }
        self.whole_holds += 1;
        if self.whole_holds >= GROW_AFTER {
            self.hold = self.longest.min(self.hold * 2);
            self.whole_holds = 0;
        }
        Duration::ZERO
    }

    /// Returns the next step after an error, which came after so long.
    pub(super) fn after_error(&mut self, took: Duration) -> NextHeartbeat {
        let was_held = self.asked.is_some();
        // If the next one fails too, it was an outage.
        self.cut_off_after = (was_held && took >= self.poll).then_some(took);
        if self.cut_off_after.is_some() { NextHeartbeat::AskAtOnce } else { NextHeartbeat::Pause }
    }
}

impl WorkerContext {
    /// Sends a heartbeat after about this pause, with those of other runs.
    pub(crate) async fn heartbeat_after(&self, run: &RunKey, pause: Duration) -> SendResult {
        let (message, answered) = RunMessage::new(run, HEARTBEAT);
        // If nobody sends any more, that is heard below.
        drop(self.beats.send((Instant::now() + pause, message)));
        answered.await
    }

    /// Sends heartbeats when they are due, until it is dropped.
    pub(crate) async fn serve_beats(self: Arc<Self>, mut queue: mpsc::UnboundedReceiver<(Instant, RunMessage)>) {
        let soon = self.settings.intervals.heartbeat_poll / 2;
        let mut beats: Vec<(Instant, RunMessage)> = Vec::new();
        loop {
            let next = beats.iter().map(|(due, _)| *due).min();
            tokio::select! {
                biased;
                beat = queue.recv() => match beat {
                    Some(beat) => beats.push(beat),
                    None => return,
                },
                () = sleep_until_some(next) => {
                    let until = Instant::now() + soon;
                    // Runs that have ended need no heartbeat.
                    beats.retain(|(_, beat)| !beat.answer.is_closed());
                    beats.extract_if(.., |(due, _)| *due <= until).for_each(|(_, beat)| self.outgoing.push(beat));
                }
            }
            if beats.len() > self.settings.slots.len() {
                beats.retain(|(_, beat)| !beat.answer.is_closed());
            }
        }
    }
}

const TICK: Duration = Duration::from_secs(1);

/// A pause that is shorter can be a busy machine.
const SHORTEST: Duration = Duration::from_secs(2);

impl WorkerContext {
    /// Sends an event for each pause in which a heartbeat was due. Never returns.
    pub(crate) async fn watch_for_pauses(&self) {
        loop {
            let before = Instant::now();
            sleep(TICK).await;
            let pause = before.elapsed().saturating_sub(TICK);
            if pause >= self.settings.intervals.heartbeat.max(SHORTEST) {
                self.events.on_event(&Event::Paused(pause));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn holding() -> HeartbeatPlan {
        HeartbeatPlan::new(&Intervals::default())
    }

    /// Sends a heartbeat that fails after so long.
    fn error_after(holding: &mut HeartbeatPlan, took: Duration) -> NextHeartbeat {
        holding.next(true);
        holding.after_error(took)
    }

    #[test]
    fn a_server_that_holds_is_asked_again_at_once() {
        let mut holding = holding();
        assert_eq!(holding.next(true), Some(seconds(50)));
        assert_eq!(holding.after_answer(Some(50), seconds(50), false), Duration::ZERO);
        assert_eq!(holding.next(true), Some(seconds(50)));
    }

    #[test]
    fn a_server_that_does_not_hold_is_asked_every_few_seconds() {
        let mut holding = holding();
        // It does not know of it; it is stopping or full; it says so but does not.
        for (applied, took) in [(None, Duration::ZERO), (None, seconds(40)), (Some(50), Duration::ZERO)] {
            assert_eq!(holding.after_answer(applied, took, false), seconds(5), "{applied:?} {took:?}");
            assert_eq!(holding.next(true), Some(seconds(50)), "it may be able to later");
        }
    }

    #[test]
    fn what_is_sent_with_others_is_held_again_after_half_a_minute() {
        let mut holding = holding();
        for _ in 0..3 {
            assert_eq!(holding.next(true), Some(seconds(50)));
            assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
            for _ in 0..POLLS_TOGETHER {
                assert_eq!(holding.next(true), None);
                assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
            }
        }
    }

    #[test]
    fn without_a_place_among_the_held_ones_it_is_sent_with_others_and_asks_again() {
        let mut holding = holding();
        assert!(holding.wants_hold());
        assert_eq!(holding.next(false), None);
        assert_eq!(holding.after_error(seconds(30)), NextHeartbeat::Pause, "it was not held, so nothing was cut off");
        assert_eq!(holding.next(false), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
        assert!(!holding.wants_hold());
    }

    #[test]
    fn what_is_cut_off_is_held_for_less_time_and_in_the_end_not_at_all() {
        let mut holding = holding();
        let mut holds = Vec::new();
        // A proxy cuts everything that is silent for 12 seconds.
        while let Some(hold) = holding.next(true).filter(|hold| *hold > seconds(12)) {
            holds.push(hold);
            assert_eq!(holding.after_error(seconds(12)), NextHeartbeat::AskAtOnce);
            assert_eq!(holding.next(true), None, "the next one is not held");
            assert_eq!(holding.after_answer(None, Duration::ZERO, false), Duration::ZERO);
        }
        assert_eq!((holds, holding.next(true)), (vec![seconds(50)], Some(seconds(6))));
        // Now one that cuts after 5 seconds.
        assert_eq!(holding.after_error(seconds(5)), NextHeartbeat::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
        assert_eq!(holding.next(true), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
    }

    #[test]
    fn a_hold_that_was_cut_off_once_becomes_long_again() {
        let mut holding = holding();
        assert_eq!(error_after(&mut holding, seconds(40)), NextHeartbeat::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), Duration::ZERO);
        assert_eq!(holding.next(true), Some(seconds(20)));
        let mut holds = Vec::new();
        for _ in 0..3 * GROW_AFTER {
            let hold = holding.next(true).unwrap();
            holds.push(hold);
            assert_eq!(holding.after_answer(Some(u32::try_from(hold.as_secs()).unwrap()), hold, false), Duration::ZERO);
        }
        holds.dedup();
        assert_eq!((holds, holding.next(true)), (vec![seconds(20), seconds(40), seconds(50)], Some(seconds(50))));
    }

    #[test]
    fn an_outage_changes_nothing_and_is_no_busy_loop() {
        let mut holding = holding();
        assert_eq!(error_after(&mut holding, seconds(30)), NextHeartbeat::AskAtOnce);
        for took in [Duration::ZERO, seconds(30)] {
            assert_eq!(error_after(&mut holding, took), NextHeartbeat::Pause);
            assert_eq!(holding.next(true), Some(seconds(50)));
            assert_eq!(error_after(&mut holding, Duration::ZERO), NextHeartbeat::Pause, "refused at once");
            assert_eq!(error_after(&mut holding, seconds(30)), NextHeartbeat::AskAtOnce);
        }
    }
}
