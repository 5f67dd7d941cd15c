//! Calls that the server holds until something happens: how long it is asked to, and whether it did.

use std::time::Duration;

/// Rounded up, so that the last wait ends no earlier than the idle timeout.
pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Whether the server has waited as its answer says. A server that is shutting down answers at once; calling again at once
/// would be a busy loop.
pub(crate) fn has_waited(applied: Option<u32>, wanted: Option<Duration>, took: Duration) -> bool {
    let applied = applied.map(|seconds| Duration::from_secs(seconds.into()));
    applied.zip(wanted).is_some_and(|(applied, wanted)| took >= applied.min(wanted) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_only_if_it_took_its_time() {
        let seconds = Duration::from_secs;
        for (applied, wanted, took, expected) in [
            (Some(50), Some(seconds(50)), seconds(50), true),
            (Some(10), Some(seconds(50)), seconds(10), true),
            (Some(50), Some(seconds(50)), seconds(1), false),
            (None, Some(seconds(50)), seconds(50), false),
            (Some(50), None, seconds(50), false),
        ] {
            assert_eq!(has_waited(applied, wanted, took), expected, "{applied:?} {wanted:?} {took:?}");
        }
    }

    #[test]
    fn waits_are_rounded_up() {
        let asked = [0, 1, 999, 1000, 1001].map(|millis| whole_seconds(Duration::from_millis(millis)));
        assert_eq!(asked, [0, 1, 1, 1, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }
}
