//! Keys: what each means, and the thread that waits for them. The library reads keys by blocking, which would stop
//! everything else.

use std::io;
use std::thread;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{self, Receiver};

/// Keys that wait to be looked at; whoever types faster than a screen is drawn waits.
const TYPED_AHEAD: usize = 16;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Ctrl-C: leave at once.
    Interrupt,
    /// Leave, or close what lies above the view.
    Leave,
    Up,
    Down,
    /// The next pane.
    Next,
    /// The pane before.
    Previous,
    Pause,
    /// A shorter interval.
    Faster,
    /// A longer interval.
    Slower,
    /// Ask the server now.
    Refresh,
    Help,
    /// None of these; closes the help all the same.
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
            KeyCode::Char('q') | KeyCode::Esc => Self::Leave,
            KeyCode::Up | KeyCode::Char('k') => Self::Up,
            KeyCode::Down | KeyCode::Char('j') => Self::Down,
            KeyCode::Tab | KeyCode::Right => Self::Next,
            KeyCode::BackTab | KeyCode::Left => Self::Previous,
            KeyCode::Char(' ') => Self::Pause,
            // On many keyboards the plus needs a second key, and the equals sign is on the same one.
            KeyCode::Char('+' | '=') => Self::Faster,
            KeyCode::Char('-') => Self::Slower,
            KeyCode::Char('r') => Self::Refresh,
            KeyCode::Char('?' | 'h') => Self::Help,
            _ => Self::Other,
        })
    }
}

/// What comes from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(Key),
    /// The terminal has another size.
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

/// Waits for input in a thread of its own, which ends with the program. Nothing comes any more behind an error.
pub(super) fn listen() -> io::Result<Receiver<io::Result<Input>>> {
    let (sender, receiver) = mpsc::channel(TYPED_AHEAD);
    let read = move || {
        loop {
            let input = event::read().map(|event| Input::of(&event)).transpose();
            let is_last = matches!(input, Some(Err(_)));
            let unheard = input.is_some_and(|input| sender.blocking_send(input).is_err());
            if is_last || unheard {
                return;
            }
        }
    };
    thread::Builder::new().name("tq-keys".to_owned()).spawn(read)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_meanings_that_the_help_tells() {
        let plain = |code| Key::of(KeyEvent::new(code, KeyModifiers::NONE));
        let letter = |letter| plain(KeyCode::Char(letter));
        assert_eq!((letter('q'), plain(KeyCode::Esc)), (Some(Key::Leave), Some(Key::Leave)));
        assert_eq!((letter('j'), letter('k')), (Some(Key::Down), Some(Key::Up)));
        assert_eq!((letter('+'), letter('='), letter('-')), (Some(Key::Faster), Some(Key::Faster), Some(Key::Slower)));
        assert_eq!((letter(' '), letter('?'), letter('x')), (Some(Key::Pause), Some(Key::Help), Some(Key::Other)));
        assert_eq!((plain(KeyCode::Tab), plain(KeyCode::BackTab)), (Some(Key::Next), Some(Key::Previous)));
    }

    #[test]
    fn control_and_c_interrupts_and_c_alone_does_not() {
        let c = |modifiers| Key::of(KeyEvent::new(KeyCode::Char('c'), modifiers));
        assert_eq!((c(KeyModifiers::CONTROL), c(KeyModifiers::NONE)), (Some(Key::Interrupt), Some(Key::Other)));
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL);
        assert_eq!(Key::of(q), Some(Key::Other));
    }
}
