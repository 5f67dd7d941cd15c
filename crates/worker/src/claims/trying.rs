//! One try of some claims: the request, who has got a task, who has not, and what is to be done next. A task that a repeated
//! claim gave is confirmed first. When the worker stops, what it got or may have got is given back, so that nobody has to wait
//! for the end of a lease.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{BatchClaimRequest, Claim, ClaimRequest, Error};
use tokio::time::{Instant, sleep, timeout};

use super::{ClaimAttempt, ClaimedTask, Want};
use crate::handler::{StopMode, stop_reached};
use crate::report::{ErrorClass, GIVE_BACK, HEARTBEAT, run_of};
use crate::settings::{Backoff, has_waited, whole_seconds};
use crate::worker::{EndReason, WorkerContext};

/// The wants that a try has left.
pub(super) struct TryResult {
    /// Those without a task. Their attempts are ready for the next claim.
    pub(super) left: Vec<Want>,
    pub(super) next: NextClaim,
}

/// The time at which those that are left may claim again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextClaim {
    /// The server has waited, some have got tasks, or a pause after failures has begun.
    AtOnce,
    /// After a pause, of at least this duration if the server asked for one.
    AfterPause(Duration),
    /// The worker is stopping.
    Never,
}

impl NextClaim {
    /// The pause that the server asked for.
    pub(super) fn asked_pause(self) -> Duration {
        if let Self::AfterPause(pause) = self { pause } else { Duration::ZERO }
    }
}

impl WorkerContext {
    /// Claims once for each of these. Who gets a task is answered.
    pub(super) async fn try_claims(self: &Arc<Self>, mut wants: Vec<Want>, wait: Option<Duration>) -> TryResult {
        let asked = Instant::now();
        let mut stop = self.stop.subscribe();
        let answers = tokio::select! {
            biased;
            _ = stop_reached(&mut stop, StopMode::Finish) => None,
            // What waits for a task would get one in the middle of the pause.
            () = self.slowed_down(), if wait.is_some() => None,
            answers = self.send_claims(&wants, wait) => Some(answers),
        };
        let Some(ClaimAnswers { claims, wait_applied, sent }) = answers else {
            // Of a server that has not said yet what it has, nothing was claimed.
            let may_be_sent = if self.keeps_output.initialized() { wants.as_mut_slice() } else { &mut [] };
            for ClaimAttempt { is_repeated, in_doubt, may_own_task, .. } in
                may_be_sent.iter_mut().map(|want| &mut want.attempt)
            {
                (*is_repeated, *in_doubt, *may_own_task) = (true, true, true);
            }
            return TryResult {
                left: wants,
                next: if self.is_stopping() { NextClaim::Never } else { NextClaim::AtOnce },
            };
        };
        let claim_sent = sent.unwrap_or(asked);
        let is_together = wants.len() > 1;
        let (mut left, mut has_claimed, mut pause) = (Vec::new(), false, None);
        for (mut want, claim) in wants.into_iter().zip(claims) {
            match claim {
                Ok(Some(claim)) => {
                    has_claimed = true;
                    self.reachability.call_succeeded(claim_sent);
                    let has_waited = wait.is_some() || want.attempt.is_repeated;
                    let run_began = if has_waited { Instant::now() } else { claim_sent };
                    self.accept_claim(want, ClaimedTask { claim, claim_sent, run_began });
                }
                Ok(None) => {
                    self.reachability.call_succeeded(claim_sent);
                    if want.believes_none(is_together) {
                        self.renew_attempt(&mut want);
                    } else {
                        want.attempt.is_asked_alone = true;
                    }
                    left.push(want);
                }
                Err(error) => {
                    pause = pause.max(Some(self.claim_failed(&mut want, error, claim_sent, sent.is_some())));
                    left.push(want);
                }
            }
        }
        let has_waited = has_waited(wait_applied, wait, claim_sent.elapsed());
        let next = match pause {
            _ if self.is_stopping() => NextClaim::Never,
            Some(pause) => NextClaim::AfterPause(pause),
            None if has_claimed || has_waited => NextClaim::AtOnce,
            None => NextClaim::AfterPause(Duration::ZERO),
        };
        TryResult { left, next }
    }

