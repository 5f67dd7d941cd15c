//! The order of the steps of a bulk update: wait for a permit, plan, write; and update the plan if too much has changed in
//! between. How a snapshot is read and how a plan reaches the writer is up to the backend.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::Plan;
use crate::submission::permit;
use crate::{BulkUpdate, Store, StoreError, StoreResult, Updated};

/// Plans at a time, from their snapshot to the end of their write; others wait like every command. A second one would take processors
/// from the writer, for which everybody waits, and in the same queue it would be outdated before its turn comes.
pub(crate) const PLANS: usize = 1;
/// Tasks that the write itself decides again at most. When more have changed since the snapshot, the plan is updated first,
/// outside the writer.
pub const REDECIDED: usize = 64;
/// When a bulk update must have saved everything. The rest of the 30 seconds of a request is for its commit, or for undoing
/// it: SQLite's writer loads its index of a million tasks again then.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How long after that the caller waits for the answer.
const COMMIT_LIMIT: Duration = Duration::from_secs(9);

/// How long a bulk update may go on: until its time is over or its caller has left.
#[derive(Clone, Debug)]
pub struct Limit {
    until: Instant,
    /// Nothing for a write: it goes on although its caller has left.
    caller: Option<Weak<()>>,
}

impl Limit {
    fn new(caller: &Arc<()>) -> Self {
        Self { until: Instant::now() + TIME_LIMIT, caller: Some(Arc::downgrade(caller)) }
    }

    /// For a bulk update in one step, which begins now.
    pub(crate) fn of_one_step() -> Self {
        Self { until: Instant::now() + TIME_LIMIT, caller: None }
    }

    /// Returns the limit of the write, which goes on although its caller has left, like every command that has begun.
    #[must_use]
    pub fn of_write(&self) -> Self {
        Self { until: self.until, caller: None }
    }

    pub fn is_over(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.strong_count() == 0) || Instant::now() >= self.until
    }

    /// Until when the caller waits for the answer of the write.
    pub fn answer_by(&self) -> tokio::time::Instant {
        (self.until + COMMIT_LIMIT).into()
    }
}

/// A plan and the snapshot that it was made in.
pub struct Planned<S> {
    pub plan: Plan,
    /// From which the backend finds out what has changed since.
    pub snapshot: S,
    /// Why the write could not go on.
    pub outdated: Option<Outdated>,
    /// Lets another plan begin when this one is dropped.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a plan cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    TooManyChanges,
    /// The queue was deleted and created again.
    QueueReplaced,
}

/// A plan on its way to the writer.
pub struct PlannedWrite<S> {
    pub plan: SharedPlan<S>,
    pub limit: Limit,
    pub gate: Gate,
}

impl<S> Planned<S> {
    pub fn new(plan: Plan, snapshot: S) -> Self {
        Self { plan, snapshot, outdated: None, _permit: None }
    }
}

/// A plan that is passed between caller, readers and writer; only one of them uses it at a time.
pub type SharedPlan<S> = Arc<Mutex<Planned<S>>>;

/// The steps of a backend.
#[async_trait]
pub trait BulkSteps: Store {
    /// From which the backend finds out later what changed since.
    type Snapshot: Send;

    /// Makes the plan in a snapshot, outside the writer.
    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> StoreResult<Planned<Self::Snapshot>>;

    /// Updates a plan in a later snapshot after too many changes, outside the writer: by a new plan, where the backend does
    /// not know what has changed.
    async fn catch_up(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Self::Snapshot>,
        limit: &Limit,
    ) -> StoreResult<()> {
        self.replan(bulk, plan, limit).await
    }

    /// Replaces an outdated plan by a new one.
    async fn replan(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Self::Snapshot>,
        limit: &Limit,
    ) -> StoreResult<()> {
        let later = self.plan(bulk, limit).await?;
        let mut plan = plan.lock();
        (plan.plan, plan.snapshot) = (later.plan, later.snapshot);
        Ok(())
    }

    /// Writes the plan. If it is outdated, nothing is done, it is marked so, and the answer is [`StoreError::Busy`].
    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, write: PlannedWrite<Self::Snapshot>) -> StoreResult<Updated>;
}

/// Does a bulk update, one of a few at a time. A caller that drops this before the write has begun has changed nothing.
///
/// If the plan is a refusal, or changes no task, it is answered without a write: the answer holds for the snapshot, which
/// was taken within the call.
pub async fn update_tasks(store: &impl BulkSteps, bulk: &Arc<BulkUpdate>) -> StoreResult<Updated> {
    let (caller, gate) = (Arc::new(()), Gate::of_this_task());
    let limit = Limit::new(&caller);
    let permit = permit(&store.parts().plans).await?;
    let planned_first = store.plan(bulk, &limit).await?;
    // Checked only for the first plan, which was made in one snapshot. A plan that was updated later is a mix of
    // several moments until the write has decided the remaining tasks.
    if planned_first.plan.changes().next().is_none() {
        return Ok(Updated { matched: planned_first.plan.matched(), updated: 0 });
    }
    let plan = Arc::new(Mutex::new(Planned { _permit: Some(permit), ..planned_first }));
    loop {
        gate.pass().await;
        let write = PlannedWrite { plan: Arc::clone(&plan), limit: limit.of_write(), gate: gate.clone() };
        let answer = store.write_plan(bulk, write).await;
        let outdated = plan.lock().outdated.take().filter(|_| answer == Err(StoreError::Busy) && !limit.is_over());
        match outdated {
            Some(Outdated::TooManyChanges) => store.catch_up(bulk, &plan, &limit).await?,
            Some(Outdated::QueueReplaced) => store.replan(bulk, &plan, &limit).await?,
            None => return answer,
        }
    }
}

type Passing = Pin<Box<dyn Future<Output = ()> + Send>>;

tokio::task_local! {
    static GATE: Gate;
}

/// A gate that a bulk update passes between its plan and its write and again within its write, and a bulk action before each
/// portion. Tests let others come in between. It belongs to the calls that a test makes: neither a store nor its options have
/// one.
#[derive(Clone, Default)]
pub struct Gate {
    before: Option<Arc<dyn Fn() -> Passing + Send + Sync>>,
    within: Option<Arc<dyn Fn() + Send + Sync>>,
    /// How many tasks a bulk action finds at once.
    pub(crate) found_at_once: Option<usize>,
}

impl Gate {
    /// A gate that opens when `happened` is done, and behind which a bulk action finds so many tasks at once.
    pub fn until(found_at_once: usize, happened: impl Fn() -> Passing + Send + Sync + 'static) -> Self {
        Self { before: Some(Arc::new(happened)), within: None, found_at_once: Some(found_at_once) }
    }

    /// A gate within the write of a bulk update: the writer's thread waits in `happens`.
    pub fn within_write(happens: impl Fn() + Send + Sync + 'static) -> Self {
        Self { within: Some(Arc::new(happens)), ..Self::default() }
    }

    /// Makes calls of a store whose bulk updates and bulk actions pass this gate.
    pub async fn around<F: Future>(self, calls: F) -> F::Output {
        GATE.scope(self, calls).await
    }

    /// The gate of the calls that this task makes: open, except in tests.
    pub(crate) fn of_this_task() -> Self {
        GATE.try_with(Clone::clone).unwrap_or_default()
    }

    pub(crate) async fn pass(&self) {
        if let Some(happened) = &self.before {
            happened().await;
        }
    }

    pub(super) fn pass_within_write(&self) {
        if let Some(happens) = &self.within {
            happens();
        }
    }
}
