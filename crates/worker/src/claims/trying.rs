//! One try of some claims: who has got a task, who has not, and what is to be done next. A task that a repeated claim gave is
//! confirmed first.

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Claim, Error};
use tokio::time::{Instant, sleep};

use super::sending::ClaimAnswers;
use super::{ClaimAttempt, ClaimedTask, Want};
use crate::context::{EndReason, WorkerContext};
use crate::error_class::ErrorClass;
use crate::intervals::Backoff;
use crate::report::{FinalReport, RunKey};
use crate::stop::{StopMode, stop_reached};
use crate::waits::has_waited;

/// What is left after a try.
pub(super) struct Tried {
    /// Those without a task. Their attempts are ready for the next claim.
    pub(super) left: Vec<Want>,
    pub(super) next: Next,
}

/// When those that are left may claim again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The server has waited, some have got tasks, or a pause after failures has begun.
    AtOnce,
    /// After a pause, of at least this duration if the server asked for one.
    AfterPause(Duration),
    /// The worker is stopping.
    Never,
}

impl Next {
    /// The pause that the server asked for.
    pub(super) fn asked_pause(self) -> Duration {
        if let Self::AfterPause(pause) = self { pause } else { Duration::ZERO }
    }
}

impl WorkerContext {
    /// Claims once for each of these. Who gets a task is answered.
    pub(super) async fn try_claims(self: &Arc<Self>, mut wants: Vec<Want>, wait: Option<Duration>) -> Tried {
        let claim_sent = Instant::now();
        let mut stop = self.stop.subscribe();
        let answers = tokio::select! {
            biased;
            _ = stop_reached(&mut stop, StopMode::Finish) => None,
            // What waits for a task would get one in the middle of the pause.
            () = self.slowed_down(), if wait.is_some() => None,
            answers = self.send_claims(&wants, wait) => Some(answers),
        };
        let Some(ClaimAnswers { claims, wait_applied }) = answers else {
            for ClaimAttempt { is_repeated, in_doubt, may_own_task, .. } in
                wants.iter_mut().map(|want| &mut want.attempt)
            {
                (*is_repeated, *in_doubt, *may_own_task) = (true, true, true);
            }
            return Tried { left: wants, next: if self.is_stopping() { Next::Never } else { Next::AtOnce } };
        };
        let is_together = wants.len() > 1;
        let (mut left, mut has_claimed, mut pause) = (Vec::new(), false, None);
        for (mut want, claim) in wants.into_iter().zip(claims) {
            match claim {
                Ok(Some(claim)) => {
                    has_claimed = true;
                    self.reachability.call_succeeded(claim_sent);
                    let has_waited = wait.is_some() || want.attempt.is_repeated;
                    let run_began = if has_waited { Instant::now() } else { claim_sent };
                    self.claimed(want, ClaimedTask { claim, claim_sent, run_began });
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
                    pause = pause.max(Some(self.claim_failed(&mut want, error, claim_sent)));
                    left.push(want);
                }
            }
        }
        let has_waited = has_waited(wait_applied, wait, claim_sent.elapsed());
        let next = match pause {
            _ if self.is_stopping() => Next::Never,
            Some(pause) => Next::AfterPause(pause),
            None if has_claimed || has_waited => Next::AtOnce,
            None => Next::AfterPause(Duration::ZERO),
        };
        Tried { left, next }
    }

    /// A slot has got a task.
    fn claimed(self: &Arc<Self>, mut want: Want, claimed: ClaimedTask) {
        want.attempt.in_doubt = false;
        if self.is_stopping() {
            tokio::spawn(Arc::clone(self).give_back(want, claimed.claim));
        } else if want.attempt.is_repeated && self.is_slowed() {
            tokio::spawn(Arc::clone(self).leave_to_others(want, claimed.claim));
        } else if want.attempt.is_repeated {
            tokio::spawn(Arc::clone(self).confirm(want, claimed));
        } else {
            self.answer(want, Some(claimed));
        }
    }

    /// Notes that a claim failed; returns the pause that the server asked for.
    fn claim_failed(&self, want: &mut Want, error: Error, sent: Instant) -> Duration {
        if ErrorClass::ends_claiming(&error) {
            self.end(EndReason::Refused(error));
            return Duration::ZERO;
        }
        if ErrorClass::of(&error) == ErrorClass::RunOver {
            // The run id was used by another worker, or its run is over.
            self.renew_attempt(want);
            return Duration::ZERO;
        }
        self.reachability.call_failed(&error, sent);
        let attempt = &mut want.attempt;
        attempt.is_repeated = true;
        if !matches!(error, Error::Transport { may_have_arrived: false, .. }) {
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
    async fn confirm(self: Arc<Self>, mut want: Want, mut claimed: ClaimedTask) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let (run, mut stop) = (RunKey::new(&self.settings.queue, &claimed.claim), self.stop.subscribe());
        let mut is_alone = false;
        loop {
            let sent = Instant::now();
            let heartbeat = async {
                match self.heartbeat(&run, is_alone).await {
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
        let run = RunKey::new(&self.settings.queue, &claim);
        drop(self.deliver(&run, FinalReport::Unclaim, None).await);
        self.renew_attempt(&mut want);
        self.wait_with_others(want);
    }

    /// Gives a task back that the slot cannot start any more.
    pub(super) async fn give_back(self: Arc<Self>, want: Want, claim: Claim) {
        self.unclaim(&claim).await;
        self.answer(want, None);
    }
}

/// The pause that the server asked for.
fn asked_pause(error: &Error) -> Duration {
    match error {
        Error::Api { retry_after, .. } => retry_after.unwrap_or_default(),
        Error::OutcomeUnknown { cause, .. } => asked_pause(cause),
        _ => Duration::ZERO,
    }
}
