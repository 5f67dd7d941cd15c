//! Claims the next task. Slots claim at the same time while tasks are pending; when none is, one slot waits for all of them.
//! A claim whose answer was lost is repeated with its run id, and a task that it gives is confirmed before it runs.

use std::time::Duration;

use taskqueue_client::{Claim, ClaimAnswer, ClaimRequest, Error, RunId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::context::{EndReason, WorkerContext};
use crate::error_class::ErrorClass;
use crate::identity::SlotIdentity;
use crate::ids;
use crate::intervals::Backoff;
use crate::report::{FinalReport, RunKey};
use crate::stop::{StopMode, stop_reached};
use crate::waits::{has_waited, whole_seconds};

/// How long the calls may take that give back the task of an interrupted claim. After that, its lease expires.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct ClaimedTask {
    pub(crate) claim: Claim,
    /// The moment before the claim was sent. The lease cannot have started earlier.
    pub(crate) claim_sent: Instant,
}

/// A run id and the state of its claim.
struct ClaimAttempt {
    run_id: RunId,
    /// A claim with this run id failed, so a task that the next one gives has to be confirmed.
    is_repeated: bool,
    /// An answer was lost, so this worker may own a task without knowing it.
    in_doubt: bool,
}

enum ClaimResult {
    Claimed(Box<ClaimedTask>),
    /// No task is pending. `waited`: the server has waited for one.
    Empty {
        waited: bool,
    },
    /// No usable answer. `retry_after` is zero unless the server asked for a pause.
    Failed {
        retry_after: Duration,
    },
    /// The worker is stopping.
    Stopped,
}

impl WorkerContext {
    /// The next task, with the slot marked as busy; `None` when the worker is to claim no more.
    pub(crate) async fn next_claim(&self, slot: &SlotIdentity) -> Option<ClaimedTask> {
        if self.is_stopping() || !self.reserve_task() {
            return None;
        }
        let mut attempt = self.new_attempt()?;
        self.mark_busy();
        if let ClaimResult::Claimed(claimed) = self.try_claim(slot, &mut attempt, None).await {
            return Some(*claimed);
        }
        self.mark_idle();
        let claimed = self.wait_for_claim(slot, &mut attempt).await;
        if claimed.is_none() && attempt.in_doubt {
            self.give_back_if_claimed(slot, &attempt).await;
        }
        claimed
    }

    /// Claims until there is a task. The server does the waiting where it supports that. Only the slot that holds the lock waits;
    /// a slot whose claim is in doubt does not wait for the lock.
    async fn wait_for_claim(&self, slot: &SlotIdentity, attempt: &mut ClaimAttempt) -> Option<ClaimedTask> {
        let (mut backoff, mut stop) = (Backoff::new(self.settings.intervals.backoff), self.stop.subscribe());
        let mut lock = None;
        loop {
            if lock.is_none() && !attempt.in_doubt {
                lock = tokio::select! {
                    biased;
                    _ = stop_reached(&mut stop, StopMode::Finish) => return None,
                    lock = self.wait_lock.lock() => Some(lock),
                };
            }
            let idle_left = self.idle_left();
            if idle_left == Some(Duration::ZERO) {
                let is_lost = self.reachability.is_lost();
                self.end(if is_lost { EndReason::ServerUnreachable } else { EndReason::Idle });
                return None;
            }
            let wait = idle_left.unwrap_or(Duration::MAX).min(self.settings.intervals.wait);
            let retry_after = match self.try_claim(slot, attempt, lock.is_some().then_some(wait)).await {
                ClaimResult::Claimed(claimed) => {
                    self.mark_busy();
                    return Some(*claimed);
                }
                ClaimResult::Stopped => return None,
                ClaimResult::Empty { waited: true } => {
                    backoff.reset();
                    continue;
                }
                ClaimResult::Empty { .. } if lock.is_none() => continue,
                ClaimResult::Empty { waited: false } => Duration::ZERO,
                ClaimResult::Failed { retry_after } => retry_after,
            };
            let pause = backoff.next().max(retry_after).min(self.idle_left().unwrap_or(Duration::MAX));
            tokio::select! {
                biased;
                _ = stop_reached(&mut stop, StopMode::Finish) => return None,
                () = sleep(pause) => {}
            }
        }
    }

    /// Sends one claim, and confirms its task where needed. Afterwards the attempt is ready for the next claim.
    async fn try_claim(&self, slot: &SlotIdentity, attempt: &mut ClaimAttempt, wait: Option<Duration>) -> ClaimResult {
        let claim_sent = Instant::now();
        let mut stop = self.stop.subscribe();
        let answer = tokio::select! {
            biased;
            _ = stop_reached(&mut stop, StopMode::Finish) => {
                attempt.in_doubt = true;
                return ClaimResult::Stopped;
            }
            answer = self.send_claim(slot, attempt.run_id, wait) => answer,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.claim_failed(attempt, error),
        };
        self.reachability.call_succeeded();
        attempt.in_doubt = false;
        let Some(claim) = answer.claim else {
            let Some(next) = self.new_attempt() else { return ClaimResult::Stopped };
            *attempt = next;
            return ClaimResult::Empty { waited: has_waited(answer.wait_applied, wait, claim_sent.elapsed()) };
        };
        let claimed = ClaimedTask { claim, claim_sent };
        if self.is_stopping() {
            self.give_back(&claimed.claim).await;
            return ClaimResult::Stopped;
        }
        if attempt.is_repeated {
            self.confirm(attempt, claimed, &mut stop).await
        } else {
            ClaimResult::Claimed(Box::new(claimed))
        }
    }

