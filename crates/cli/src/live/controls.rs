//! What every view lets people set: its interval, a pause, the help. Pure; the loop is in `event_loop.rs`.

use std::time::Duration;

use super::keys::Key;

/// The intervals that keys lead to; the command line may choose any between the first and an hour.
const STEPS_MILLIS: [u64; 8] = [500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];

/// What people have set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Controls {
    /// The time from one round of requests to the next.
    pub(crate) interval: Duration,
    /// Whether nothing is asked for now.
    pub(crate) paused: bool,
    /// Whether the help is shown.
    pub(crate) help: bool,
}

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// It ends the view.
    Leave,
    /// It asks for fresh data.
    Refresh,
    /// It did what it does.
    Done,
    /// It is for the view.
    Other,
}

impl Controls {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, paused: false, help: false }
    }

    pub(super) fn press(&mut self, key: Key) -> Pressed {
        if key == Key::Interrupt {
            return Pressed::Leave;
        }
        // Whatever is pressed, the help has been read.
        if std::mem::take(&mut self.help) {
            return Pressed::Done;
        }
        match key {
            Key::Leave => return Pressed::Leave,
            Key::Refresh => return Pressed::Refresh,
            Key::Help => self.help = true,
            Key::Pause => self.paused = !self.paused,
            Key::Faster => self.interval = steps().rev().find(|step| *step < self.interval).unwrap_or(self.interval),
            Key::Slower => self.interval = steps().find(|step| *step > self.interval).unwrap_or(self.interval),
            _ => return Pressed::Other,
        }
        Pressed::Done
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
            controls.press(*key);
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
        odd.press(Key::Faster);
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
            assert_eq!(controls.press(key), Pressed::Done);
            assert_eq!(controls, Controls::new(Duration::from_secs(2)), "{key:?}");
        }
        assert_eq!(after(&[Key::Help]).press(Key::Interrupt), Pressed::Leave);
        assert_eq!(after(&[]).press(Key::Leave), Pressed::Leave);
        assert_eq!(after(&[]).press(Key::Next), Pressed::Other);
    }
}
