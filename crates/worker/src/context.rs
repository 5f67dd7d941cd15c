//! What all slots of a worker share: the way to the server, the guard, the reasons to end, and whether anything runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taskqueue_client::{Client, Error};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::{Contact, Ending, Listener};
use crate::guard::{Guard, Tried};
use crate::report::Reporter;
use crate::settings::Settings;
use crate::spool::Spool;
use crate::stop::Stop;

/// How long a slot without work waits at least while another has some, which may bring it some.
const BESIDE_A_RUN: Duration = Duration::from_secs(1);

/// Why a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// Nothing was to be done for as long as it was to wait.
    Idle,
    /// The same, but because the server could not be asked.
    OutOfContact,
    /// It has run as many tasks as it was to.
    MaxTasks,
    /// So many runs failed in a row.
    Guard(u32),
    /// The server refuses its claims.
    Refused(Error),
    /// It cannot go on by itself.
    Broken(String),
}

/// How many runs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The server has their results.
    pub succeeded: u64,
    /// The server has their failures.
    pub failed: u64,
    /// They were given back.
    pub released: u64,
    /// The server had ended them.
    pub revoked: u64,
    /// The server has not taken their ends.
    pub undelivered: u64,
}

pub(crate) struct WorkerContext {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) contact: Contact,
    pub(crate) spool: Spool,
    pub(crate) stop: watch::Sender<Stop>,
    /// Held by the one slot that waits for work, so that an idle worker waits once, not once per slot.
    pub(crate) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    begun: AtomicU64,
}

struct State {
    guard: Guard,
    end: Option<End>,
    /// How many slots run something or are just asking whether there is something for them at once.
    busy: usize,
    /// When the last run ended.
    changed: Instant,
    counts: Counts,
}

impl WorkerContext {
    pub(crate) fn new(client: Client, settings: Settings, spool: Spool, listener: Arc<dyn Listener>) -> Self {
        let guard = Guard::new(settings.max_consecutive_failures);
        let state = State { guard, end: None, busy: 0, changed: Instant::now(), counts: Counts::default() };
        Self {
            client,
            settings,
            listener,
            contact: Contact::default(),
            spool,
            stop: watch::Sender::new(Stop::Go),
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::new(state),
            begun: AtomicU64::new(0),
        }
    }

    pub(crate) fn reporter(&self) -> Reporter<'_> {
        Reporter {
            client: &self.client,
            spool: &self.spool,
            contact: &self.contact,
            listener: &*self.listener,
            pauses: self.settings.pace.pauses,
            farewell: self.settings.pace.farewell,
        }
    }

    /// Stops claiming for this reason; the first one counts. What runs may finish.
    pub(crate) fn end(&self, why: End) {
        self.state().end.get_or_insert(why);
        self.stop_at_least(Stop::Finish);
    }

    /// Goes this far in stopping, if it has not gone further.
    pub(crate) fn stop_at_least(&self, wanted: Stop) {
        self.stop.send_if_modified(|stop| {
            let further = wanted > *stop;
            *stop = wanted.max(*stop);
            further
        });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() > Stop::Go
    }

    /// Takes one of the tasks that may still be run; `false` when there are none left.
    pub(crate) fn may_begin(&self) -> bool {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        self.settings.max_tasks.is_none_or(|most| begun < most)
    }

    /// A slot runs something, or is about to know whether it will. Before it knows, the worker is not idle: another slot may
    /// have found nothing only because this one was given the last task.
    pub(crate) fn occupy(&self) {
        self.state().busy += 1;
    }

    /// There is nothing for the slot at the moment.
    pub(crate) fn vacate(&self) {
        self.state().busy -= 1;
    }

    /// Books the end of a run.
    pub(crate) fn ended(&self, ending: &Ending) {
        let tripped = {
            let mut state = self.state();
            state.busy -= 1;
            state.changed = Instant::now();
            state.counts.add(ending);
            state.guard.count(tried(ending))
        };
        if let Some(failures) = tripped {
            self.end(End::Guard(failures));
        }
    }

    /// How long until the worker has been idle for too long; nothing when it may be idle for ever. While something runs the
    /// time does not begin, so there is some left even where a worker may not be idle at all.
    pub(crate) fn idle_left(&self) -> Option<Duration> {
        let timeout = self.settings.idle_timeout?;
        let state = self.state();
        Some(if state.busy > 0 { timeout.max(BESIDE_A_RUN) } else { timeout.saturating_sub(state.changed.elapsed()) })
    }

    /// Why the worker ended and what it did.
    pub(crate) fn summary(&self) -> (End, Counts) {
        let state = self.state();
        let begun = self.begun.load(Ordering::Relaxed);
        let exhausted = self.settings.max_tasks.is_some_and(|most| begun > most);
        let otherwise = if exhausted && !self.is_stopping() { End::MaxTasks } else { End::Stopped };
        (state.end.clone().unwrap_or(otherwise), state.counts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, ending: &Ending) {
        let count = match ending {
            Ending::Succeeded => &mut self.succeeded,
            Ending::Failed { .. } => &mut self.failed,
            Ending::Released | Ending::Unable(_) => &mut self.released,
            Ending::Revoked(_) => &mut self.revoked,
            Ending::Undelivered => &mut self.undelivered,
        };
        *count += 1;
    }
}

fn tried(ending: &Ending) -> Tried {
    match ending {
        Ending::Succeeded => Tried::Succeeded,
        Ending::Failed { .. } | Ending::Unable(_) => Tried::Failed,
        Ending::Released | Ending::Revoked(_) | Ending::Undelivered => Tried::Undecided,
    }
}
