//! Getting the next task. Slots ask at the same time while there is plenty; when there is nothing, one of them waits for all.
//! A claim whose answer got lost is repeated with its run id, and what it gives is confirmed before anything runs.

use std::time::Duration;

use taskqueue_client::{Claim, ClaimAnswer, ClaimRequest, Error, RunId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::context::{End, WorkerContext};
use crate::error_class::ErrorClass;
use crate::ids;
use crate::intervals::Backoff;
use crate::report::{Report, RunOf};
use crate::stop::{Stop, reached};

/// How long a claim that was broken off is asked after. If the server does not answer by then, the lease ends by itself.
const SETTLE: Duration = Duration::from_secs(5);

/// A task of ours.
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    /// The moment before the claim was sent, from which the lease is counted.
    pub(crate) since: Instant,
}

/// One run id and what is known of it.
struct Attempt {
    run_id: RunId,
    /// Whether a claim failed, so that what the next one gives is to be confirmed.
    is_repeated: bool,
    /// Whether an answer got lost, so that a task may be ours without our knowing.
    in_doubt: bool,
}

enum Asked {
    Got(Box<Claimed>),
    /// Nothing is pending, and whether the server waited to find that out.
    Nothing {
        waited: bool,
    },
    /// No usable answer; whether and how long the server wants to be left alone.
    Failed {
        asked_pause: Duration,
    },
    /// The worker is to stop.
    Stopped,
}

impl WorkerContext {
    /// The next task, with which the slot is occupied; nothing when the worker is to claim no more.
    pub(crate) async fn next_claim(&self) -> Option<Claimed> {
        if self.is_stopping() || !self.may_begin() {
            return None;
        }
        let mut attempt = self.fresh()?;
        self.occupy();
        if let Asked::Got(claimed) = self.ask(&mut attempt, None).await {
            return Some(*claimed);
        }
        self.vacate();
        let claimed = self.wait_for_claim(&mut attempt).await;
        if claimed.is_none() && attempt.in_doubt {
            self.settle(&attempt).await;
        }
        claimed
    }

    /// Asks again and again, leaving the waiting to the server where it offers that. Only one slot at a time has its turn to
    /// wait; one that may have a task without knowing does not let that lie until then.
    async fn wait_for_claim(&self, attempt: &mut Attempt) -> Option<Claimed> {
        let (mut backoff, mut stop) = (Backoff::new(self.settings.pace.pauses), self.stop.subscribe());
        let mut turn = None;
        loop {
            if turn.is_none() && !attempt.in_doubt {
                turn = tokio::select! {
                    biased;
                    _ = reached(&mut stop, Stop::Finish) => return None,
                    turn = self.turn.lock() => Some(turn),
                };
            }
            let left = self.idle_left();
            if left == Some(Duration::ZERO) {
                self.end(if self.contact.is_lost() { End::OutOfContact } else { End::Idle });
                return None;
            }
            let wait = left.unwrap_or(Duration::MAX).min(self.settings.pace.wait);
            let least = match self.ask(attempt, turn.is_some().then_some(wait)).await {
                Asked::Got(claimed) => {
                    self.occupy();
                    return Some(*claimed);
                }
                Asked::Stopped => return None,
                Asked::Nothing { waited: true } => {
                    backoff.reset();
                    continue;
                }
                Asked::Nothing { .. } if turn.is_none() => continue,
                Asked::Nothing { waited: false } => Duration::ZERO,
                Asked::Failed { asked_pause } => asked_pause,
            };
            let pause = backoff.next().max(least).min(self.idle_left().unwrap_or(Duration::MAX));
            tokio::select! {
                biased;
                _ = reached(&mut stop, Stop::Finish) => return None,
                () = sleep(pause) => {}
            }
        }
    }

    /// One claim, with its confirmation where that is needed. Afterwards the attempt is good for the next one.
    async fn ask(&self, attempt: &mut Attempt, wait: Option<Duration>) -> Asked {
        let since = Instant::now();
        let mut stop = self.stop.subscribe();
        let answer = tokio::select! {
            biased;
            _ = reached(&mut stop, Stop::Finish) => {
                attempt.in_doubt = true;
                return Asked::Stopped;
            }
            answer = self.claim(attempt.run_id, wait) => answer,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.failed(attempt, error),
        };
        self.contact.made(&*self.listener);
        attempt.in_doubt = false;
        let Some(claim) = answer.claim else {
            *attempt = match self.fresh() {
                Some(fresh) => fresh,
                None => return Asked::Stopped,
            };
            return Asked::Nothing { waited: has_waited(answer.wait_applied, wait, since.elapsed()) };
        };
        let claimed = Claimed { claim, since };
        if self.is_stopping() {
            self.give_back(&claimed.claim).await;
            return Asked::Stopped;
        }
        if attempt.is_repeated {
            self.confirm(attempt, claimed, &mut stop).await
        } else {
            Asked::Got(Box::new(claimed))
        }
    }

