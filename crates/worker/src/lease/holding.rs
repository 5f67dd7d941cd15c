//! How long the server is asked to hold the next heartbeat, and the pause before it. Where the server does not hold heartbeats, they are
//! sent every few seconds. Where something between the two cuts connections that are silent for long, they are held for less time.

use std::time::Duration;

use crate::intervals::Intervals;
use crate::waits::has_waited;

/// After so many whole holds in a row a shortened one is tried longer again: what cut it off may have been a single restart.
const GROW_AFTER: u32 = 10;

#[derive(Debug)]
pub(super) struct Holding {
    /// How long the server is asked to hold.
    hold: Duration,
    longest: Duration,
    /// Since the hold was shortened, made longer or cut off.
    whole_holds: u32,
    /// Between heartbeats that are not held. Nothing is held for less time.
    poll: Duration,
    /// A held heartbeat was cut off after this time. The next one is not held, and shows whether the server is there.
    cut_off_after: Option<Duration>,
    /// How many of the next heartbeats are not to be held, because the server did not hold one.
    polls_left: u32,
    /// How long the server was asked to hold the heartbeat that is under way.
    asked: Option<Duration>,
}

/// A server that did not hold a heartbeat is asked again to hold one after so many that cost little, because they are sent with those of
/// other runs: half a minute.
const POLLS_TOGETHER: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterError {
    /// Nothing is known: send the next heartbeat at once. It will not be held.
    AskAtOnce,
    /// The server is not there.
    Pause,
}

impl Holding {
    pub(super) fn new(intervals: &Intervals) -> Self {
        let hold = intervals.heartbeat.min(intervals.wait);
        let poll = intervals.heartbeat_poll;
        Self { hold, longest: hold, whole_holds: 0, poll, cut_off_after: None, polls_left: 0, asked: None }
    }

    /// Whether the server is to hold the next heartbeat.
    pub(super) fn wants_hold(&self) -> bool {
        self.cut_off_after.is_none() && self.polls_left == 0 && self.hold >= self.poll
    }

    /// How long the server is to hold the heartbeat that is sent now. `may_hold`: this worker has not too many held ones.
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
        self.count_whole_hold();
        Duration::ZERO
    }

    fn count_whole_hold(&mut self) {
        self.whole_holds += 1;
        if self.whole_holds >= GROW_AFTER {
            self.hold = self.longest.min(self.hold * 2);
            self.whole_holds = 0;
        }
    }

    /// What to do after an error, which came after so long.
    pub(super) fn after_error(&mut self, took: Duration) -> AfterError {
        let was_held = self.asked.is_some();
        // If the next one fails too, it was an outage.
        self.cut_off_after = (was_held && took >= self.poll).then_some(took);
        if self.cut_off_after.is_some() { AfterError::AskAtOnce } else { AfterError::Pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn holding() -> Holding {
        Holding::new(&Intervals::default())
    }

    /// Sends a heartbeat that fails after so long.
    fn error_after(holding: &mut Holding, took: Duration) -> AfterError {
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
        assert_eq!(holding.after_error(seconds(30)), AfterError::Pause, "it was not held, so nothing was cut off");
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
            assert_eq!(holding.after_error(seconds(12)), AfterError::AskAtOnce);
            assert_eq!(holding.next(true), None, "the next one is not held");
            assert_eq!(holding.after_answer(None, Duration::ZERO, false), Duration::ZERO);
        }
        assert_eq!((holds, holding.next(true)), (vec![seconds(50)], Some(seconds(6))));
        // Now one that cuts after 5 seconds.
        assert_eq!(holding.after_error(seconds(5)), AfterError::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
        assert_eq!(holding.next(true), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
    }

    #[test]
    fn a_hold_that_was_cut_off_once_becomes_long_again() {
        let mut holding = holding();
        assert_eq!(error_after(&mut holding, seconds(40)), AfterError::AskAtOnce);
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
        assert_eq!(error_after(&mut holding, seconds(30)), AfterError::AskAtOnce);
        for took in [Duration::ZERO, seconds(30)] {
            assert_eq!(error_after(&mut holding, took), AfterError::Pause);
            assert_eq!(holding.next(true), Some(seconds(50)));
            assert_eq!(error_after(&mut holding, Duration::ZERO), AfterError::Pause, "refused at once");
            assert_eq!(error_after(&mut holding, seconds(30)), AfterError::AskAtOnce);
        }
    }
}
