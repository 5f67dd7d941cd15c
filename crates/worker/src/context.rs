//! The state that all slots of a worker share: client, settings, spool, failure guard, end reason, number of busy slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{Client, Error, TaskId, capabilities};
use tokio::sync::{OnceCell, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::claims::Want;
use crate::collector::{Collected, Collector, collector};
use crate::events::{Event, EventSink, RunOutcome};
use crate::failure_guard::{FailureGuard, Verdict};
use crate::handler::Misfit;
use crate::identity::WorkerIdentity;
use crate::reachability::Reachability;
use crate::report::RunMessage;
use crate::sent_output::LateOutput;
use crate::settings::Settings;
use crate::spool::Spool;
use crate::stop::{StopMode, stop_reached};
use crate::telemetry::processes::MeasuredSlots;

/// The shortest wait of an idle slot while another slot is busy: the other run may create tasks.
const MIN_WAIT_WHILE_BUSY: Duration = Duration::from_secs(1);

/// The number of heartbeats of one worker that the server may hold at a time; the others are sent together: each has a connection, of which
/// a server has some thousands for all of its workers.
const HELD_HEARTBEATS: usize = 128;

/// The queues of what the slots have for others to send.
pub(crate) struct Queues {
    /// Wants that were not tried yet.
    pub(crate) fresh_wants: Collected<Want>,
    /// Wants that wait for a task to become pending.
    pub(crate) idle_wants: mpsc::UnboundedReceiver<Want>,
    pub(crate) outgoing: Collected<RunMessage>,
    /// Heartbeats, with the time at which each is due.
    pub(crate) beats: mpsc::UnboundedReceiver<(Instant, RunMessage)>,
}

/// The reason for which a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It was asked to stop.
    Stopped,
    /// The idle timeout has passed.
    Idle,
    /// The idle timeout has passed, and the server did not answer.
    ServerUnreachable,
    /// It has run as many tasks as it was allowed to.
    MaxTasks,
    /// This many failures in a row, of different tasks. The task is the last of them.
    FailureGuard { failures: u32, task_id: TaskId },
    /// The first task, which was given back, shows that the worker is not set up for the tasks of its queue.
    Misfit { task_id: TaskId, misfit: Misfit },
    /// The server refused a claim.
    Refused(Error),
    /// No random numbers, or a panic in the worker itself.
    InternalError(String),
}

/// The numbers of ended runs, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub succeeded: u64,
    pub failed: u64,
    pub released: u64,
    pub revoked: u64,
    pub undelivered: u64,
}

pub(crate) struct WorkerContext {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) reachability: Reachability,
    /// True if the server keeps what runs print, which can be turned off there. Unknown until it has said what it has.
    pub(crate) keeps_output: OnceCell<bool>,
    pub(crate) spool: Spool,
    pub(crate) stop: watch::Sender<StopMode>,
    /// Until when nothing is claimed because of failures in a row.
    pub(crate) slowed_until: watch::Sender<Option<Instant>>,
    pub(crate) fresh_wants: Collector<Want>,
    pub(crate) idle_wants: mpsc::UnboundedSender<Want>,
    pub(crate) outgoing: Collector<RunMessage>,
    pub(crate) beats: mpsc::UnboundedSender<(Instant, RunMessage)>,
    /// One for each heartbeat that the server may hold at a time.
    pub(crate) held_heartbeats: Semaphore,
    pub(crate) late_output: LateOutput,
    pub(crate) measured_slots: MeasuredSlots,
    state: Mutex<WorkerState>,
    /// The number of reserved tasks, which may be more than `max_tasks`.
    reserved: AtomicU64,
}

struct WorkerState {
    guard: FailureGuard,
    end_reason: Option<EndReason>,
    /// The number of slots that run a task or have a claim under way that does not wait.
    busy: usize,
    last_run_ended: Instant,
    counts: Counts,
}

impl WorkerContext {
    pub(crate) fn new(client: Client, settings: Settings, spool: Spool, events: Arc<dyn EventSink>) -> (Self, Queues) {
        let ((fresh_wants, fresh), (idle_wants, idle)) = (collector(), mpsc::unbounded_channel());
        let ((outgoing, collected), (beats, due)) = (collector(), mpsc::unbounded_channel());
        let queues = Queues { fresh_wants: fresh, idle_wants: idle, outgoing: collected, beats: due };
        let state = WorkerState {
            guard: FailureGuard::new(settings.on_failures, settings.intervals.failure_pause),
            end_reason: None,
            busy: 0,
            last_run_ended: Instant::now(),
            counts: Counts::default(),
        };
        let context = Self {
            client,
            reachability: Reachability::new(settings.intervals.outage_settle, Arc::clone(&events)),
            settings,
            events,
            keeps_output: OnceCell::new(),
            spool,
            stop: watch::Sender::new(StopMode::Running),
            slowed_until: watch::Sender::new(None),
            fresh_wants,
            idle_wants,
            outgoing,
            beats,
            held_heartbeats: Semaphore::new(HELD_HEARTBEATS),
            late_output: LateOutput::new(),
            measured_slots: MeasuredSlots::default(),
            state: Mutex::new(state),
            reserved: AtomicU64::new(0),
        };
        (context, queues)
    }

