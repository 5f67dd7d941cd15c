//! The settings that keys change in every view: interval, pause, help. Pure; the loop is in `event_loop.rs`.

use std::time::Duration;

use super::keys::Key;

/// The intervals that keys select. The command line allows others, too.
const STEPS_MILLIS: [u64; 8] = [500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Controls {
    /// From one refresh to the next.
    pub(crate) interval: Duration,
    pub(crate) paused: bool,
    pub(crate) shows_help: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    Leave,
    Refresh,
    Handled,
    /// The key is for the view.
    Unhandled,
}

impl Controls {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, paused: false, shows_help: false }
    }

    pub(super) fn handle_key(&mut self, key: Key) -> KeyResult {
        if key == Key::Interrupt {
            return KeyResult::Leave;
        }
        // Any key closes the help.
        if std::mem::take(&mut self.shows_help) {
            return KeyResult::Handled;
        }
        match key {
            Key::Leave | Key::Back => return KeyResult::Leave,
            Key::Refresh => return KeyResult::Refresh,
            Key::Help => self.shows_help = true,
            Key::Pause => self.paused = !self.paused,
            Key::Faster => self.interval = steps().rev().find(|step| *step < self.interval).unwrap_or(self.interval),
            Key::Slower => self.interval = steps().find(|step| *step > self.interval).unwrap_or(self.interval),
            _ => return KeyResult::Unhandled,
        }
        KeyResult::Handled
    }
}

fn steps() -> impl DoubleEndedIterator<Item = Duration> {
    STEPS_MILLIS.into_iter().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &[Key]) -> Controls {
        let mut controls = Controls::new(Duration::from_secs(2));
        for key in keys {
            controls.handle_key(*key);
        }
        controls
    }

    #[test]
    fn the_interval_goes_in_steps_and_stays_within_them() {
        let millis = |keys: &[Key]| after(keys).interval.as_millis();
        assert_eq!(millis(&[Key::Faster]), 1000);
        assert_eq!(millis(&[Key::Faster; 9]), 500);
        assert_eq!(millis(&[Key::Slower]), 5000);
        assert_eq!(millis(&[Key::Slower; 99]), 300_000);
        let mut odd = Controls::new(Duration::from_secs(3));
        odd.handle_key(Key::Faster);
        assert_eq!(odd.interval.as_secs(), 2);
    }

    #[test]
    fn space_pauses_and_goes_on() {
        assert!(after(&[Key::Pause]).paused);
        assert!(!after(&[Key::Pause, Key::Pause]).paused);
    }

    #[test]
    fn the_help_is_closed_by_any_key_and_only_an_interrupt_leaves_from_it() {
        for key in [Key::Leave, Key::Help, Key::Up, Key::Pause] {
            let mut controls = after(&[Key::Help]);
            assert_eq!(controls.handle_key(key), KeyResult::Handled);
            assert_eq!(controls, Controls::new(Duration::from_secs(2)), "{key:?}");
        }
        assert_eq!(after(&[Key::Help]).handle_key(Key::Interrupt), KeyResult::Leave);
        assert_eq!(after(&[]).handle_key(Key::Leave), KeyResult::Leave);
        assert_eq!(after(&[]).handle_key(Key::Back), KeyResult::Leave);
        assert_eq!(after(&[]).handle_key(Key::NextPane), KeyResult::Unhandled);
    }
}
