//! One slot: claims a task, runs it, reports it, and starts again. The lease is renewed while the task runs and is reported. Its
//! observations are sent on every change and every minute; their failure never affects the slot.
//!
//! A lease is renewed by heartbeats, which also tell of the end of its run. The server is asked to hold each heartbeat until the run is over, so
//! that a cancel arrives at once; those that it does not hold are sent with those of other runs (docs/decisions/0036). Only an answer
//! of the server about this run ends it: an unreachable, slow or broken server never does, however long that lasts.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Error, Failure, JsonObject, Report, RunEnd, RunKey, RunReport, TaskId, WorkerId, WorkerStatus};
use taskqueue_core::lease::timeout_failure;
use taskqueue_core::limits::LEASE_SECONDS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::claims::ClaimedTask;
use crate::handler::{Event, Handler, HandlerResult, RunControl, RunOutcome, StopMode, TaskRun, stop_reached};
use crate::report::{Delivery, ErrorClass, GIVE_BACK, HEARTBEAT, ProgressOfRun, RunMessage, run_of, trace_of};
use crate::settings::{Backoff, Intervals, has_waited, jittered, sleep_until_some, whole_seconds};
use crate::telemetry::RunProcesses;
use crate::worker::{EndReason, SlotIdentity, WorkerContext};

/// The time beyond the grace time that a handler has to kill and reap its processes; then it is dropped.
const HANDLER_EXTRA_TIME: Duration = Duration::from_secs(30);

pub(crate) struct Slot {
    pub(crate) identity: SlotIdentity,
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) handler: Arc<dyn Handler>,
}

impl Slot {
    /// Works until the worker claims no more.
    pub(crate) async fn work(self) {
        let (processes, worker_id) = (RunProcesses::default(), self.identity.worker_id);
        self.context.measured_slots.lock().push((worker_id, processes.clone()));
        let observer = Observer::start(Arc::clone(&self.context), self.identity);
        let mut backoff = Backoff::new(self.context.settings.intervals.backoff);
        while let Some(claimed) = self.context.next_claim(self.identity).await {
            observer.set_task(Some(claimed.claim.task.id));
            let outcome = self.run(claimed, processes.clone()).await;
            observer.set_task(None);
            if matches!(outcome, RunOutcome::Released | RunOutcome::CannotRun(_)) {
                // The task is pending again and would be claimed again at once.
                self.context.pause(backoff.next()).await;
            } else {
                backoff.reset();
            }
        }
        self.context.measured_slots.lock().retain(|(id, _)| *id != worker_id);
        observer.close(&self.context).await;
    }

    /// One run, from its claim to the answer to its report.
    async fn run(&self, claimed: ClaimedTask, processes: RunProcesses) -> RunOutcome {
        let ClaimedTask { claim, claim_sent, run_began } = claimed;
        let WorkerContext { events, settings, .. } = &*self.context;
        let run = run_of(&settings.queue, &claim);
        // Not `claim_sent`: the claim may have waited for its task for most of a minute.
        let started = Instant::now();
        events.on_event(&Event::Started { slot: self.identity.number, claim: &claim });
        let (control, receiver) = watch::channel(RunControl::Continue);
        let (handler, SlotIdentity { number: slot, worker_id }) = (Arc::clone(&self.handler), self.identity);
        let (progress, progress_of_run) = ProgressOfRun::new();
        let (output, output_end) = self.context.start_output(&run);
        let (trace, run_limit) = (trace_of(&claim), claim.task.scheduling.run_limit());
        let times_out_at = run_limit.and_then(|limit| run_began.checked_add(limit));
        let task_run =
            TaskRun { slot, worker_id, claim, times_out_at, trace, control: receiver, output, progress, processes };
        let work = tokio::spawn(async move { handler.run(task_run).await });
        let mut lease = pin!(async {
            tokio::select! {
                error = self.context.renew_lease(&run, slot, claim_sent) => error,
                () = self.context.report_progress(&run, &progress_of_run) => std::future::pending().await,
            }
        });
        let outcome = match self.wait_for_handler(work, &control, lease.as_mut()).await {
            Err(refusal) => ended_by_server(&refusal, run_limit),
            Ok(result) => tokio::select! {
                biased;
                outcome = self.report(&run, result, &progress_of_run, run_limit) => outcome,
                // If a heartbeat is refused now, the report will be refused as well.
                _ = async { lease.await; std::future::pending::<()>().await } => RunOutcome::Undelivered,
            },
        };
        drop(output_end);
        let (task_id, run_id, took) = (run.task_id, run.run_id, started.elapsed());
        // First, so that what follows from this end is told after it.
        events.on_event(&Event::Ended { slot, task_id, run_id, outcome: &outcome, took });
        self.context.record(task_id, &outcome);
        outcome
    }