    /// A slot has got a task.
    fn accept_claim(self: &Arc<Self>, mut want: Want, claimed: ClaimedTask) {
        want.attempt.in_doubt = false;
        if self.is_stopping() {
            tokio::spawn(Arc::clone(self).give_back(want, claimed.claim));
        } else if want.attempt.is_repeated && self.is_slowed() {
            tokio::spawn(Arc::clone(self).leave_to_others(want, claimed.claim));
        } else if want.attempt.is_repeated {
            tokio::spawn(Arc::clone(self).confirm_claim(want, claimed));
        } else {
            self.answer(want, Some(claimed));
        }
    }

    /// Notes that a claim failed; returns the pause that the server asked for.
    fn claim_failed(&self, want: &mut Want, error: Error, asked: Instant, is_sent: bool) -> Duration {
        if ErrorClass::ends_claiming(&error) {
            self.end(EndReason::Refused(error));
            return Duration::ZERO;
        }
        if ErrorClass::of(&error) == ErrorClass::RunOver {
            // The run id was used by another worker, or its run is over.
            self.renew_attempt(want);
            return Duration::ZERO;
        }
        self.reachability.call_failed(&error, asked);
        let attempt = &mut want.attempt;
        attempt.is_repeated = true;
        if is_sent && !matches!(error, Error::Transport { may_have_arrived: false, .. }) {
            attempt.in_doubt = true;
            attempt.may_own_task |= error.is_outcome_unknown();
            let is_answered = matches!(error, Error::Api { .. });
            attempt.lost_answers = attempt.lost_answers.saturating_add(u32::from(!is_answered));
        }
        asked_pause(&error)
    }

    /// The next claim gets a new run id. Without one the worker ends.
    fn renew_attempt(&self, want: &mut Want) {
        want.attempt.in_doubt = false;
        if let Some(next) = self.new_attempt() {
            want.attempt = next;
        }
    }

