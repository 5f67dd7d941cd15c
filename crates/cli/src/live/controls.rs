//! The keys of live views, the thread that reads them, and the settings that they change in every view: interval, pause, help.

use std::time::Duration;
use std::{io, thread};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{self, Receiver};

/// Keys that are typed while the screen is drawn.
const KEYS_BUFFERED: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Ctrl-C: leaves at once.
    Interrupt,
    /// Leaves the view, or closes the help.
    Leave,
    /// Closes what is open in the view, or else leaves it.
    Back,
    /// Chooses or opens something.
    Open,
    Up,
    Down,
    NextPane,
    PreviousPane,
    Pause,
    /// Shorter interval.
    Faster,
    /// Longer interval.
    Slower,
    Refresh,
    Help,
    /// Any other key; it closes the help.
    Other,
}

impl Key {
    fn of(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        if event.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(if event.code == KeyCode::Char('c') { Self::Interrupt } else { Self::Other });
        }
        Some(match event.code {
            KeyCode::Char('q') => Self::Leave,
            KeyCode::Esc => Self::Back,
            KeyCode::Enter | KeyCode::Char('l') => Self::Open,
            KeyCode::Up | KeyCode::Char('k') => Self::Up,
            KeyCode::Down | KeyCode::Char('j') => Self::Down,
            KeyCode::Tab | KeyCode::Right => Self::NextPane,
            KeyCode::BackTab | KeyCode::Left => Self::PreviousPane,
            KeyCode::Char(' ') => Self::Pause,
            // On many keyboards plus is shift and the equals key.
            KeyCode::Char('+' | '=') => Self::Faster,
            KeyCode::Char('-') => Self::Slower,
            KeyCode::Char('r') => Self::Refresh,
            KeyCode::Char('?' | 'h') => Self::Help,
            _ => Self::Other,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(Key),
    Resized,
}

impl Input {
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) => Key::of(*key).map(Self::Key),
            Event::Resize(..) => Some(Self::Resized),
            _ => None,
        }
    }
}

/// Reads input on a thread that ends with the program. After an error nothing more is received.
pub(super) fn read_keys() -> io::Result<Receiver<io::Result<Input>>> {
    let (sender, receiver) = mpsc::channel(KEYS_BUFFERED);
    let read = move || {
        loop {
            let input = event::read().map(|event| Input::of(&event)).transpose();
            let is_last = matches!(input, Some(Err(_)));
            let is_closed = input.is_some_and(|input| sender.blocking_send(input).is_err());
            if is_last || is_closed {
                return;
            }
        }
    };
    thread::Builder::new().name("tq-keys".to_owned()).spawn(read)?;
    Ok(receiver)
}

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

    #[test]
    fn keys_have_the_meanings_that_the_help_states() {
        let plain = |code| Key::of(KeyEvent::new(code, KeyModifiers::NONE));
        let letter = |letter| plain(KeyCode::Char(letter));
        assert_eq!((letter('q'), plain(KeyCode::Esc)), (Some(Key::Leave), Some(Key::Back)));
        assert_eq!((letter('l'), plain(KeyCode::Enter)), (Some(Key::Open), Some(Key::Open)));
        assert_eq!((letter('j'), letter('k')), (Some(Key::Down), Some(Key::Up)));
        assert_eq!((letter('+'), letter('='), letter('-')), (Some(Key::Faster), Some(Key::Faster), Some(Key::Slower)));
        assert_eq!((letter(' '), letter('?'), letter('x')), (Some(Key::Pause), Some(Key::Help), Some(Key::Other)));
        assert_eq!((plain(KeyCode::Tab), plain(KeyCode::BackTab)), (Some(Key::NextPane), Some(Key::PreviousPane)));
    }

    #[test]
    fn control_and_c_interrupts_and_c_alone_does_not() {
        let c = |modifiers| Key::of(KeyEvent::new(KeyCode::Char('c'), modifiers));
        assert_eq!((c(KeyModifiers::CONTROL), c(KeyModifiers::NONE)), (Some(Key::Interrupt), Some(Key::Other)));
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL);
        assert_eq!(Key::of(q), Some(Key::Other));
    }

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