    /// Waits for the end of the handler, and passes on to it what the server and the worker want.
    ///
    /// # Errors
    ///
    /// The server has ended the run; nothing is to be reported.
    async fn wait_for_handler(
        &self,
        mut work: JoinHandle<HandlerResult>,
        control: &watch::Sender<RunControl>,
        mut lease: Pin<&mut impl Future<Output = Error>>,
    ) -> Result<HandlerResult, Error> {
        let mut stop = self.context.stop.subscribe();
        let (mut revoked, mut wanted) = (None, RunControl::Continue);
        let mut deadline = None;
        let result = loop {
            let next_step = if wanted == RunControl::Continue { StopMode::Release } else { StopMode::Kill };
            tokio::select! {
                biased;
                ended = &mut work => break ended.unwrap_or_else(|error| {
                    let (kind, message) = ("HandlerPanicked".into(), error.to_string().into());
                    HandlerResult::Fail(Failure { kind, message, traceback: None })
                }),
                error = &mut lease, if revoked.is_none() => {
                    revoked = Some(error);
                    wanted = wanted.max(RunControl::Stop);
                }
                mode = stop_reached(&mut stop, next_step), if wanted < RunControl::Kill => {
                    wanted = if mode == StopMode::Kill { RunControl::Kill } else { RunControl::Stop };
                }
                () = sleep_until_some(deadline) => {
                    work.abort();
                    break HandlerResult::Stopped;
                }
            }
            control.send_replace(wanted);
            deadline.get_or_insert_with(|| Instant::now() + self.context.settings.grace + HANDLER_EXTRA_TIME);
        };
        revoked.map_or(Ok(result), Err)
    }

    async fn report(
        &self,
        run: &RunKey,
        result: HandlerResult,
        progress: &ProgressOfRun,
        run_limit: Option<Duration>,
    ) -> RunOutcome {
        let fail = |failure, retry| RunReport::Fail { failure, retry, retry_after: None };
        let (report, cannot_run) = match result {
            HandlerResult::Complete(result) => (RunReport::Complete { result }, None),
            HandlerResult::Fail(failure) => (fail(failure, true), None),
            HandlerResult::Reject(failure) => (fail(failure, false), None),
            HandlerResult::Release | HandlerResult::Stopped => (GIVE_BACK, None),
            HandlerResult::CannotRun(why) => (GIVE_BACK, Some(why)),
            HandlerResult::Misfit(misfit) => {
                let why = format!("its args have no {}", misfit.missing);
                // First, so that no slot claims more.
                self.context.end(EndReason::Misfit { task_id: run.task_id, misfit });
                (GIVE_BACK, Some(why))
            }
        };
        match self.context.deliver(run, report, Some(progress)).await {
            Delivery::Accepted(RunReport::Complete { .. }) => RunOutcome::Succeeded,
            Delivery::Accepted(RunReport::Fail { failure: Failure { kind, message, .. }, .. }) => {
                RunOutcome::Failed { kind, message }
            }
            Delivery::Accepted(RunReport::Unclaim { .. }) => {
                cannot_run.map_or(RunOutcome::Released, RunOutcome::CannotRun)
            }
            Delivery::Refused(error) => ended_by_server(&error, run_limit),
            Delivery::Abandoned => RunOutcome::Undelivered,
        }
    }
}

