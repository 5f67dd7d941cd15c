//! When the next round of requests begins. There is never more than one under way, and a slow or absent server is asked
//! less often. Pure: time is an argument.

use std::time::{Duration, Instant};

use super::controls::Controls;

/// A server that is away is asked at least so often: people who started it again look at the screen.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The rounds of one view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// When the latest round began.
    began: Instant,
    /// When it ended; nothing while it is under way.
    ended: Option<Instant>,
    /// Rounds that failed since the latest success.
    failures: u32,
    /// Whether the next round shall begin as soon as it can.
    hurried: bool,
}

impl Rounds {
    /// The first round is due now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, ended: Some(now), failures: 0, hurried: true }
    }

    /// When the next round shall begin; nothing while one is under way or during a pause.
    pub(crate) fn due(&self, controls: &Controls) -> Option<Instant> {
        let ended = self.ended?;
        if self.hurried {
            return Some(ended);
        }
        if controls.paused {
            return None;
        }
        let interval = controls.interval;
        if self.failures > 0 {
            return Some(ended + rest(interval, self.failures));
        }
        // Whoever needs long to answer gets as long a rest, whatever the interval says.
        let took = ended.saturating_duration_since(self.began);
        Some((self.began + interval).max(ended + took))
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self { began: now, ended: None, hurried: false, ..*self };
    }

    pub(crate) fn end(&mut self, succeeded: bool, now: Instant) {
        self.ended = Some(now);
        self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
    }

    /// Whether the latest round failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Something else is wanted now: the next round begins at once, or right behind the one under way.
    pub(crate) fn hurry(&mut self) {
        self.hurried = true;
    }
}

/// The rest after so many failures: doubled with each of them.
fn rest(interval: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    interval.saturating_mul(1 << doublings).min(LONGEST_REST.max(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn every(count: u64) -> Controls {
        Controls::new(seconds(count))
    }

    /// Rounds that began at `start`, took so long and ended so.
    fn after(start: Instant, took: Duration, succeeded: bool) -> Rounds {
        let mut rounds = Rounds::new(start);
        rounds.begin(start);
        rounds.end(succeeded, start + took);
        rounds
    }

    #[test]
    fn rounds_follow_each_other_by_the_interval_and_never_overlap() {
        let start = Instant::now();
        let mut rounds = Rounds::new(start);
        assert_eq!(rounds.due(&every(2)), Some(start));
        rounds.begin(start);
        assert_eq!(rounds.due(&every(2)), None);
        rounds.end(true, start + seconds(1));
        assert_eq!(rounds.due(&every(2)), Some(start + seconds(2)));
        assert_eq!(rounds.due(&every(5)), Some(start + seconds(5)), "an interval counts as soon as it is set");
    }

    #[test]
    fn a_slow_server_rests_as_long_as_it_worked() {
        let start = Instant::now();
        assert_eq!(after(start, seconds(7), true).due(&every(2)), Some(start + seconds(14)));
    }

    #[test]
    fn a_server_that_is_away_is_asked_less_and_less_often_but_never_given_up() {
        let start = Instant::now();
        let mut rounds = Rounds::new(start);
        let mut rests = Vec::new();
        for _ in 0..5 {
            rounds.begin(start);
            rounds.end(false, start);
            rests.push(rounds.due(&every(2)).unwrap().duration_since(start).as_secs());
        }
        assert_eq!(rests, [2, 4, 8, 10, 10]);
        rounds.begin(start);
        rounds.end(true, start);
        assert_eq!(rounds.due(&every(2)), Some(start + seconds(2)));
        assert_eq!(after(start, seconds(0), false).due(&every(60)), Some(start + seconds(60)));
    }

    #[test]
    fn a_hurried_round_begins_at_once_or_behind_the_one_under_way() {
        let start = Instant::now();
        let mut rounds = after(start, seconds(1), true);
        rounds.hurry();
        assert_eq!(rounds.due(&every(2)), Some(start + seconds(1)));
        rounds.begin(start + seconds(1));
        rounds.hurry();
        assert_eq!(rounds.due(&every(2)), None);
        rounds.end(true, start + seconds(4));
        assert_eq!(rounds.due(&every(2)), Some(start + seconds(4)));
    }

    #[test]
    fn a_pause_stops_the_rounds_but_not_what_is_asked_for_meanwhile() {
        let start = Instant::now();
        let paused = Controls { paused: true, ..every(2) };
        let mut rounds = after(start, seconds(1), true);
        assert_eq!(rounds.due(&paused), None);
        rounds.hurry();
        assert_eq!(rounds.due(&paused), Some(start + seconds(1)));
    }
}
