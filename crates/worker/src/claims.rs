//! Claims tasks for the slots. Slots that become free together claim with one request; when no task is pending, one request waits
//! for all of them. A claim whose answer was lost is repeated with its run id, and a task that it gives is confirmed before it runs.
//!
//! A slot hands in a [`Want`] and gets exactly one answer. `trying.rs` sends claims, reads their answers and settles
//! what is in doubt when the worker stops; here is when they are sent: at once when a slot becomes free; then one request waits for
//! all idle slots, by itself or, where the server does not wait (it is stopping, or holds too many), after pauses. Claims in doubt
//! are repeated besides, so that a task that this worker owns does not wait for another one.

mod trying;

use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{Claim, RunId};
use taskqueue_core::limits::BATCH_ITEMS;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use self::trying::{NextClaim, TryResult};
use crate::handler::{StopMode, stop_reached};
use crate::report::Collected;
use crate::settings::Backoff;
use crate::worker::{EndReason, SlotIdentity, WorkerContext, new_run_id};

/// The number of times that the answer to a claim may be lost before it is repeated alone.
const LOST_TOGETHER: u32 = 2;

pub(crate) struct ClaimedTask {
    pub(crate) claim: Claim,
    /// The moment before the claim was sent. The lease cannot have started earlier.
    pub(crate) claim_sent: Instant,
    /// Since when the run counts for its time limit. The moment before the claim was sent, except if the claim may have waited for
    /// its task, or is repeated: then the run would lose time that it did not have.
    pub(crate) run_began: Instant,
}

/// A run id and the state of its claim.
struct ClaimAttempt {
    run_id: RunId,
    /// A claim with this run id failed, so a task that the next one gives has to be confirmed.
    is_repeated: bool,
    /// An answer was lost, so this worker may own a task without knowing it.
    in_doubt: bool,
    /// An answer was lost, and not because the server was busy, which would say that nothing was done.
    may_own_task: bool,
    /// A batch said that there is no task for a run that may own one.
    is_asked_alone: bool,
    /// The number of lost answers.
    lost_answers: u32,
}

impl ClaimAttempt {
    fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            is_repeated: false,
            in_doubt: false,
            may_own_task: false,
            is_asked_alone: false,
            lost_answers: 0,
        }
    }
}

/// A slot that wants a task.
pub(crate) struct Want {
    slot: SlotIdentity,
    attempt: ClaimAttempt,
    /// The slot counts as busy: it will know at once whether there is a task.
    is_busy: bool,
    answer: oneshot::Sender<Option<ClaimedTask>>,
}

impl Want {
    /// A claim whose answer was lost too often is repeated alone: the answer to all of them together may be too much for the network.
    fn may_be_sent_together(&self) -> bool {
        self.attempt.lost_answers < LOST_TOGETHER && !self.attempt.is_asked_alone
    }

    /// Returns whether the answer that there is no task counts. From a batch it may mean that the task did not fit into the answer, and a run
    /// id that owns a task must not be forgotten.
    fn believes_none(&self, is_together: bool) -> bool {
        !(is_together && self.attempt.may_own_task)
    }
}

impl WorkerContext {
    /// The next task, with the slot marked as busy; `None` when the worker is to claim no more.
    pub(crate) async fn next_claim(self: &Arc<Self>, slot: SlotIdentity) -> Option<ClaimedTask> {
        if self.is_stopping() || !self.reserve_task() {
            return None;
        }
        self.wait_while_slowed().await;
        // The reservation stays, because a worker that stops reserves nothing more.
        if self.is_stopping() {
            return None;
        }
        let (attempt, (answer, claimed)) = (self.new_attempt()?, oneshot::channel());
        self.mark_busy();
        let want = Want { slot, attempt, is_busy: true, answer };
        if self.settings.slots.len() > 1 {
            self.fresh_wants.push(want);
        } else {
            self.first_claim(vec![want]).await;
        }
        claimed.await.unwrap_or_else(|_| {
            self.end(EndReason::InternalError("a claim was dropped".to_owned()));
            None
        })
    }

