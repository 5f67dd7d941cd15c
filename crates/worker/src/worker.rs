//! The worker: its slots, the state that they share (client, settings, spool, failure guard, end reason, number of busy slots), the reports
//! that an earlier worker left, and its end.
//!
//! Here is also the identity of a worker and its slots, as observations and claims say it, so that a result can be traced to its machine and
//! to its folder after months; and new random ids.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{Client, Error, JsonObject, TaskId, capabilities};
use taskqueue_core::ids::{ID_BYTES, RunId, WorkerId};
use taskqueue_core::json::{ObjectWriter, merge_patch, parse};
use taskqueue_core::limits::{CLAIM_WORKER_BYTES, CLAIM_WORKER_ITEM_BYTES};
use tokio::sync::{OnceCell, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::claims::Want;
use crate::handler::{Event, EventSink, Handler, Misfit, RunOutcome, StopMode, stop_reached};
use crate::reachability::Reachability;
use crate::report::{Collected, Collector, RunMessage, collector};
use crate::sent_output::LateOutput;
use crate::settings::{FailureGuard, Settings, Verdict};
use crate::slot::Slot;
use crate::spool::Spool;
use crate::telemetry::MeasuredSlots;

/// Claims and runs tasks until there is a reason to end.
pub struct Worker {
    context: Arc<WorkerContext>,
    queues: Queues,
    handler: Arc<dyn Handler>,
}

impl Worker {
    /// `client` should not repeat calls itself ([`taskqueue_client::Retries::NONE`]): the worker decides what to repeat and when.
    pub fn new(
        client: Client,
        settings: Settings,
        handler: Arc<dyn Handler>,
        events: Arc<dyn EventSink>,
    ) -> io::Result<Self> {
        let spool = Spool::open(settings.spool.as_ref())?;
        let (context, queues) = WorkerContext::new(client, settings, spool, events);
        Ok(Self { context: Arc::new(context), queues, handler })
    }

    /// Works until the end, or until `stop` asks for it.
    pub async fn run(self, mut stop: watch::Receiver<StopMode>) -> (EndReason, Counts) {
        let context = &self.context;
        let (mut slots, mut services) = (JoinSet::new(), JoinSet::new());
        let Queues { fresh_wants, idle_wants, outgoing, beats } = self.queues;
        services.spawn(Arc::clone(context).serve_claims(fresh_wants, idle_wants));
        services.spawn(Arc::clone(context).serve_outgoing(outgoing));
        services.spawn(Arc::clone(context).serve_beats(beats));
        services.spawn(Arc::clone(context).serve_telemetry());
        services.spawn(Arc::clone(context).tell_why_idle());
        // Loaded before a slot can store a report of its own.
        let earlier = context.spool.load(&*context.events);
        let mut earlier = tokio::spawn(Arc::clone(context).deliver_earlier(earlier));
        for number in context.settings.slots.iter().copied() {
            match new_worker_id() {
                Ok(worker_id) => {
                    let (context, handler) = (Arc::clone(context), Arc::clone(&self.handler));
                    slots.spawn(Slot { identity: SlotIdentity { number, worker_id }, context, handler }.work());
                }
                Err(error) => context.end(EndReason::InternalError(error)),
            }
        }
        services.spawn(Arc::clone(context).watch_for_pauses());
        let mut is_stop_open = true;
        while !slots.is_empty() {
            tokio::select! {
                biased;
                changed = stop.changed(), if is_stop_open => match changed {
                    Ok(()) => {
                        let wanted = *stop.borrow_and_update();
                        context.stop_at_least(wanted);
                    }
                    // The sender was dropped; the worker continues.
                    Err(_) => is_stop_open = false,
                },
                ended = slots.join_next() => {
                    if let Some(Err(error)) = ended {
                        context.end(EndReason::InternalError(error.to_string()));
                    }
                }
            }
        }
        services.abort_all();
        context.finish_output().await;
        // Even a worker without tasks delivers the earlier reports before it ends, if the server answers.
        if timeout(context.settings.intervals.shutdown_timeout, &mut earlier).await.is_err() {
            earlier.abort();
        }
        context.reachability.finish();
        context.summary()
    }
}

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
        Some(self.idle_for().map_or(timeout.max(MIN_WAIT_WHILE_BUSY), |idle| timeout.saturating_sub(idle)))
    }

    pub(crate) fn summary(&self) -> (EndReason, Counts) {
        let state = self.state.lock();
        let reserved = self.reserved.load(Ordering::Relaxed);
        let is_exhausted = self.settings.max_tasks.is_some_and(|most| reserved > most);
        let default = if is_exhausted && !self.is_stopping() { EndReason::MaxTasks } else { EndReason::Stopped };
        (state.end_reason.clone().unwrap_or(default), state.counts)
    }

    /// Makes sure that the server is one for this worker. Slots that claim at the same time ask once.
    ///
    /// # Errors
    ///
    /// Those of the question. The claim behind it was not sent.
    pub(crate) async fn require_server(&self) -> Result<(), Error> {
        let ask = || async { Ok(self.client.require_extensions().await?.has(capabilities::OUTPUT)) };
        self.keeps_output.get_or_try_init(ask).await.map(drop)
    }
}

