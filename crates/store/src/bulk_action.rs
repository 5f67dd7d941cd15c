//! Bulk actions: cancelling, requeueing or deleting every task that matches a filter. The tasks are found besides the writer,
//! in a snapshot, and worked off in portions, each a command in the writer's queue like any other. So others are served in
//! between, and what is done is done. Why: docs/decisions/0017. What a portion does is in `execute/found.rs`.

mod found;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub(crate) use found::waited_for;
pub use found::{BlockedTask, ChangeRecord, Collector, FOUND_MAX, FoundState, FoundTask, FoundTasks, KeyRange};
use taskqueue_core::Refusal;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bulk::Gate;
use crate::command::{ActOnFound, ActOnTasks, Acted, Command, PortionOutcome};
use crate::submission::{BEGIN_LIMIT, Submission, permit};
use crate::{Store, StoreError, StoreExt, StoreResult};

/// Bulk actions at a time; others wait like every command.
pub const ACTIONS: usize = 2;
/// For how long an action begins new portions. The rest of the 30 seconds of a request is for the last one.
const TIME_LIMIT: Duration = Duration::from_secs(25);
/// For how long an action may wait for its turn and look for tasks. Then there is time for a portion: an action that finds tasks
/// and does nothing would be repeated for ever.
const FIND_LIMIT: Duration = Duration::from_secs(20);
/// How long after [`TIME_LIMIT`] the answer of the last portion may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);
/// The pause before tasks are tried again that others hold, and before a busy storage is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// How a backend finds tasks.
#[async_trait]
pub trait FindTasks: Store {
    /// Finds the tasks that an action selects, in a snapshot besides the writer: counts them, and gives the first ones by
    /// key, at most `most`. With a range only those in it, and then there need be no count.
    async fn find_tasks(&self, act: &Arc<ActOnTasks>, range: Option<KeyRange>, most: usize) -> StoreResult<FoundTasks>;
}

/// Does a bulk action, as many at a time as there are permits. When a caller drops this, the portion that has begun is finished
/// and no other begins.
pub async fn act_on_tasks(
    store: &impl FindTasks,
    permits: &Arc<Semaphore>,
    act: Arc<ActOnTasks>,
) -> StoreResult<Acted> {
    if act.dry_run {
        let matched = store.count_tasks(&act.queue, act.selection.clone()).await?;
        expect(&act, matched)?;
        return Ok(Acted { matched, changed: 0 });
    }
    let begun = Instant::now();
    let _permit = permit(permits).await?;
    let gate = Gate::of_this_task();
    let most = gate.found_at_once.unwrap_or(FOUND_MAX);
    let find = timeout_at(begun + FIND_LIMIT, store.find_tasks(&act, None, most)).await;
    let found = find.map_err(|_| StoreError::Busy)??;
    expect(&act, found.matched)?;
    let (deadline, acted) = (begun + TIME_LIMIT, Acted { matched: found.matched, changed: 0 });
    let mut work = Work { store, gate, act, deadline, acted, size: PORTION_FIRST };
    work.run(found).await
}

fn expect(act: &ActOnTasks, matched: u64) -> StoreResult<()> {
    match act.expect {
        Some(expected) if expected != matched => Err(Refusal::ExpectationFailed { expected, matched }.into()),
        _ => Ok(()),
    }
}

/// A bulk action under way.
struct Work<'a, S> {
    store: &'a S,
    gate: Gate,
    act: Arc<ActOnTasks>,
    deadline: Instant,
    acted: Acted,
    /// Tasks of the next portion at most.
    size: usize,
}

