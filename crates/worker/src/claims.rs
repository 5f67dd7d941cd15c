//! Claims tasks for the slots. Slots that become free together claim with one request; when no task is pending, one request waits
//! for all of them. A claim whose answer was lost is repeated with its run id, and a task that it gives is confirmed before it runs.
//!
//! A slot hands in a [`Want`] and gets exactly one answer. `trying.rs` sends claims and reads their answers, `waiting.rs` decides when
//! the next one is sent, `giving_back.rs` settles what is in doubt when the worker stops.

mod giving_back;
mod sending;
mod trying;
mod waiting;

use std::sync::Arc;

use taskqueue_client::{Claim, RunId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::collector::{Collected, Collector, collector};
use crate::context::{EndReason, WorkerContext};
use crate::identity::SlotIdentity;
use crate::ids;
use crate::stop::{StopMode, stop_reached};

/// How often the answer to a claim may be lost before it is repeated alone.
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
    /// The same, without those that were refused as busy, which says that nothing was done.
    may_own_task: bool,
    /// A batch said that there is no task for a run that may own one.
    is_asked_alone: bool,
    /// How many answers were lost.
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
    /// Whether the slot counts as busy: it will know at once whether there is a task.
    is_busy: bool,
    answer: oneshot::Sender<Option<ClaimedTask>>,
}

impl Want {
    /// A claim whose answer was lost too often is repeated alone: the answer to all of them together may be too much for the network.
    fn may_be_sent_together(&self) -> bool {
        self.attempt.lost_answers < LOST_TOGETHER && !self.attempt.is_asked_alone
    }

    /// Whether the answer that there is no task counts. From a batch it may mean that the task did not fit into the answer, and a run
    /// id that owns a task must not be forgotten.
    fn believes_none(&self, is_together: bool) -> bool {
        !(is_together && self.attempt.may_own_task)
    }
}

/// Where wants are: those that were not tried yet, and those that wait for a task to become pending.
pub(crate) struct Claims {
    fresh: Collector<Want>,
    idle: mpsc::UnboundedSender<Want>,
}

/// The other ends.
pub(crate) struct ClaimQueues {
    fresh: Collected<Want>,
    idle: mpsc::UnboundedReceiver<Want>,
}

impl Claims {
    pub(crate) fn new() -> (Self, ClaimQueues) {
        let ((fresh, collected), (idle, waiting)) = (collector(), mpsc::unbounded_channel());
        (Self { fresh, idle }, ClaimQueues { fresh: collected, idle: waiting })
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
            self.claims.fresh.push(want);
        } else {
            self.first_claim(vec![want]).await;
        }
        match claimed.await {
            Ok(claimed) => claimed,
            Err(_) => {
                self.end(EndReason::InternalError("a claim was dropped".to_owned()));
                None
            }
        }
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

    /// Whether there is a pause after failures in a row.
    fn is_slowed(&self) -> bool {
        self.slowed_until.borrow().is_some_and(|end| Instant::now() < end)
    }

    /// Done as soon as there is a pause after failures in a row.
    async fn slowed_down(&self) {
        let mut slowed = self.slowed_until.subscribe();
        drop(slowed.wait_for(|until| until.is_some_and(|end| Instant::now() < end)).await);
    }

    /// Serves the slots until it is dropped.
    pub(crate) async fn serve_claims(self: Arc<Self>, queues: ClaimQueues) {
        let ClaimQueues { fresh, idle } = queues;
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
        match ids::run_id() {
            Ok(run_id) => Some(ClaimAttempt::new(run_id)),
            Err(error) => {
                self.end(EndReason::InternalError(error.to_string()));
                None
            }
        }
    }

    fn answer(&self, mut want: Want, claimed: Option<ClaimedTask>) {
        if claimed.is_some() {
            self.busy(&mut want)
        } else {
            self.idle(&mut want)
        }
        // The slot waits for it as long as the worker lives.
        drop(want.answer.send(claimed));
    }

    fn busy(&self, want: &mut Want) {
        if !std::mem::replace(&mut want.is_busy, true) {
            self.mark_busy();
        }
    }

    fn idle(&self, want: &mut Want) {
        if std::mem::replace(&mut want.is_busy, false) {
            self.mark_idle();
        }
    }
}