    async fn claim(&self, run_id: RunId, wait: Option<Duration>) -> Result<ClaimAnswer, Error> {
        let request = ClaimRequest::new(self.settings.route.clone(), run_id);
        let request = match wait.map(whole_seconds).filter(|seconds| *seconds > 0) {
            Some(seconds) => request.waiting(seconds),
            None => request,
        };
        self.client.claim(&self.settings.queue, &request).await
    }

    fn failed(&self, attempt: &mut Attempt, error: Error) -> Asked {
        if ErrorClass::ends_claiming(&error) {
            self.end(End::Refused(error));
            return Asked::Stopped;
        }
        if ErrorClass::of(&error) == ErrorClass::Revoked {
            return self.with_another_run(attempt);
        }
        self.contact.lost(&*self.listener, &error);
        attempt.is_repeated = true;
        attempt.in_doubt |= !matches!(error, Error::Transport { may_have_arrived: false, .. });
        Asked::Failed { asked_pause: asked_pause(&error) }
    }

    /// Somebody else has used this run id, or the run that it began is over: the next claim has another one.
    fn with_another_run(&self, attempt: &mut Attempt) -> Asked {
        let Some(fresh) = self.fresh() else { return Asked::Stopped };
        *attempt = fresh;
        Asked::Failed { asked_pause: Duration::ZERO }
    }

    /// Makes sure that a run which a repeated claim gave is still ours: its lease may have ended while we asked.
    async fn confirm(&self, attempt: &mut Attempt, mut claimed: Claimed, stop: &mut watch::Receiver<Stop>) -> Asked {
        let mut backoff = Backoff::new(self.settings.pace.pauses);
        loop {
            let asking = async {
                let since = Instant::now();
                match self.client.heartbeat(&self.settings.queue, claimed.claim.task.id, claimed.claim.run_id).await {
                    Err(error) if ErrorClass::of(&error) != ErrorClass::Revoked => {
                        self.contact.lost(&*self.listener, &error);
                        sleep(backoff.next()).await;
                        None
                    }
                    answer => Some(answer.map(|_| since)),
                }
            };
            tokio::select! {
                biased;
                _ = reached(stop, Stop::Finish) => {
                    self.give_back(&claimed.claim).await;
                    return Asked::Stopped;
                }
                answer = asking => match answer {
                    None => {}
                    Some(Ok(since)) => {
                        claimed.since = since;
                        return Asked::Got(Box::new(claimed));
                    }
                    Some(Err(_)) => return self.with_another_run(attempt),
                },
            }
        }
    }

    /// A claim was broken off at an unknown moment: if it took a task, that goes back now and not when its lease ends. If
    /// nothing was taken and a task has become pending just now, that one is taken and given back, which does no harm.
    async fn settle(&self, attempt: &Attempt) {
        let mut stop = self.stop.subscribe();
        let again = tokio::select! {
            biased;
            again = timeout(SETTLE, self.claim(attempt.run_id, None)) => again,
            _ = reached(&mut stop, Stop::Kill) => return,
        };
        if let Ok(Ok(ClaimAnswer { claim: Some(claim), .. })) = again {
            self.give_back(&claim).await;
        }
    }

    async fn give_back(&self, claim: &Claim) {
        let run = RunOf { queue: self.settings.queue.clone(), task_id: claim.task.id, run_id: claim.run_id };
        let mut stop = self.stop.subscribe();
        drop(timeout(SETTLE, self.reporter().deliver(&run, Report::Unclaim, &mut stop)).await);
    }

    fn fresh(&self) -> Option<Attempt> {
        match ids::run_id() {
            Ok(run_id) => Some(Attempt { run_id, is_repeated: false, in_doubt: false }),
            Err(error) => {
                self.end(End::Broken(error.to_string()));
                None
            }
        }
    }
}

/// The seconds to ask for: at least as long as wanted, so that the last wait ends with the idle time.
fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Whether the server has waited as it said. One that says so and answers at once is about to stop, or lies; asking it again
/// at once would keep both busy.
fn has_waited(applied: Option<u32>, wanted: Option<Duration>, took: Duration) -> bool {
    let applied = applied.map(|seconds| Duration::from_secs(seconds.into()));
    applied.zip(wanted).is_some_and(|(applied, wanted)| took >= applied.min(wanted) / 2)
}

fn asked_pause(error: &Error) -> Duration {
    if let Error::Api { retry_after, .. } = error { retry_after.unwrap_or_default() } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_only_if_it_took_its_time() {
        let seconds = Duration::from_secs;
        for (applied, wanted, took, expected) in [
            (Some(50), Some(seconds(50)), seconds(50), true),
            (Some(10), Some(seconds(50)), seconds(10), true),
            (Some(50), Some(seconds(50)), seconds(1), false),
            (None, Some(seconds(50)), seconds(50), false),
            (Some(50), None, seconds(50), false),
        ] {
            assert_eq!(has_waited(applied, wanted, took), expected, "{applied:?} {wanted:?} {took:?}");
        }
    }

    #[test]
    fn waits_are_rounded_up() {
        let asked = [0, 1, 999, 1000, 1001].map(|millis| whole_seconds(Duration::from_millis(millis)));
        assert_eq!(asked, [0, 1, 1, 1, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u32::MAX);
    }
}