impl<S: FindTasks> Work<'_, S> {
    async fn run(&mut self, mut found: FoundTasks) -> StoreResult<Acted> {
        let mut busy_until = Instant::now() + BEGIN_LIMIT;
        while !self.is_over() {
            match self.step(&mut found).await {
                Ok(true) => busy_until = Instant::now() + BEGIN_LIMIT,
                Ok(false) => return Ok(self.acted),
                // Before the first portion it is an answer like any other.
                Err(StoreError::Busy) if self.acted.changed == 0 && Instant::now() >= busy_until => {
                    return Err(StoreError::Busy);
                }
                Err(StoreError::Busy) => sleep(PAUSE).await,
                // The queue was deleted, and the tasks that were left with it.
                Err(StoreError::Refused(_)) if self.acted.changed > 0 => return Ok(self.acted),
                Err(StoreError::OutcomeUnknown) => return Err(StoreError::PartlyDone),
                Err(error) if self.acted.changed == 0 => return Err(error),
                Err(_) => return Err(StoreError::PartlyDone),
            }
        }
        // Its time was over before anything was done.
        if self.acted.changed == 0 && self.remaining() > 0 { Err(StoreError::Busy) } else { Ok(self.acted) }
    }

    /// Never more tasks than were counted: a client may have agreed to that number.
    fn remaining(&self) -> usize {
        usize::try_from(self.acted.matched - self.acted.changed).unwrap_or(usize::MAX)
    }

    fn is_over(&self) -> bool {
        self.remaining() == 0 || Instant::now() >= self.deadline
    }

    /// Does the next portion, or finds the next tasks. Returns whether there is more to do.
    async fn step(&mut self, found: &mut FoundTasks) -> StoreResult<bool> {
        let most = self.size.min(self.remaining());
        let tasks = found.next(most);
        if tasks.is_empty() {
            let Some(range) = found.rest() else { return Ok(false) };
            let most = self.gate.found_at_once.unwrap_or(FOUND_MAX);
            let find = self.store.find_tasks(&self.act, Some(range), most);
            let next = timeout_at(self.deadline, find).await.map_err(|_| StoreError::Busy)??;
            // A queue that was made again has other tasks, perhaps with keys that were used before.
            if next.queue != found.queue {
                return Ok(false);
            }
            found.replace(next);
            return Ok(true);
        }
        self.gate.pass().await;
        let begun = Instant::now();
        let acted = match self.write(found, tasks.clone()).await {
            Ok(acted) => acted,
            Err(error) => {
                found.put_back(tasks);
                return Err(error);
            }
        };
        self.size = next_size(self.size, begun.elapsed());
        self.acted.changed += acted.changed;
        let is_held_up = acted.left.len() == tasks.len();
        found.done(&tasks, acted);
        if is_held_up {
            sleep(PAUSE).await;
        }
        Ok(true)
    }

    async fn write(&self, found: &FoundTasks, tasks: Vec<FoundTask>) -> StoreResult<PortionOutcome> {
        let command =
            ActOnFound { act: Arc::clone(&self.act), queue: found.queue, tasks, changes: found.changes.clone() };
        let (submission, answer) = Submission::new(command);
        self.store.submit(ActOnFound::into_request(submission))?;
        answer.wait_until(Some(self.deadline + ANSWER_LIMIT)).await
    }
}

/// The contract's bound (docs/reference/http-api.md §14.8).
const PORTION_MOST: usize = 1_000;
/// Fewer cost less than their transaction does. A portion of slow tasks ends by itself before its last one.
const PORTION_LEAST: usize = 100;
const PORTION_FIRST: usize = 250;
/// A portion that took longer is followed by a smaller one. This includes what it waited for others.
const PORTION_SLOW: Duration = Duration::from_millis(40);
/// One that took less is followed by a larger one.
const PORTION_FAST: Duration = Duration::from_millis(20);

/// Returns how many tasks the next portion takes, after one of so many that took so long.
fn next_size(size: usize, elapsed: Duration) -> usize {
    match elapsed {
        elapsed if elapsed > PORTION_SLOW => (size / 2).max(PORTION_LEAST),
        elapsed if elapsed < PORTION_FAST => (size * 2).min(PORTION_MOST),
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_grow_and_shrink_within_their_bounds() {
        let mut size = PORTION_FIRST;
        let mut took = |millis, times: usize| {
            (0..times).for_each(|_| size = next_size(size, Duration::from_millis(millis)));
            size
        };
        assert_eq!(took(30, 5), PORTION_FIRST);
        assert_eq!((took(1, 1), took(1, 9)), (2 * PORTION_FIRST, PORTION_MOST));
        assert_eq!((took(41, 1), took(41, 1), took(500, 20)), (PORTION_MOST / 2, PORTION_MOST / 4, PORTION_LEAST));
    }
}
