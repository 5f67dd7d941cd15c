//! The event loop of a live view in full-screen mode: handles keys, answers and timers, and draws. Requests run in a separate async task
//! and the screen shows the latest data, so that a slow server does not slow down the keys.

use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::{DefaultTerminal, Frame};
use taskqueue_client::Error;
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{interval, sleep_until};

use super::controls::{Controls, Input, Key, KeyResult, read_keys};
use super::schedule::{ConnectionState, FetchError, RefreshSchedule};
use super::widgets::{DrawContext, Theme, help};
use crate::failure::{CommandError, Failure};
use crate::output;

/// The time between drawings without an event: it shows ages in seconds.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

pub(crate) trait View {
    /// The request of a refresh. When it changes, a refresh starts at once.
    type Query: Clone + PartialEq;
    /// The result of a refresh.
    type Snapshot: Send + 'static;

    /// The keys that only this view has, and their meanings.
    const KEYS: &[(&str, &str)];

    fn query(&self) -> Self::Query;

    fn update(&mut self, snapshot: Self::Snapshot, at: Instant);

    /// Handles a key that `Controls` does not handle.
    fn handle_key(&mut self, key: Key);

    /// Closes what is open in the view. Without that the key leaves the view.
    fn go_back(&mut self) -> bool {
        false
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &DrawContext<'_>);
}

/// Draws the view, or the help instead.
pub(crate) fn draw<V: View>(view: &V, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    if context.controls.shows_help { help(frame, V::KEYS, context.theme) } else { view.draw(frame, context) }
}

/// Shows the view until the user leaves it or a signal stops the process. If the server refuses the first refresh, the
/// command line is wrong and the view ends with that error. Later errors are shown and retried.
pub(crate) async fn run<V, F>(view: V, every: Duration, fetch: impl Fn(V::Query) -> F) -> Result<(), CommandError>
where
    V: View,
    F: Future<Output = Result<V::Snapshot, Error>> + Send + 'static,
{
    let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
    let mut screen = Screen::open()?;
    let mut inputs = read_keys().map_err(unusable)?;
    let mut redraw = interval(REDRAW_EVERY);
    let mut refreshes = JoinSet::new();
    let mut live = LiveView::new(view, every);
    loop {
        screen.draw(|frame| live.draw(frame))?;
        let next = live.connection.next_at;
        select! {
            input = inputs.recv() => match input {
                Some(Ok(Input::Key(key))) if live.handle_key(key) == KeyResult::Leave => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(unusable(error).into()),
                None => return Ok(()),
            },
            Some(joined) = refreshes.join_next() => live.finish_refresh(joined)?,
            () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => drop(refreshes.spawn(fetch(live.start_refresh()))),
            _ = redraw.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// A view with its controls, schedule and connection state.
struct LiveView<V: View> {
    view: V,
    controls: Controls,
    schedule: RefreshSchedule,
    connection: ConnectionState,
    last_query: Option<V::Query>,
    theme: Theme,
}

impl<V: View> LiveView<V> {
    fn new(view: V, interval: Duration) -> Self {
        let (controls, schedule) = (Controls::new(interval), RefreshSchedule::new(Instant::now()));
        let theme = Theme::of_stdout();
        let mut live =
            Self { view, controls, schedule, connection: ConnectionState::default(), last_query: None, theme };
        live.reschedule();
        live
    }

    /// Called after every event.
    fn reschedule(&mut self) {
        if self.last_query.as_ref().is_some_and(|last| *last != self.view.query()) {
            self.schedule.request_now();
        }
        self.connection.next_at = self.schedule.due(&self.controls);
    }

    fn handle_key(&mut self, key: Key) -> KeyResult {
        let pressed = match key {
            Key::Back if !self.controls.shows_help && self.view.go_back() => KeyResult::Handled,
            key => self.controls.handle_key(key),
        };
        match pressed {
            KeyResult::Refresh => self.schedule.request_now(),
            KeyResult::Unhandled => self.view.handle_key(key),
            KeyResult::Leave | KeyResult::Handled => {}
        }
        self.reschedule();
        pressed
    }

    fn start_refresh(&mut self) -> V::Query {
        let query = self.view.query();
        self.last_query = Some(query.clone());
        self.schedule.begin(Instant::now());
        self.reschedule();
        query
    }

    fn finish_refresh(&mut self, joined: Result<Result<V::Snapshot, Error>, JoinError>) -> Result<(), CommandError> {
        let outcome =
            joined.map_err(|error| Failure::Refused(format!("a refresh was aborted: {error}; this is a bug")))?;
        let now = Instant::now();
        self.schedule.end(outcome.is_ok(), now);
        match outcome {
            Ok(snapshot) => {
                self.view.update(snapshot, now);
                self.connection.answered_at = Some(now);
                self.connection.error = None;
            }
            Err(error) if self.connection.answered_at.is_none() && is_refusal(&error) => return Err(error.into()),
            Err(error) => self.connection.error = Some(FetchError::of(&error)),
        }
        self.reschedule();
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let Self { controls, connection, theme, .. } = self;
        let context = DrawContext { now: Instant::now(), clock: output::now(), connection, controls, theme: *theme };
        draw(&self.view, frame, &context);
    }
}

/// Returns whether a retry cannot help: it is not a taskqueue server, or the request is wrong.
pub(crate) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Api { status, .. } | Error::Protocol { status, .. } => *status < 500,
        _ => false,
    }
}

/// Refuses if standard output is not a terminal. `instead` is a command that works there.
pub(crate) fn require_terminal(what: &str, instead: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal, but standard output is not one; for programs use {instead}")))
}

fn unusable(error: io::Error) -> Failure {
    Failure::because("the terminal cannot be used")(error)
}

#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Enters full-screen mode. A panic leaves it before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            // It may have failed half-way.
            drop(ratatui::try_restore());
            unusable(error)
        })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| Failure::from_output(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is closed already. The cursor is shown first: the library does that too late for a
        // terminal that is being closed.
        drop(self.0.show_cursor());
        drop(ratatui::try_restore());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_will_not_get_better_is_a_refusal() {
        let protocol = |status| Error::Protocol { status, message: String::new(), from_taskqueue: false };
        let lost = Error::Transport { message: String::new(), may_have_arrived: false };
        assert!(is_refusal(&protocol(200)) && is_refusal(&protocol(404)));
        assert!(!is_refusal(&protocol(503)) && !is_refusal(&lost));
    }
}
