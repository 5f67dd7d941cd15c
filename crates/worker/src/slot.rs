//! One slot: claims a task, runs it, reports it, and starts again. The lease is renewed while the task runs and is reported. Its
//! observations are sent on every change and every minute; their failure never affects the slot.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Error, Failure, JsonObject, Report, RunEnd, RunKey, RunReport, TaskId, WorkerId, WorkerStatus};
use taskqueue_core::lease::timeout_failure;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::claims::ClaimedTask;
use crate::context::{EndReason, WorkerContext};
use crate::events::{Event, RunOutcome};
use crate::handler::{Handler, HandlerResult, TaskRun};
use crate::identity::SlotIdentity;
use crate::outgoing::{Delivery, ProgressOfRun};
use crate::report::{GIVE_BACK, run_of, trace_of};
use crate::settings::{Backoff, jittered, sleep_until_some};
use crate::stop::{RunControl, StopMode, stop_reached};
use crate::telemetry::processes::RunProcesses;

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
        let processes = self.context.measured_slots.add(&self.identity);
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
        self.context.measured_slots.remove(&self.identity);
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
        let route = context.settings.route.clone();
        let mut report = Report { route, status, task_id, metadata: metadata.clone() };
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