/// The outcome of a run that the server has ended. One that took longer than its task allows has failed there, and counts as that.
fn ended_by_server(refusal: &Error, run_limit: Option<Duration>) -> RunOutcome {
    if refusal.run_end() == Some(RunEnd::Timeout) {
        let Failure { kind, message, .. } = timeout_failure(run_limit);
        return RunOutcome::Failed { kind, message };
    }
    RunOutcome::Revoked(refusal.to_string())
}

pub(crate) struct Observer {
    task_id: watch::Sender<Option<TaskId>>,
    sender: JoinHandle<()>,
}

impl Observer {
    pub(crate) fn start(context: Arc<WorkerContext>, slot: SlotIdentity) -> Self {
        let (task_id, changes) = watch::channel(None);
        Self { task_id, sender: tokio::spawn(send_observations(context, slot, changes)) }
    }

    /// Sets what the slot works on; `None` means idle.
    pub(crate) fn set_task(&self, task_id: Option<TaskId>) {
        self.task_id.send_replace(task_id);
    }

    /// Withdraws the observation, unless that takes too long: one timeout for an observation that is under way, one for the withdrawal.
    pub(crate) async fn close(self, context: &WorkerContext) {
        drop(self.task_id);
        let mut sender = self.sender;
        if timeout(context.settings.intervals.shutdown_timeout * 2, &mut sender).await.is_err() {
            sender.abort();
        }
    }
}

async fn send_observations(
    context: Arc<WorkerContext>,
    slot: SlotIdentity,
    mut changes: watch::Receiver<Option<TaskId>>,
) {
    let (intervals, mut metadata) = (context.settings.intervals, context.identity().in_observations(&slot));
    let mut is_open = true;
    while is_open {
        let task_id = *changes.borrow_and_update();
        let status = if task_id.is_some() { WorkerStatus::Busy } else { WorkerStatus::Idle };
        let mut report = Report { route: context.settings.route.clone(), status, task_id, metadata: metadata.clone() };
        let latest = Instant::now() + jittered(intervals.observation);
        let earliest = Instant::now() + intervals.observation_gap;
        // A failed observation is replaced by the next one.
        is_open = tokio::select! {
            biased;
            () = send(&context, slot.worker_id, &mut report) => true,
            // Its answer is waited for: done behind the withdrawal, the observation would bring the worker back.
            () = async { closed(&changes).await; sleep(intervals.shutdown_timeout).await } => false,
        };
        metadata = report.metadata;
        is_open = is_open && wait_for_next(&mut changes, earliest, latest).await;
    }
    // Best effort: an observation expires by itself.
    drop(context.client.withdraw_worker(&context.settings.queue, slot.worker_id).await);
}

/// Sends an observation. A server that refuses its metadata gets it without, now and from then on.
async fn send(context: &WorkerContext, id: WorkerId, report: &mut Report) {
    let queue = &context.settings.queue;
    if let Err(Error::Api { status: 422, .. }) = context.client.report_worker(queue, id, report).await
        && !report.metadata.is_empty_object()
    {
        report.metadata = JsonObject::empty();
        drop(context.client.report_worker(queue, id, report).await);
    }
}

/// Returns when the observer is closed.
async fn closed(changes: &watch::Receiver<Option<TaskId>>) {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
}

/// Waits for a change, but at least until `earliest`, and at most until `latest`. Returns `false` when the observer is closed.
async fn wait_for_next(changes: &mut watch::Receiver<Option<TaskId>>, earliest: Instant, latest: Instant) -> bool {
    tokio::select! {
        biased;
        change = changes.changed() => {
            if change.is_err() {
                return false;
            }
        }
        () = sleep_until(latest) => return true,
    }
    tokio::select! {
        biased;
        () = closed(changes) => false,
        () = sleep_until(earliest) => true,
    }
}

