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
}

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
        Self { hold, longest: hold, whole_holds: 0, poll: intervals.heartbeat_poll, cut_off_after: None }
    }

    /// How long the server is to hold the next heartbeat.
    pub(super) fn next(&self) -> Option<Duration> {
        let is_worthwhile = self.cut_off_after.is_none() && self.hold >= self.poll;
        is_worthwhile.then_some(self.hold)
    }

    /// The pause after an answer, which took so long and names the wait that the server has applied.
    pub(super) fn after_answer(&mut self, applied: Option<u32>, took: Duration) -> Duration {
        let wanted = self.next();
        if let Some(lasted) = self.cut_off_after.take() {
            // The server is there, so something else cuts held heartbeats.
            self.hold = self.hold.min(lasted) / 2;
            self.whole_holds = 0;
            return if self.next().is_some() { Duration::ZERO } else { self.poll };
        }
        if !has_waited(applied, wanted, took) {
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
        let was_held = self.next().is_some();
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

    #[test]
    fn a_server_that_holds_is_asked_again_at_once() {
        let mut holding = holding();
        assert_eq!(holding.next(), Some(seconds(50)));
        assert_eq!(holding.after_answer(Some(50), seconds(50)), Duration::ZERO);
        assert_eq!(holding.next(), Some(seconds(50)));
    }

    #[test]
    fn a_server_that_does_not_hold_is_asked_every_few_seconds() {
        let mut holding = holding();
        // It does not know of it; it is stopping or full; it says so but does not.
        for (applied, took) in [(None, Duration::ZERO), (None, seconds(40)), (Some(50), Duration::ZERO)] {
            assert_eq!(holding.after_answer(applied, took), seconds(5), "{applied:?} {took:?}");
            assert_eq!(holding.next(), Some(seconds(50)), "it may be able to later");
        }
    }

    #[test]
    fn what_is_cut_off_is_held_for_less_time_and_in_the_end_not_at_all() {
        let mut holding = holding();
        let mut holds = Vec::new();
        // A proxy cuts everything that is silent for 12 seconds.
        while let Some(hold) = holding.next().filter(|hold| *hold > seconds(12)) {
            holds.push(hold);
            assert_eq!(holding.after_error(seconds(12)), AfterError::AskAtOnce);
            assert_eq!(holding.next(), None, "the next one is not held");
            assert_eq!(holding.after_answer(None, Duration::ZERO), Duration::ZERO);
        }
        assert_eq!((holds, holding.next()), (vec![seconds(50)], Some(seconds(6))));
        // Now one that cuts after 5 seconds.
        assert_eq!(holding.after_error(seconds(5)), AfterError::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO), seconds(5));
        assert_eq!(holding.next(), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO), seconds(5));
    }

    #[test]
    fn a_hold_that_was_cut_off_once_becomes_long_again() {
        let mut holding = holding();
        assert_eq!(holding.after_error(seconds(40)), AfterError::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO), Duration::ZERO);
        assert_eq!(holding.next(), Some(seconds(20)));
        let mut holds = Vec::new();
        for _ in 0..3 * GROW_AFTER {
            let hold = holding.next().unwrap();
            holds.push(hold);
            assert_eq!(holding.after_answer(Some(u32::try_from(hold.as_secs()).unwrap()), hold), Duration::ZERO);
        }
        holds.dedup();
        assert_eq!((holds, holding.next()), (vec![seconds(20), seconds(40), seconds(50)], Some(seconds(50))));
    }

    #[test]
    fn an_outage_changes_nothing_and_is_no_busy_loop() {
        let mut holding = holding();
        assert_eq!(holding.after_error(seconds(30)), AfterError::AskAtOnce);
        for took in [Duration::ZERO, seconds(30)] {
            assert_eq!(holding.after_error(took), AfterError::Pause);
            assert_eq!(holding.next(), Some(seconds(50)));
            assert_eq!(holding.after_error(Duration::ZERO), AfterError::Pause, "refused at once");
            assert_eq!(holding.after_error(seconds(30)), AfterError::AskAtOnce);
        }
    }
}
