//! The meaning of keys, and the thread that reads them. The library's read blocks, so it needs a thread of its own.

use std::io;
use std::thread;

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
pub(super) fn listen() -> io::Result<Receiver<io::Result<Input>>> {
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
}