impl WorkerContext {
    /// Sends heartbeats until the server says that the run is over, and returns that answer. `claim_sent` is the earliest moment
    /// at which the server can have started the lease.
    pub(crate) async fn renew_lease(&self, run: &RunKey, slot: usize, claim_sent: Instant) -> Error {
        let intervals = &self.settings.intervals;
        let mut holding = HeartbeatPlan::new(intervals);
        let (mut renewed, mut pause, mut is_in_doubt) = (claim_sent, intervals.first_heartbeat, false);
        let mut is_alone = false;
        loop {
            let (sent, answer) = self.send_heartbeat(run, &mut holding, jittered(pause), is_alone).await;
            is_alone = answer.is_err();
            match answer {
                Ok(applied) => {
                    self.reachability.call_succeeded(sent);
                    (renewed, is_in_doubt) = (sent, false);
                    pause = holding.after_answer(applied, sent.elapsed(), self.reports_together());
                }
                Err(error) if ErrorClass::of(&error) == ErrorClass::RunOver => return error,
                Err(error) => match holding.after_error(sent.elapsed()) {
                    NextHeartbeat::AskAtOnce => pause = Duration::ZERO,
                    NextHeartbeat::Pause => {
                        self.reachability.call_failed(&error, sent);
                        pause = intervals.heartbeat_retry;
                    }
                },
            }
            if !is_in_doubt && renewed.elapsed() > Duration::from_secs(LEASE_SECONDS.unsigned_abs()) {
                is_in_doubt = true;
                self.events.on_event(&Event::LeaseInDoubt { slot, task_id: run.task_id });
            }
        }
    }

    /// Sends a heartbeat after a pause, for the server to hold it if that is worthwhile, and otherwise with those of other runs. Returns
    /// the moment before it was sent, and how long the server says that it held it.
    async fn send_heartbeat(
        &self,
        run: &RunKey,
        holding: &mut HeartbeatPlan,
        pause: Duration,
        is_alone: bool,
    ) -> (Instant, Result<Option<u32>, Error>) {
        let is_together = self.reports_together() && !is_alone;
        if is_together && !holding.wants_hold() {
            holding.next(false);
            return self.heartbeat_with_others(run, pause).await;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let permit = self.held_heartbeats.try_acquire();
        match holding.next(permit.is_ok()) {
            // A held heartbeat renews when it arrives and is answered later, so the lease counts from when it was sent.
            Some(hold) => {
                let sent = Instant::now();
                let answer = self.client.heartbeat(run, Some(whole_seconds(hold))).await;
                (sent, answer.map(|answer| answer.wait_applied))
            }
            None if is_together => self.heartbeat_with_others(run, Duration::ZERO).await,
            None => (Instant::now(), self.say(run, HEARTBEAT, true).await.map(|_| None)),
        }
    }

    /// Sends a heartbeat after about this pause, with those of other runs.
    async fn heartbeat_with_others(&self, run: &RunKey, pause: Duration) -> (Instant, Result<Option<u32>, Error>) {
        let (message, answered) = RunMessage::new(run, HEARTBEAT);
        // If nobody sends any more, that is heard below.
        drop(self.beats.send((Instant::now() + pause, message)));
        match answered.await {
            Ok(sent) => (sent, Ok(None)),
            // When it was sent does not matter.
            Err(error) => (Instant::now(), Err(error)),
        }
    }

    /// Sends heartbeats when they are due, until it is dropped.
    pub(crate) async fn serve_beats(self: Arc<Self>, mut queue: mpsc::UnboundedReceiver<(Instant, RunMessage)>) {
        let soon = self.settings.intervals.heartbeat_poll / 2;
        let mut beats: Vec<(Instant, RunMessage)> = Vec::new();
        loop {
            let next = beats.iter().map(|(due, _)| *due).min();
            tokio::select! {
                biased;
                beat = queue.recv() => if let Some(beat) = beat { beats.push(beat) } else { return },
                () = sleep_until_some(next) => {
                    let until = Instant::now() + soon;
                    // Runs that have ended need no heartbeat.
                    beats.retain(|(_, beat)| !beat.answer.is_closed());
                    beats.extract_if(.., |(due, _)| *due <= until).for_each(|(_, beat)| self.outgoing.push(beat));
                }
            }
            if beats.len() > self.settings.slots.len() {
                beats.retain(|(_, beat)| !beat.answer.is_closed());
            }
        }
    }

    /// Sends an event for each pause in which a heartbeat was due. Never returns.
    pub(crate) async fn watch_for_pauses(self: Arc<Self>) {
        loop {
            let before = Instant::now();
            sleep(TICK).await;
            let pause = before.elapsed().saturating_sub(TICK);
            if pause >= self.settings.intervals.heartbeat.max(SHORTEST) {
                self.events.on_event(&Event::Paused(pause));
            }
        }
    }
}

/// After so many whole holds in a row a shortened one is tried longer again: what cut it off may have been a single restart.
const GROW_AFTER: u32 = 10;

#[derive(Debug)]
pub(super) struct HeartbeatPlan {
    /// The time that the server is asked to hold a heartbeat.
    hold: Duration,
    longest: Duration,
    /// Since the hold was shortened, made longer or cut off.
    whole_holds: u32,
    /// Between heartbeats that are not held. Nothing is held for less time.
    poll: Duration,
    /// A held heartbeat was cut off after this time. The next one is not held, and shows whether the server is there.
    cut_off_after: Option<Duration>,
    /// The number of the next heartbeats that are not to be held, because the server did not hold one.
    polls_left: u32,
    /// The time that the server was asked to hold the heartbeat that is under way.
    asked: Option<Duration>,
}

/// A server that did not hold a heartbeat is asked again to hold one after so many that cost little, because they are sent with those of
/// other runs: half a minute.
const POLLS_TOGETHER: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHeartbeat {
    /// The outcome is unknown: send the next heartbeat at once. It will not be held.
    AskAtOnce,
    /// The server is not there.
    Pause,
}

impl HeartbeatPlan {
    pub(super) fn new(intervals: &Intervals) -> Self {
        let hold = intervals.heartbeat.min(intervals.wait);
        let poll = intervals.heartbeat_poll;
        Self { hold, longest: hold, whole_holds: 0, poll, cut_off_after: None, polls_left: 0, asked: None }
    }

