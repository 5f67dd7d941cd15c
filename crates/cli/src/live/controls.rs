//! The keys of live views, the thread that reads them, and the settings that they change in every view: interval, pause, help. And when the
//! next refresh starts, whether the server answers, and how old the data on the screen is. At most one refresh runs at a time, and a slow or
//! unreachable server gets fewer of them; to the schedule, time is an argument.

use std::time::{Duration, Instant};
use std::{io, thread};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use taskqueue_client::Error;
use tokio::sync::mpsc::{self, Receiver};

use crate::failure::root_cause;

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

/// Reads keys, and `None` for a new size of the screen, on a thread that ends with the program. After an error nothing more is received.
pub(super) fn read_keys() -> io::Result<Receiver<io::Result<Option<Key>>>> {
    let (sender, receiver) = mpsc::channel(KEYS_BUFFERED);
    let read = move || {
        loop {
            let input = match event::read() {
                Ok(Event::Key(key)) => Key::of(key).map(|key| Ok(Some(key))),
                Ok(Event::Resize(..)) => Some(Ok(None)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            };
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

/// An unreachable server is tried at least this often, because somebody who restarts it watches the screen.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) struct RefreshSchedule {
    began: Instant,
    /// None while a refresh is running.
    ended: Option<Instant>,
    /// Failures since the latest success.
    pub(crate) failures: u32,
    /// True if the next refresh starts without waiting for the interval.
    is_requested: bool,
}

impl RefreshSchedule {
    /// The first refresh is due now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, ended: Some(now), failures: 0, is_requested: true }
    }

    /// Returns when the next refresh starts; none while one is running or during a pause.
    pub(crate) fn due(&self, controls: &Controls) -> Option<Instant> {
        let ended = self.ended?;
        if self.is_requested {
            return Some(ended);
        }
        if controls.paused {
            return None;
        }
        let interval = controls.interval;
        if self.failures > 0 {
            return Some(ended + backoff(interval, self.failures));
        }
        // A slow server gets a pause as long as its answer took, whatever the interval is.
        let took = ended.saturating_duration_since(self.began);
        Some((self.began + interval).max(ended + took))
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self { began: now, ended: None, is_requested: false, ..*self };
    }

    pub(crate) fn end(&mut self, succeeded: bool, now: Instant) {
        self.ended = Some(now);
        self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
    }

    /// The next refresh starts at once, or right after the running one.
    pub(crate) fn request_now(&mut self) {
        self.is_requested = true;
    }
}

/// Doubles with each failure.
fn backoff(interval: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    interval.saturating_mul(1 << doublings).min(BACKOFF_MAX.max(interval))
}

/// Data is stale when two refreshes were missed and this much more time has passed for the requests.
const STALE_MARGIN: Duration = Duration::from_secs(1);

/// The reason why a refresh failed, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchError {
    pub(crate) headline: &'static str,
    pub(crate) message: String,
}

impl FetchError {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Transport { message, .. } => Self { headline: "NO ANSWER", message: root_cause(message).to_owned() },
            Error::Protocol { message, .. } if error.is_proxy_without_server() => {
                Self { headline: "NO ANSWER", message: format!("a proxy does not reach the server ({message})") }
            }
            refusal => Self { headline: "REFUSED", message: refusal.to_string() },
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionState {
    pub(crate) answered_at: Option<Instant>,
    /// The error of the latest refresh; `None` if it succeeded.
    pub(crate) error: Option<FetchError>,
    /// The start of the next refresh; `None` while one is running or the view is paused.
    pub(crate) next_at: Option<Instant>,
}

impl ConnectionState {
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.answered_at.map(|at| now.saturating_duration_since(at))
    }

    /// The age of the data, if that is too old for this interval.
    pub(crate) fn stale_age(&self, now: Instant, interval: Duration) -> Option<Duration> {
        self.age(now).filter(|age| *age > interval.saturating_mul(2).saturating_add(STALE_MARGIN))
    }
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

#[cfg(test)]
mod schedule_tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn every(count: u64) -> Controls {
        Controls::new(seconds(count))
    }

    /// A schedule with one refresh that began at `start` and took this long.
    fn after(start: Instant, took: Duration, succeeded: bool) -> RefreshSchedule {
        let mut schedule = RefreshSchedule::new(start);
        schedule.begin(start);
        schedule.end(succeeded, start + took);
        schedule
    }

    #[test]
    fn refreshes_follow_each_other_by_the_interval_and_never_overlap() {
        let start = Instant::now();
        let mut schedule = RefreshSchedule::new(start);
        assert_eq!(schedule.due(&every(2)), Some(start));
        schedule.begin(start);
        assert_eq!(schedule.due(&every(2)), None);
        schedule.end(true, start + seconds(1));
        assert_eq!(schedule.due(&every(2)), Some(start + seconds(2)));
        assert_eq!(schedule.due(&every(5)), Some(start + seconds(5)), "an interval counts as soon as it is set");
    }

    #[test]
    fn a_slow_server_gets_a_pause_as_long_as_its_answer_took() {
        let start = Instant::now();
        assert_eq!(after(start, seconds(7), true).due(&every(2)), Some(start + seconds(14)));
    }

    #[test]
    fn an_unreachable_server_is_asked_less_and_less_often_but_never_given_up() {
        let start = Instant::now();
        let mut schedule = RefreshSchedule::new(start);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            schedule.begin(start);
            schedule.end(false, start);
            pauses.push(schedule.due(&every(2)).unwrap().duration_since(start).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 10, 10]);
        schedule.begin(start);
        schedule.end(true, start);
        assert_eq!(schedule.due(&every(2)), Some(start + seconds(2)));
        assert_eq!(after(start, seconds(0), false).due(&every(60)), Some(start + seconds(60)));
    }

    #[test]
    fn a_requested_refresh_begins_at_once_or_after_the_running_one() {
        let start = Instant::now();
        let mut schedule = after(start, seconds(1), true);
        schedule.request_now();
        assert_eq!(schedule.due(&every(2)), Some(start + seconds(1)));
        schedule.begin(start + seconds(1));
        schedule.request_now();
        assert_eq!(schedule.due(&every(2)), None);
        schedule.end(true, start + seconds(4));
        assert_eq!(schedule.due(&every(2)), Some(start + seconds(4)));
    }

    #[test]
    fn a_pause_stops_the_schedule_but_not_a_requested_refresh() {
        let start = Instant::now();
        let paused = Controls { paused: true, ..every(2) };
        let mut schedule = after(start, seconds(1), true);
        assert_eq!(schedule.due(&paused), None);
        schedule.request_now();
        assert_eq!(schedule.due(&paused), Some(start + seconds(1)));
    }

    #[test]
    fn data_is_stale_when_two_refreshes_were_missed() {
        let start = Instant::now();
        let connection = ConnectionState { answered_at: Some(start), ..ConnectionState::default() };
        let late = |seconds| connection.stale_age(start + Duration::from_secs(seconds), Duration::from_secs(2));
        assert_eq!((late(5), late(6)), (None, Some(Duration::from_secs(6))));
        assert_eq!(ConnectionState::default().stale_age(start, Duration::ZERO), None);
    }

    #[test]
    fn a_fetch_error_says_whether_there_was_an_answer() {
        let lost = Error::Transport { message: "sending: connect: refused".to_owned(), may_have_arrived: false };
        assert_eq!(FetchError::of(&lost), FetchError { headline: "NO ANSWER", message: "refused".to_owned() });
        let nonsense = Error::Protocol { status: 200, message: "empty".to_owned(), from_taskqueue: true };
        assert_eq!(FetchError::of(&nonsense).headline, "REFUSED");
        let proxy = Error::Protocol { status: 502, message: "status 502".to_owned(), from_taskqueue: false };
        let message = "a proxy does not reach the server (status 502)".to_owned();
        assert_eq!(FetchError::of(&proxy), FetchError { headline: "NO ANSWER", message });
    }
}