    /// Sends a claim that says who claims, if the server takes that.
    async fn send_claim(
        &self,
        slot: &SlotIdentity,
        run_id: RunId,
        wait: Option<Duration>,
    ) -> Result<ClaimAnswer, Error> {
        let request = ClaimRequest::new(self.settings.route.clone(), run_id);
        let request = match wait.map(whole_seconds).filter(|seconds| *seconds > 0) {
            Some(seconds) => request.waiting(seconds),
            None => request,
        };
        if !self.has_run_info().await {
            return self.client.claim(&self.settings.queue, &request).await;
        }
        let signed = request.clone().by_worker(slot.in_claims(self.run_dir()));
        match self.client.claim(&self.settings.queue, &signed).await {
            // Nothing was done. Another server than the one that was asked, or an older one in its place.
            Err(Error::Api { status: 422, .. }) => {
                self.features.has_no_run_info();
                self.client.claim(&self.settings.queue, &request).await
            }
            answer => answer,
        }
    }

    fn claim_failed(&self, attempt: &mut ClaimAttempt, error: Error) -> ClaimResult {
        if ErrorClass::ends_claiming(&error) {
            self.end(EndReason::Refused(error));
            return ClaimResult::Stopped;
        }
        if ErrorClass::of(&error) == ErrorClass::RunOver {
            return self.with_new_run_id(attempt);
        }
        self.reachability.call_failed(&error);
        // It may come back as another version.
        self.features.forget();
        attempt.is_repeated = true;
        attempt.in_doubt |= !matches!(error, Error::Transport { may_have_arrived: false, .. });
        ClaimResult::Failed { retry_after: retry_after(&error) }
    }

    /// The run id was used by another worker, or its run is over: the next claim gets a new one.
    fn with_new_run_id(&self, attempt: &mut ClaimAttempt) -> ClaimResult {
        let Some(next) = self.new_attempt() else { return ClaimResult::Stopped };
        *attempt = next;
        ClaimResult::Failed { retry_after: Duration::ZERO }
    }

    /// Checks with a heartbeat that a task which a repeated claim gave is still ours: its lease may have ended meanwhile.
    async fn confirm(
        &self,
        attempt: &mut ClaimAttempt,
        mut claimed: ClaimedTask,
        stop: &mut watch::Receiver<StopMode>,
    ) -> ClaimResult {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let run = RunKey::new(&self.settings.queue, &claimed.claim);
        loop {
            let heartbeat = async {
                let sent = Instant::now();
                match self.client.heartbeat(&run.queue, run.task_id, run.run_id).await {
                    Err(error) if ErrorClass::of(&error) != ErrorClass::RunOver => {
                        self.reachability.call_failed(&error);
                        sleep(backoff.next()).await;
                        None
                    }
                    answer => Some(answer.map(|_| sent)),
                }
            };
            tokio::select! {
                biased;
                _ = stop_reached(stop, StopMode::Finish) => {
                    self.give_back(&claimed.claim).await;
                    return ClaimResult::Stopped;
                }
                answer = heartbeat => match answer {
                    None => {}
                    Some(Ok(sent)) => {
                        claimed.claim_sent = sent;
                        return ClaimResult::Claimed(Box::new(claimed));
                    }
                    Some(Err(_)) => return self.with_new_run_id(attempt),
                },
            }
        }
    }

    /// A claim was interrupted. If it took a task, the task is given back now and not when its lease ends. If it took none and a
    /// task has become pending since, that task is claimed and given back, which does no harm.
    async fn give_back_if_claimed(&self, slot: &SlotIdentity, attempt: &ClaimAttempt) {
        let mut stop = self.stop.subscribe();
        let repeated = tokio::select! {
            biased;
            repeated = timeout(GIVE_BACK_TIMEOUT, self.send_claim(slot, attempt.run_id, None)) => repeated,
            _ = stop_reached(&mut stop, StopMode::Kill) => return,
        };
        if let Ok(Ok(ClaimAnswer { claim: Some(claim), .. })) = repeated {
            self.give_back(&claim).await;
        }
    }

    async fn give_back(&self, claim: &Claim) {
        let run = RunKey::new(&self.settings.queue, claim);
        drop(timeout(GIVE_BACK_TIMEOUT, self.deliver(&run, FinalReport::Unclaim)).await);
    }

    fn new_attempt(&self) -> Option<ClaimAttempt> {
        match ids::run_id() {
            Ok(run_id) => Some(ClaimAttempt { run_id, is_repeated: false, in_doubt: false }),
            Err(error) => {
                self.end(EndReason::InternalError(error.to_string()));
                None
            }
        }
    }
}

fn retry_after(error: &Error) -> Duration {
    if let Error::Api { retry_after, .. } = error { retry_after.unwrap_or_default() } else { Duration::ZERO }
}