    /// Returns what all slots say of the worker.
    pub(crate) fn identity(&self) -> WorkerIdentity<'_> {
        let Settings { name, metadata, spool, .. } = &self.settings;
        let run_dir = spool.as_ref().map(|spool| spool.run_dir.path());
        WorkerIdentity { name: name.as_deref(), metadata, run_dir }
    }

    /// Stops claiming; running tasks may finish. Only the first reason is kept.
    pub(crate) fn end(&self, reason: EndReason) {
        self.state.lock().end_reason.get_or_insert(reason);
        self.stop_at_least(StopMode::Finish);
    }

    pub(crate) fn stop_at_least(&self, wanted: StopMode) {
        self.stop.send_if_modified(|stop| {
            let is_stronger = wanted > *stop;
            *stop = wanted.max(*stop);
            is_stronger
        });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() > StopMode::Running
    }

    /// Waits for so long, or until the worker is asked to stop.
    pub(crate) async fn pause(&self, pause: Duration) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop_reached(&mut stop, StopMode::Finish) => {}
            () = sleep(pause) => {}
        }
    }

    /// Reserves one of `max_tasks`; `false` when none is left.
    pub(crate) fn reserve_task(&self) -> bool {
        let reserved = self.reserved.fetch_add(1, Ordering::Relaxed);
        self.settings.max_tasks.is_none_or(|most| reserved < most)
    }

    /// A slot runs a task, or will know at once whether there is one. Until then the worker is not idle: another slot may have
    /// found nothing only because this one claimed the last task.
    pub(crate) fn mark_busy(&self) {
        self.state.lock().busy += 1;
    }

    pub(crate) fn mark_idle(&self) {
        self.state.lock().busy -= 1;
    }

    /// Counts a run that has ended; its slot is idle again.
    pub(crate) fn record(&self, task_id: TaskId, outcome: &RunOutcome) {
        let now = Instant::now();
        let verdict = {
            let mut state = self.state.lock();
            state.busy -= 1;
            state.last_run_ended = now;
            state.counts.add(outcome);
            let verdict = state.guard.count(task_id, outcome, now);
            // Within the lock, so that a pause does not come after the success that ended it.
            match verdict {
                Verdict::Recovered => drop(self.slowed_until.send_replace(None)),
                Verdict::SlowDown { pause, .. } => drop(self.slowed_until.send_replace(Some(now + pause))),
                Verdict::GoOn | Verdict::Stop { .. } => {}
            }
            verdict
        };
        match verdict {
            Verdict::GoOn | Verdict::Recovered => {}
            Verdict::SlowDown { failures, pause } => {
                self.events.on_event(&Event::SlowedDown { failures, pause, task_id });
            }
            Verdict::Stop { failures } => self.end(EndReason::FailureGuard { failures, task_id }),
        }
    }

    /// Returns how the runs have ended until now.
    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// For how long no slot has had anything to do; `None` while one has, and in a pause after failures, which does not count.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let slowed = *self.slowed_until.borrow();
        let state = self.state.lock();
        let since = slowed.unwrap_or(state.last_run_ended).max(state.last_run_ended);
        if state.busy > 0 { None } else { Instant::now().checked_duration_since(since) }
    }

    /// Returns the rest of the idle timeout; `None` without one. It does not run while the worker is not idle.
    pub(crate) fn idle_left(&self) -> Option<Duration> {
        let timeout = self.settings.idle_timeout?;
        Some(match self.idle_for() {
            None => timeout.max(MIN_WAIT_WHILE_BUSY),
            Some(idle) => timeout.saturating_sub(idle),
        })
    }

    pub(crate) fn summary(&self) -> (EndReason, Counts) {
        let state = self.state.lock();
        let reserved = self.reserved.load(Ordering::Relaxed);
        let is_exhausted = self.settings.max_tasks.is_some_and(|most| reserved > most);
        let default = if is_exhausted && !self.is_stopping() { EndReason::MaxTasks } else { EndReason::Stopped };
        (state.end_reason.clone().unwrap_or(default), state.counts)
    }
}

impl Counts {
    fn add(&mut self, outcome: &RunOutcome) {
        let count = match outcome {
            RunOutcome::Succeeded => &mut self.succeeded,
            RunOutcome::Failed { .. } => &mut self.failed,
            RunOutcome::Released | RunOutcome::CannotRun(_) => &mut self.released,
            RunOutcome::Revoked(_) => &mut self.revoked,
            RunOutcome::Undelivered => &mut self.undelivered,
        };
        *count += 1;
    }
}

impl WorkerContext {
    /// Makes sure that the server is one for this worker. Slots that claim at the same time ask once.
    ///
    /// # Errors
    ///
    /// Those of the question. The claim behind it was not sent.
    pub(crate) async fn require_server(&self) -> Result<(), Error> {
        let ask = || async {
            let answer = self.client.require_extensions().await?;
            Ok(answer.has(capabilities::OUTPUT))
        };
        self.keeps_output.get_or_try_init(ask).await.map(drop)
    }
}