impl Counts {
    /// Counts a run that has ended.
    pub fn add(&mut self, outcome: &RunOutcome) {
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

/// The name of this machine; empty if it is unknown.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
});

/// One slot of this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotIdentity {
    pub(crate) number: usize,
    pub(crate) worker_id: WorkerId,
}

/// The part of the identity that all slots of a worker share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerIdentity<'a> {
    pub(crate) name: Option<&'a str>,
    /// The words of its user. Those of the worker itself win.
    pub(crate) metadata: &'a JsonObject,
    pub(crate) run_dir: Option<&'a Path>,
}

impl WorkerIdentity<'_> {
    /// The metadata of the observations of a slot.
    pub(crate) fn in_observations(&self, slot: &SlotIdentity) -> JsonObject {
        let own = self.place().integer("slot", slot.integer()).text("version", env!("CARGO_PKG_VERSION"));
        merge_patch(self.metadata, &object_of(own))
    }

    /// The `worker` of the claims of a slot.
    pub(crate) fn in_claims(&self, slot: &SlotIdentity) -> JsonObject {
        self.longest_of(CLAIM_WORKER_BYTES, |own| slot.write(own))
    }

    /// The `worker` of claims of several slots at once, to which each adds what it is: [`SlotIdentity::own_members`].
    pub(crate) fn in_shared_claims(&self) -> JsonObject {
        self.longest_of(CLAIM_WORKER_BYTES - CLAIM_WORKER_ITEM_BYTES, |own| own)
    }

    /// Returns the longest identity that fits, with what `add` writes; what makes it too long for the server is left out: first what its user says, then the
    /// folder, then all but the place.
    fn longest_of(&self, most_bytes: usize, add: impl Fn(ObjectWriter) -> ObjectWriter) -> JsonObject {
        let place = self.place().optional(self.run_dir, |own, folder| own.text("folder", &folder.to_string_lossy()));
        let (whole, short) = (object_of(add(place)), object_of(add(self.place())));
        let candidates = [merge_patch(self.metadata, &whole), whole, merge_patch(self.metadata, &short), short];
        let fitting = candidates.into_iter().find(|worker| worker.as_str().len() <= most_bytes);
        fitting.unwrap_or_else(|| object_of(self.place()))
    }

    /// Returns the place of the worker: host, process and name.
    fn place(&self) -> ObjectWriter {
        let place = ObjectWriter::new().text("host", &HOST).integer("pid", std::process::id());
        self.name.iter().fold(place, |place, name| place.text("name", name))
    }
}

impl SlotIdentity {
    /// Returns what the slot adds to the `worker` of claims of several slots.
    pub(crate) fn own_members(&self) -> JsonObject {
        object_of(self.write(ObjectWriter::new()))
    }

