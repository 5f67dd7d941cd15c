//! The loop of a view: keys, answers and the passing of time in, screens out. A round of requests runs in a task of its
//! own and the screen is drawn from the latest data, so that a slow server makes nothing else slow.

use std::future::Future;
use std::time::{Duration, Instant};

use ratatui::Frame;
use taskqueue_client::Error;
use taskqueue_core::time::Timestamp;
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{interval, sleep_until};

use super::connection_state::{Contact, Trouble};
use super::controls::{Controls, Pressed};
use super::keys::{self, Input, Key};
use super::schedule::Rounds;
use super::screen::Screen;
use super::theme::Theme;
use crate::failure::{Failure, Stop};
use crate::output;

/// How often a screen is drawn although nothing came: the ages on it are told in seconds.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// What a screen shows besides the state of the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Instant,
    /// The same by the clock on the wall.
    pub(crate) clock: Timestamp,
    pub(crate) contact: &'a Contact,
    pub(crate) controls: &'a Controls,
    pub(crate) theme: Theme,
}

/// A view: what it wants to know, what it makes of answers and keys, and how it looks.
pub(crate) trait View {
    /// What is asked for in a round. When it changes, a round begins at once.
    type Query: Clone + PartialEq;
    /// What a round gives.
    type Snapshot: Send + 'static;

    fn query(&self) -> Self::Query;

    fn take(&mut self, snapshot: Self::Snapshot, at: Instant);

    /// A key that is not about the interval, the pause, the help or leaving.
    fn press(&mut self, key: Key);

    fn draw(&self, frame: &mut Frame<'_>, moment: &Moment<'_>);
}

/// Shows the view until somebody leaves it or the process is asked to stop. A server that refuses the first round ends
/// it, too: the command line is wrong then. Nothing else that a server does or does not do ends it.
pub(crate) async fn run<V, F>(view: V, every: Duration, fetch: impl Fn(V::Query) -> F) -> Result<(), Stop>
where
    V: View,
    F: Future<Output = Result<V::Snapshot, Error>> + Send + 'static,
{
    let unusable = |error| Failure::Refused(format!("the terminal cannot be used: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
    let mut screen = Screen::open()?;
    let mut typed = keys::listen().map_err(unusable)?;
    let mut second = interval(REDRAW_EVERY);
    let mut flight = JoinSet::new();
    let mut live = Live::new(view, every);
    loop {
        screen.draw(|frame| live.draw(frame))?;
        select! {
            input = typed.recv() => match input {
                Some(Ok(Input::Key(key))) if live.press(key) == Pressed::Leave => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(unusable(error).into()),
                None => return Ok(()),
            },
            Some(landed) = flight.join_next() => live.land(landed)?,
            () = at(live.contact.next_at) => drop(flight.spawn(fetch(live.begin()))),
            _ = second.tick() => {}
            () = either(&mut terminate, &mut interrupt) => return Ok(()),
        }
    }
}

/// Ends at this time, or never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// A view with what surrounds it.
struct Live<V: View> {
    view: V,
    controls: Controls,
    rounds: Rounds,
    contact: Contact,
    asked: Option<V::Query>,
    theme: Theme,
}

impl<V: View> Live<V> {
    fn new(view: V, interval: Duration) -> Self {
        let (controls, rounds) = (Controls::new(interval), Rounds::new(Instant::now()));
        let theme = Theme::of_stdout();
        let mut live = Self { view, controls, rounds, contact: Contact::default(), asked: None, theme };
        live.plan();
        live
    }

    /// Decides when the next round begins, after anything has happened.
    fn plan(&mut self) {
        if self.asked.as_ref().is_some_and(|asked| *asked != self.view.query()) {
            self.rounds.hurry();
        }
        self.contact.next_at = self.rounds.due(&self.controls);
    }

    fn press(&mut self, key: Key) -> Pressed {
        let pressed = self.controls.press(key);
        match pressed {
            Pressed::Refresh => self.rounds.hurry(),
            Pressed::Other => self.view.press(key),
            Pressed::Leave | Pressed::Done => {}
        }
        self.plan();
        pressed
    }

    fn begin(&mut self) -> V::Query {
        let query = self.view.query();
        self.asked = Some(query.clone());
        self.rounds.begin(Instant::now());
        self.plan();
        query
    }

    fn land(&mut self, landed: Result<Result<V::Snapshot, Error>, JoinError>) -> Result<(), Stop> {
        let outcome =
            landed.map_err(|error| Failure::Refused(format!("a round was given up: {error}; this is a bug")))?;
        let now = Instant::now();
        self.rounds.end(outcome.is_ok(), now);
        match outcome {
            Ok(snapshot) => {
                self.view.take(snapshot, now);
                self.contact.answered_at = Some(now);
                self.contact.trouble = None;
            }
            Err(error) if self.contact.answered_at.is_none() && is_refusal(&error) => return Err(error.into()),
            Err(error) => self.contact.trouble = Some(Trouble::of(&error)),
        }
        self.plan();
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let Self { controls, contact, theme, .. } = self;
        let moment = Moment { now: Instant::now(), clock: output::now(), contact, controls, theme: *theme };
        self.view.draw(frame, &moment);
    }
}

/// Whether asking again will not help: somebody else answers, or what is asked for is wrong.
pub(crate) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Api { status, .. } | Error::Protocol { status, .. } => *status < 500,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_will_not_get_better_is_a_refusal() {
        let protocol = |status| Error::Protocol { status, message: String::new() };
        let lost = Error::Transport { message: String::new(), may_have_arrived: false };
        assert!(is_refusal(&protocol(200)) && is_refusal(&protocol(404)));
        assert!(!is_refusal(&protocol(503)) && !is_refusal(&lost));
    }
}
