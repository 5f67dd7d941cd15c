//! How often and when a repeatable call is sent again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How often calls are repeated. Pauses double from one try to the next; each is random within the upper half of its range,
/// so that many clients that failed together do not return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often a call is sent at most, the first time included.
    pub tries: u32,
    /// The pause after the first failure.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for a longer one (`Retry-After`) is not asked again: the call ends with its
    /// error.
    pub longest_pause: Duration,
}

impl Retries {
    /// Every call is sent once.
    pub const NONE: Self = Self { tries: 1, first_pause: Duration::ZERO, longest_pause: Duration::ZERO };

    /// The pause before the next try after `failed` failures; nothing if there is no next try. `asked` is the pause that the
    /// server asked for.
    pub(crate) fn pause(&self, failed: u32, asked: Option<Duration>, random: u16) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        if failed >= self.tries || asked > self.longest_pause {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(16);
        let upper = self.first_pause.saturating_mul(1 << doublings).min(self.longest_pause);
        let half = upper / 2;
        let drawn = half + half.saturating_mul(random.into()) / u16::MAX.into();
        // What the server asked for is a lower bound.
        Some(asked.max(drawn))
    }
}

impl Default for Retries {
    /// Up to 4 tries within about a second and a half of pauses, or up to half a minute if the server asks for that.
    fn default() -> Self {
        Self { tries: 4, first_pause: Duration::from_millis(200), longest_pause: Duration::from_secs(10) }
    }
}

/// A random number; not good enough for secrets.
pub(crate) fn random_u16() -> u16 {
    RandomState::new().hash_one(()) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    const RETRIES: Retries = Retries { tries: 5, first_pause: millis(100), longest_pause: millis(1000) };

    #[test]
    fn pauses_double_within_their_bounds_and_end_with_the_last_try() {
        let bounds = |failed| (RETRIES.pause(failed, None, 0), RETRIES.pause(failed, None, u16::MAX));
        assert_eq!(bounds(1), (Some(millis(50)), Some(millis(100))));
        assert_eq!(bounds(2), (Some(millis(100)), Some(millis(200))));
        assert_eq!(bounds(4), (Some(millis(400)), Some(millis(800))));
        assert_eq!(bounds(5), (None, None));
        let many = Retries { tries: u32::MAX, ..RETRIES };
        assert_eq!(many.pause(u32::MAX - 1, None, u16::MAX), Some(millis(1000)));
        assert_eq!(Retries::NONE.pause(1, None, 0), None);
    }

    #[test]
    fn what_the_server_asks_for_is_honoured_or_not_waited_for_at_all() {
        assert_eq!(RETRIES.pause(1, Some(millis(700)), 0), Some(millis(700)));
        assert_eq!(RETRIES.pause(1, Some(millis(10)), 0), Some(millis(50)));
        assert_eq!(RETRIES.pause(1, Some(millis(1000)), 0), Some(millis(1000)));
        assert_eq!(RETRIES.pause(1, Some(millis(1001)), 0), None);
    }
}