    fn write(&self, own: ObjectWriter) -> ObjectWriter {
        own.integer("slot", self.integer()).text("id", self.worker_id.as_str())
    }

    fn integer(&self) -> i64 {
        i64::try_from(self.number).unwrap_or(i64::MAX)
    }
}

pub(crate) fn object_of(writer: ObjectWriter) -> JsonObject {
    let text = writer.end();
    parse(&text).ok().and_then(|value| JsonObject::from_value(&value).ok()).unwrap_or_else(JsonObject::empty)
}

/// Returns a new id for a run.
pub(crate) fn new_run_id() -> Result<RunId, String> {
    random_bytes().map(RunId::from_bytes)
}

/// Returns a new id for a slot.
pub(crate) fn new_worker_id() -> Result<WorkerId, String> {
    random_bytes().map(WorkerId::from_bytes)
}

fn random_bytes() -> Result<[u8; ID_BYTES], String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotIdentity {
        SlotIdentity { number: 3, worker_id: WorkerId::parse("w_000000000001").unwrap() }
    }

    fn worker<'a>(metadata: &'a JsonObject, run_dir: Option<&'a str>) -> WorkerIdentity<'a> {
        WorkerIdentity { name: None, metadata, run_dir: run_dir.map(Path::new) }
    }

    #[test]
    fn it_says_where_the_slot_is() {
        let (pid, empty) = (std::process::id(), JsonObject::empty());
        let seen = worker(&empty, None).in_observations(&slot());
        assert!(seen.as_str().contains(&format!("\"pid\":{pid},\"slot\":3,\"version\":\"")), "{}", seen.as_str());
        assert!(!HOST.is_empty() && seen.as_str().contains(&format!("\"host\":\"{}\"", *HOST)), "{}", seen.as_str());
        let claimed = worker(&empty, Some("/a \"b\"")).in_claims(&slot());
        assert!(claimed.as_str().starts_with(r#"{"folder":"/a \"b\"","host":""#), "{}", claimed.as_str());
        assert!(claimed.as_str().contains("\"id\":\"w_000000000001\""), "{}", claimed.as_str());
    }

    #[test]
    fn its_name_and_what_its_user_says_are_added_and_replace_nothing() {
        let metadata = JsonObject::from_canonical(r#"{"host":"elsewhere","rack":7}"#);
        let worker = WorkerIdentity { name: Some("left"), metadata: &metadata, run_dir: None };
        for said in [worker.in_observations(&slot()), worker.in_claims(&slot()), worker.in_shared_claims()] {
            assert!(said.as_str().contains("\"name\":\"left\""), "{}", said.as_str());
            assert!(said.as_str().contains("\"rack\":7") && !said.as_str().contains("elsewhere"), "{}", said.as_str());
        }
    }

    #[test]
    fn claims_of_several_slots_are_together_what_each_says_alone() {
        let metadata = JsonObject::from_canonical(r#"{"rack":7}"#);
        let worker = worker(&metadata, Some("/runs"));
        let merged = merge_patch(&worker.in_shared_claims(), &slot().own_members());
        assert_eq!(merged, worker.in_claims(&slot()));
        assert!(slot().own_members().as_str().len() <= CLAIM_WORKER_ITEM_BYTES);
    }

    #[test]
    fn a_path_that_is_too_long_is_left_out() {
        let (long, empty) = (format!("/{}", "x".repeat(CLAIM_WORKER_BYTES)), JsonObject::empty());
        for none in [Some(long.as_str()), None] {
            let claimed = worker(&empty, none).in_claims(&slot());
            assert!(!claimed.as_str().contains("folder") && claimed.as_str().contains("host"), "{}", claimed.as_str());
        }
    }

    #[test]
    fn ids_have_their_form_and_differ() {
        assert_ne!(new_run_id().unwrap(), new_run_id().unwrap());
        assert_ne!(new_worker_id().unwrap(), new_worker_id().unwrap());
    }
}