    /// Waits for the end of a pause after failures in a row: its time, a success of another slot, or a stop.
    async fn wait_while_slowed(&self) {
        let (mut slowed, mut stop) = (self.slowed_until.subscribe(), self.stop.subscribe());
        loop {
            let until = *slowed.borrow_and_update();
            let Some(end) = until.filter(|end| Instant::now() < *end) else { return };
            tokio::select! {
                biased;
                _ = stop_reached(&mut stop, StopMode::Finish) => return,
                _ = slowed.changed() => {}
                () = sleep_until(end) => {}
            }
        }
    }

    /// Returns whether there is a pause after failures in a row.
    fn is_slowed(&self) -> bool {
        self.slowed_until.borrow().is_some_and(|end| Instant::now() < end)
    }

    /// Done as soon as there is a pause after failures in a row.
    async fn slowed_down(&self) {
        let mut slowed = self.slowed_until.subscribe();
        drop(slowed.wait_for(|until| until.is_some_and(|end| Instant::now() < end)).await);
    }

    /// Serves the slots until it is dropped.
    pub(crate) async fn serve_claims(self: Arc<Self>, fresh: Collected<Want>, idle: mpsc::UnboundedReceiver<Want>) {
        let context = Arc::clone(&self);
        tokio::join!(
            fresh.send_all(move |wants| {
                let context = Arc::clone(&context);
                async move { context.first_claim(wants).await }
            }),
            self.wait_for_tasks(idle)
        );
    }

    fn new_attempt(&self) -> Option<ClaimAttempt> {
        new_run_id().map(ClaimAttempt::new).map_err(|error| self.end(EndReason::InternalError(error))).ok()
    }

    fn answer(&self, mut want: Want, claimed: Option<ClaimedTask>) {
        if claimed.is_none() {
            self.mark_want_idle(&mut want);
        } else if !std::mem::replace(&mut want.is_busy, true) {
            self.mark_busy();
        }
        // The slot waits for it as long as the worker lives.
        drop(want.answer.send(claimed));
    }

    fn mark_want_idle(&self, want: &mut Want) {
        if std::mem::replace(&mut want.is_busy, false) {
            self.mark_idle();
        }
    }

    /// The first try for slots that have just become free. It ends when they are answered; what is left of them is looked after
    /// by others.
    async fn first_claim(self: &Arc<Self>, mut wants: Vec<Want>) {
        while wants.len() > BATCH_ITEMS {
            let more = wants.split_off(BATCH_ITEMS);
            tokio::spawn(Arc::clone(self).first_try(std::mem::replace(&mut wants, more)));
        }
        Arc::clone(self).first_try(wants).await;
    }

    async fn first_try(self: Arc<Self>, wants: Vec<Want>) {
        let TryResult { left, next } = self.try_claims(wants, None).await;
        let mut in_doubt = Vec::new();
        for mut want in left {
            self.mark_want_idle(&mut want);
            if want.attempt.in_doubt { in_doubt.push(want) } else { self.wait_with_others(want) }
        }
        if !in_doubt.is_empty() {
            tokio::spawn(self.settle(in_doubt, next.asked_pause()));
        }
    }

    /// The slot waits until a task is pending.
    fn wait_with_others(&self, mut want: Want) {
        self.mark_want_idle(&mut want);
        // If nobody waits any more, the want is dropped, and its slot hears that.
        drop(self.idle_wants.send(want));
    }