    /// Returns whether the server is to hold the next heartbeat.
    pub(super) fn wants_hold(&self) -> bool {
        self.cut_off_after.is_none() && self.polls_left == 0 && self.hold >= self.poll
    }

    /// Returns the time that the server is to hold the heartbeat that is sent now. `may_hold`: this worker has not too many held ones.
    pub(super) fn next(&mut self, may_hold: bool) -> Option<Duration> {
        self.asked = (may_hold && self.wants_hold()).then_some(self.hold);
        self.asked
    }

    /// The pause after an answer, which took so long and names the wait that the server has applied. `together`: heartbeats that are not
    /// held are sent with those of other runs.
    pub(super) fn after_answer(&mut self, applied: Option<u32>, took: Duration, together: bool) -> Duration {
        if let Some(lasted) = self.cut_off_after.take() {
            // The server is there, so something else cuts held heartbeats.
            self.hold = self.hold.min(lasted) / 2;
            self.whole_holds = 0;
            return if self.wants_hold() { Duration::ZERO } else { self.poll };
        }
        if !has_waited(applied, self.asked, took) {
            let is_new = self.polls_left == 0;
            self.polls_left = if is_new && together { POLLS_TOGETHER } else { self.polls_left.saturating_sub(1) };
            return self.poll;
        }
        self.whole_holds += 1;
        if self.whole_holds >= GROW_AFTER {
            self.hold = self.longest.min(self.hold * 2);
            self.whole_holds = 0;
        }
        Duration::ZERO
    }

    /// Returns the next step after an error, which came after so long.
    pub(super) fn after_error(&mut self, took: Duration) -> NextHeartbeat {
        let was_held = self.asked.is_some();
        // If the next one fails too, it was an outage.
        self.cut_off_after = (was_held && took >= self.poll).then_some(took);
        if self.cut_off_after.is_some() { NextHeartbeat::AskAtOnce } else { NextHeartbeat::Pause }
    }
}

const TICK: Duration = Duration::from_secs(1);

/// A pause that is shorter can be a busy machine.
const SHORTEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn holding() -> HeartbeatPlan {
        HeartbeatPlan::new(&Intervals::default())
    }

    /// Sends a heartbeat that fails after so long.
    fn error_after(holding: &mut HeartbeatPlan, took: Duration) -> NextHeartbeat {
        holding.next(true);
        holding.after_error(took)
    }