    /// Checks with a heartbeat that a task which a repeated claim gave is still ours: its lease may have ended meanwhile.
    async fn confirm_claim(self: Arc<Self>, mut want: Want, mut claimed: ClaimedTask) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let (run, mut stop) = (run_of(&self.settings.queue, &claimed.claim), self.stop.subscribe());
        let mut is_alone = false;
        loop {
            let sent = Instant::now();
            let heartbeat = async {
                match self.say(&run, HEARTBEAT, is_alone).await {
                    Err(error) if ErrorClass::of(&error) != ErrorClass::RunOver => {
                        self.reachability.call_failed(&error, sent);
                        sleep(backoff.next()).await;
                        None
                    }
                    answer => Some(answer),
                }
            };
            tokio::select! {
                biased;
                _ = stop_reached(&mut stop, StopMode::Finish) => return self.give_back(want, claimed.claim).await,
                answer = heartbeat => match answer {
                    None => is_alone = true,
                    Some(Ok(sent)) => {
                        claimed.claim_sent = sent;
                        return self.answer(want, Some(claimed));
                    }
                    Some(Err(_)) => {
                        self.renew_attempt(&mut want);
                        return self.wait_with_others(want);
                    }
                },
            }
        }
    }

    /// Gives a task back that a repeated claim gave in a pause after failures: it may have been taken just then, and would fail, too.
    /// The slot waits for the end of the pause.
    async fn leave_to_others(self: Arc<Self>, mut want: Want, claim: Claim) {
        drop(self.deliver(&run_of(&self.settings.queue, &claim), GIVE_BACK, None).await);
        self.renew_attempt(&mut want);
        self.wait_with_others(want);
    }

    /// Gives a task back that the slot cannot start any more.
    pub(super) async fn give_back(self: Arc<Self>, want: Want, claim: Claim) {
        let run = run_of(&self.settings.queue, &claim);
        drop(timeout(GIVE_BACK_TIMEOUT, self.deliver(&run, GIVE_BACK, None)).await);
        self.answer(want, None);
    }

    /// Claims for all of these, with one request that says who claims. One alone is sent as the contract has it.
    pub(super) async fn send_claims(&self, wants: &[Want], wait: Option<Duration>) -> ClaimAnswers {
        if let Err(error) = self.require_server().await {
            return ClaimAnswers::failed(wants.len(), error);
        }
        let sent = Some(Instant::now());
        let wait = wait.map(whole_seconds).filter(|seconds| *seconds > 0);
        let answers = match wants {
            [want] => self.send_claim(want, wait).await,
            wants => self.send_batch_claim(wants, wait).await,
        };
        ClaimAnswers { sent, ..answers }
    }

    async fn send_claim(&self, want: &Want, wait: Option<u32>) -> ClaimAnswers {
        let (route, worker) = (self.settings.route.clone(), Some(self.identity().in_claims(&want.slot)));
        let request = ClaimRequest { route, run_id: want.attempt.run_id, worker, wait_seconds: wait };
        match self.client.claim(&self.settings.queue, &request).await {
            Ok(answer) => {
                ClaimAnswers { claims: vec![Ok(answer.value)], wait_applied: answer.wait_applied, sent: None }
            }
            Err(error) => ClaimAnswers::failed(1, error),
        }
    }

    async fn send_batch_claim(&self, wants: &[Want], wait: Option<u32>) -> ClaimAnswers {
        let request = BatchClaimRequest {
            route: self.settings.route.clone(),
            run_ids: wants.iter().map(|want| want.attempt.run_id).collect(),
            worker: Some(self.identity().in_shared_claims()),
            workers: wants.iter().map(|want| want.slot.own_members()).collect(),
            wait_seconds: wait,
        };
        let answer = self.client.claim_tasks(&self.settings.queue, &request).await;
        if answer.request_error.as_ref().is_some_and(Error::is_too_large) {
            // A proxy with a small limit for bodies.
            let mut claims = Vec::with_capacity(wants.len());
            for want in wants {
                claims.extend(self.send_claim(want, None).await.claims);
            }
            return ClaimAnswers { claims, wait_applied: None, sent: None };
        }
        ClaimAnswers { claims: answer.items, wait_applied: answer.wait_applied, sent: None }
    }

    /// Answers these slots that there is nothing more for them, after what their claims may have taken was given back. If a claim
    /// took nothing and a task has become pending since, that task is claimed and given back, which does no harm.
    pub(super) async fn release(self: Arc<Self>, wants: Vec<Want>) {
        let (in_doubt, settled): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(|want| want.attempt.in_doubt);
        settled.into_iter().for_each(|want| self.answer(want, None));
        let is_together = in_doubt.iter().all(Want::may_be_sent_together);
        let alone = if in_doubt.len() > 1 && is_together { self.release_claims(in_doubt).await } else { in_doubt };
        // At the same time.
        for want in alone {
            let context = Arc::clone(&self);
            tokio::spawn(async move { drop(context.release_claims(vec![want]).await) });
        }
    }

    /// Repeats these claims once, with one request. Returns those that are to be repeated alone: a batch was answered, and did not
    /// settle them.
    async fn release_claims(self: &Arc<Self>, in_doubt: Vec<Want>) -> Vec<Want> {
        let mut stop = self.stop.subscribe();
        let repeated = tokio::select! {
            biased;
            repeated = timeout(GIVE_BACK_TIMEOUT, self.send_claims(&in_doubt, None)) => repeated.ok(),
            _ = stop_reached(&mut stop, StopMode::Kill) => None,
        };
        let Some(ClaimAnswers { claims, .. }) = repeated else {
            in_doubt.into_iter().for_each(|want| self.answer(want, None));
            return Vec::new();
        };
        let (is_together, mut alone) = (in_doubt.len() > 1, Vec::new());
        for (want, claim) in in_doubt.into_iter().zip(claims) {
            match claim {
                // At the same time, so that they are reported together.
                Ok(Some(claim)) => drop(tokio::spawn(Arc::clone(self).give_back(want, claim))),
                Ok(None) if !want.believes_none(is_together) => alone.push(want),
                Err(error) if is_together && ErrorClass::of(&error) != ErrorClass::RunOver => alone.push(want),
                _ => self.answer(want, None),
            }
        }
        alone
    }
}

/// The pause that the server asked for.
fn asked_pause(error: &Error) -> Duration {
    if let Error::Api { retry_after, .. } = error.origin() { retry_after.unwrap_or_default() } else { Duration::ZERO }
}

/// The answers to the claims of a request.
pub(super) struct ClaimAnswers {
    pub(super) claims: Vec<Result<Option<Claim>, Error>>,
    pub(super) wait_applied: Option<u32>,
    /// The time at which they were sent; `None` if the server had to be asked first what it has, and did not say it.
    pub(super) sent: Option<Instant>,
}

impl ClaimAnswers {
    /// Each of so many claims has failed with this error.
    fn failed(count: usize, error: Error) -> Self {
        Self { claims: vec![Err(error); count], wait_applied: None, sent: None }
    }
}

/// The longest time for the calls that give back the task of an interrupted claim. After that, its lease expires.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(5);