    /// Waits for all idle slots with one request at a time: for as many of them as the server takes with one.
    async fn wait_for_tasks(self: Arc<Self>, mut idle: mpsc::UnboundedReceiver<Want>) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let mut wants: Vec<Want> = Vec::new();
        loop {
            if wants.is_empty() {
                let Some(want) = idle.recv().await else { return };
                wants.push(want);
            }
            if self.is_slowed() {
                wants = self.without_owners(wants);
                self.wait_while_slowed().await;
            }
            wants.extend(std::iter::from_fn(|| idle.try_recv().ok()));
            if wants.is_empty() {
                continue;
            }
            let Some(wait) = self.next_wait() else {
                tokio::spawn(Arc::clone(&self).release(std::mem::take(&mut wants)));
                continue;
            };
            let others = wants.split_off(wants.len().min(BATCH_ITEMS));
            let TryResult { left, next } = self.try_claims(wants, Some(wait)).await;
            wants = self.without_lost(left, next.asked_pause());
            wants.extend(others);
            self.pause_before(next, &mut backoff).await;
        }
    }

    /// Leaves those to themselves that are not to be sent together any more.
    fn without_lost(self: &Arc<Self>, wants: Vec<Want>, pause: Duration) -> Vec<Want> {
        let is_lost = |want: &Want| self.settings.slots.len() > 1 && !want.may_be_sent_together();
        let (lost, rest): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(is_lost);
        for want in lost {
            tokio::spawn(Arc::clone(self).settle(vec![want], pause));
        }
        rest
    }

    /// Leaves those to themselves that may own a task: its lease would end during a pause after failures.
    fn without_owners(self: &Arc<Self>, wants: Vec<Want>) -> Vec<Want> {
        let (owners, rest): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(|want| want.attempt.may_own_task);
        if !owners.is_empty() {
            tokio::spawn(Arc::clone(self).settle(owners, Duration::ZERO));
        }
        rest
    }

    /// Repeats claims in doubt until it is known what became of them: at once, unless the server asked for a pause. One after
    /// failures does not hold them, because this worker may own their tasks.
    async fn settle(self: Arc<Self>, mut wants: Vec<Want>, pause: Duration) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        if pause > Duration::ZERO {
            self.pause_before(NextClaim::AfterPause(pause), &mut backoff).await;
        }
        while !wants.is_empty() {
            if self.next_wait().is_none() {
                return self.release(wants).await;
            }
            if wants.len() > 1 {
                let (together, alone): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(Want::may_be_sent_together);
                for want in alone {
                    tokio::spawn(settle_alone(Arc::clone(&self), want));
                }
                wants = together;
                if wants.is_empty() {
                    return;
                }
            }
            let TryResult { left, next } = self.try_claims(wants, None).await;
            let (in_doubt, settled): (Vec<Want>, Vec<Want>) = left.into_iter().partition(|want| want.attempt.in_doubt);
            settled.into_iter().for_each(|want| self.wait_with_others(want));
            wants = in_doubt;
            if !wants.is_empty() {
                self.pause_before(next, &mut backoff).await;
            }
        }
    }

    /// Returns the time that the server may wait for a task; `None` when the worker is to claim no more.
    fn next_wait(&self) -> Option<Duration> {
        if self.is_stopping() {
            return None;
        }
        let idle_left = self.idle_left();
        if idle_left == Some(Duration::ZERO) {
            self.end(if self.reachability.is_lost() { EndReason::ServerUnreachable } else { EndReason::Idle });
            return None;
        }
        Some(idle_left.unwrap_or(Duration::MAX).min(self.settings.intervals.wait))
    }

    async fn pause_before(&self, next: NextClaim, backoff: &mut Backoff) {
        let least = match next {
            NextClaim::AtOnce => return backoff.reset(),
            NextClaim::Never => return,
            NextClaim::AfterPause(least) => least,
        };
        self.pause(backoff.next().max(least).min(self.idle_left().unwrap_or(Duration::MAX))).await;
    }
}

/// Boxed, because it is a future inside of itself.
fn settle_alone(context: Arc<WorkerContext>, want: Want) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(context.settle(vec![want], Duration::ZERO))
}