    #[test]
    fn a_server_that_holds_is_asked_again_at_once() {
        let mut holding = holding();
        assert_eq!(holding.next(true), Some(seconds(50)));
        assert_eq!(holding.after_answer(Some(50), seconds(50), false), Duration::ZERO);
        assert_eq!(holding.next(true), Some(seconds(50)));
    }

    #[test]
    fn a_server_that_does_not_hold_is_asked_every_few_seconds() {
        let mut holding = holding();
        // It does not know of it; it is stopping or full; it says so but does not.
        for (applied, took) in [(None, Duration::ZERO), (None, seconds(40)), (Some(50), Duration::ZERO)] {
            assert_eq!(holding.after_answer(applied, took, false), seconds(5), "{applied:?} {took:?}");
            assert_eq!(holding.next(true), Some(seconds(50)), "it may be able to later");
        }
    }

    #[test]
    fn what_is_sent_with_others_is_held_again_after_half_a_minute() {
        let mut holding = holding();
        for _ in 0..3 {
            assert_eq!(holding.next(true), Some(seconds(50)));
            assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
            for _ in 0..POLLS_TOGETHER {
                assert_eq!(holding.next(true), None);
                assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
            }
        }
    }

    #[test]
    fn without_a_place_among_the_held_ones_it_is_sent_with_others_and_asks_again() {
        let mut holding = holding();
        assert!(holding.wants_hold());
        assert_eq!(holding.next(false), None);
        assert_eq!(holding.after_error(seconds(30)), NextHeartbeat::Pause, "it was not held, so nothing was cut off");
        assert_eq!(holding.next(false), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO, true), seconds(5));
        assert!(!holding.wants_hold());
    }

    #[test]
    fn what_is_cut_off_is_held_for_less_time_and_in_the_end_not_at_all() {
        let mut holding = holding();
        let mut holds = Vec::new();
        // A proxy cuts everything that is silent for 12 seconds.
        while let Some(hold) = holding.next(true).filter(|hold| *hold > seconds(12)) {
            holds.push(hold);
            assert_eq!(holding.after_error(seconds(12)), NextHeartbeat::AskAtOnce);
            assert_eq!(holding.next(true), None, "the next one is not held");
            assert_eq!(holding.after_answer(None, Duration::ZERO, false), Duration::ZERO);
        }
        assert_eq!((holds, holding.next(true)), (vec![seconds(50)], Some(seconds(6))));
        // Now one that cuts after 5 seconds.
        assert_eq!(holding.after_error(seconds(5)), NextHeartbeat::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
        assert_eq!(holding.next(true), None);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), seconds(5));
    }

    #[test]
    fn a_hold_that_was_cut_off_once_becomes_long_again() {
        let mut holding = holding();
        assert_eq!(error_after(&mut holding, seconds(40)), NextHeartbeat::AskAtOnce);
        assert_eq!(holding.after_answer(None, Duration::ZERO, false), Duration::ZERO);
        assert_eq!(holding.next(true), Some(seconds(20)));
        let mut holds = Vec::new();
        for _ in 0..3 * GROW_AFTER {
            let hold = holding.next(true).unwrap();
            holds.push(hold);
            assert_eq!(holding.after_answer(Some(u32::try_from(hold.as_secs()).unwrap()), hold, false), Duration::ZERO);
        }
        holds.dedup();
        assert_eq!((holds, holding.next(true)), (vec![seconds(20), seconds(40), seconds(50)], Some(seconds(50))));
    }

    #[test]
    fn an_outage_changes_nothing_and_is_no_busy_loop() {
        let mut holding = holding();
        assert_eq!(error_after(&mut holding, seconds(30)), NextHeartbeat::AskAtOnce);
        for took in [Duration::ZERO, seconds(30)] {
            assert_eq!(error_after(&mut holding, took), NextHeartbeat::Pause);
            assert_eq!(holding.next(true), Some(seconds(50)));
            assert_eq!(error_after(&mut holding, Duration::ZERO), NextHeartbeat::Pause, "refused at once");
            assert_eq!(error_after(&mut holding, seconds(30)), NextHeartbeat::AskAtOnce);
        }
    }
}
