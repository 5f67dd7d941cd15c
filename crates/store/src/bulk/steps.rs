//! How the two steps of a bulk update follow each other: a turn, a plan, a write; and the plan brought up to date when too much
//! has changed meanwhile. How a snapshot is read and a plan written is the backend's business.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::plan::Plan;
use crate::StoreError;
use crate::command::{Answer, BulkUpdate};
use crate::submission::TURN_LIMIT;

/// Plans at a time; others wait for their turn like every command. One that is written and one that is made: more would
/// only share the processors.
const PLANS: usize = 2;
/// Tasks that the write itself decides again. When more have changed since the snapshot, the plan is first brought up to
/// date beside the writer.
pub const REDECIDED: usize = 64;
/// When a bulk update must have saved everything. The rest of the 30 seconds of a request is for its commit, or for undoing
/// it: SQLite's writer reads its memory of a million tasks anew then.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// From then on until the answer is given up.
const COMMIT_LIMIT: Duration = Duration::from_secs(9);

/// How long a bulk update may go on: until its time is over or its caller has gone.
#[derive(Clone, Debug)]
pub struct Limit {
    until: Instant,
    /// Nothing for one that is done whatever becomes of its caller.
    caller: Option<Weak<()>>,
}

impl Limit {
    /// The limit of a bulk update that comes now.
    fn new(caller: &Arc<()>) -> Self {
        Self { until: Instant::now() + TIME_LIMIT, caller: Some(Arc::downgrade(caller)) }
    }

    /// The limit of one that is done in one step, which begins now.
    pub(crate) fn of_one_step() -> Self {
        Self { until: Instant::now() + TIME_LIMIT, caller: None }
    }

    /// The same for a write: one that has begun is done although its caller goes away, like every command.
    #[must_use]
    pub fn of_write(&self) -> Self {
        Self { until: self.until, caller: None }
    }

    /// Whether to stop.
    pub fn is_over(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.strong_count() == 0) || Instant::now() >= self.until
    }

    /// Until when the answer of the write is waited for.
    pub fn answer_by(&self) -> tokio::time::Instant {
        (self.until + COMMIT_LIMIT).into()
    }
}

/// A plan and the snapshot that it was made in.
pub struct Planned<S> {
    /// The plan.
    pub plan: Plan,
    /// What tells what has changed since.
    pub snapshot: S,
    /// Whether too much has changed for the write to go on.
    pub is_outdated: bool,
    /// Frees the place for another plan when this one is dropped.
    _turn: Option<OwnedSemaphorePermit>,
}

impl<S> Planned<S> {
    /// A plan made in this snapshot.
    pub fn new(plan: Plan, snapshot: S) -> Self {
        Self { plan, snapshot, is_outdated: false, _turn: None }
    }

    /// Takes over a later plan.
    pub fn replace(&mut self, later: Self) {
        (self.plan, self.snapshot) = (later.plan, later.snapshot);
    }
}

/// A plan on its way between caller, readers and writer; only one of them has it at a time.
pub type SharedPlan<S> = Arc<Mutex<Planned<S>>>;

/// Whoever has the plan now.
pub fn planned<S>(shared: &SharedPlan<S>) -> MutexGuard<'_, Planned<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a backend does in each step.
#[async_trait]
pub trait TwoSteps: Sync {
    /// What it needs to know of a snapshot to find out later what changed since.
    type Snapshot: Send;

    /// Makes the plan in a snapshot, beside the writer.
    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> Result<Planned<Self::Snapshot>, StoreError>;

    /// Brings an outdated plan up to date in a later snapshot, beside the writer: anew, where the backend does not know what
    /// has changed.
    async fn catch_up(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Self::Snapshot>,
        limit: &Limit,
    ) -> Result<(), StoreError> {
        self.plan_anew(bulk, plan, limit).await
    }

    /// Makes an outdated plan anew.
    async fn plan_anew(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Self::Snapshot>,
        limit: &Limit,
    ) -> Result<(), StoreError> {
        let later = self.plan(bulk, limit).await?;
        planned(plan).replace(later);
        Ok(())
    }

    /// Writes the plan. If it is outdated, nothing is done, it is marked so, and the answer is [`StoreError::Busy`].
    async fn write_plan(
        &self,
        bulk: &Arc<BulkUpdate>,
        plan: &SharedPlan<Self::Snapshot>,
        limit: &Limit,
    ) -> Result<Answer, StoreError>;
}

/// The turns of a store's bulk updates.
pub struct Bulk {
    turns: Arc<Semaphore>,
    gate: Gate,
}

impl Bulk {
    /// Nobody has a turn yet.
    pub fn new(gate: Gate) -> Self {
        Self { turns: Arc::new(Semaphore::new(PLANS)), gate }
    }

    /// Does a bulk update. Whoever drops this before the write has begun has done nothing.
    ///
    /// What changes nothing needs no write: a refusal, and a count of tasks that all stay as they are, are true as of the
    /// snapshot, which is a moment within the call.
    pub async fn run<T: TwoSteps>(&self, store: &T, bulk: &Arc<BulkUpdate>) -> Result<Answer, StoreError> {
        let caller = Arc::new(());
        let limit = Limit::new(&caller);
        let turn = timeout(TURN_LIMIT, Arc::clone(&self.turns).acquire_owned());
        let turn = turn.await.map_err(|_| StoreError::Busy)?.map_err(|_| StoreError::Unavailable)?;
        let planned_first = store.plan(bulk, &limit).await?;
        let plan = Arc::new(Mutex::new(Planned { _turn: Some(turn), ..planned_first }));
        // Only of a plan that was made in one snapshot: one that was brought up to date is true of no single moment before
        // the write has decided the rest.
        if let Some(matched) = changes_nothing(&plan) {
            return Ok(Answer::Updated { matched, updated: 0 });
        }
        loop {
            self.gate.pass().await;
            match store.write_plan(bulk, &plan, &limit).await {
                Err(StoreError::Busy) if std::mem::take(&mut planned(&plan).is_outdated) && !limit.is_over() => {}
                outcome => return outcome,
            }
            store.catch_up(bulk, &plan, &limit).await?;
        }
    }
}

fn changes_nothing<S>(shared: &SharedPlan<S>) -> Option<u64> {
    let planned = planned(shared);
    planned.plan.changes().next().is_none().then(|| planned.plan.matched())
}

type Passing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a bulk update passes between its plan and its write. Open in the product; tests let others write meanwhile.
#[derive(Clone, Default)]
pub struct Gate(Option<Arc<dyn Fn() -> Passing + Send + Sync>>);

impl Gate {
    /// A gate that opens when this has happened.
    pub fn until(happened: impl Fn() -> Passing + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(happened)))
    }

    async fn pass(&self) {
        if let Some(happened) = &self.0 {
            happened().await;
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Gate(guarded)" } else { "Gate(open)" })
    }
}
