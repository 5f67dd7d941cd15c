//! Commands of several items that weigh more than one transaction takes: they are written in portions, one after the other, so that
//! others are served in between. Each item is judged as if it had come alone, so that this changes no answer; only a failure of the
//! storage in the middle leaves a part done. The reasons: docs/decisions/0039.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::command::{Command, CreateTasks, ReportRuns};
use crate::submission::{ANSWER_LIMIT, Held};
use crate::weight::{MAX_ITEMS, of_new_task, of_run_action};
use crate::{Store, StoreError, StoreExt, StoreResult};

/// The pause before a busy storage is asked again for the next portion.
const PAUSE: Duration = Duration::from_millis(20);
/// Commands of more portions are written one at a time. Those of fewer take turns with everything else.
const LARGE: usize = 8;
/// How long such a command waits for its turn, and not longer: it needs most of its time itself.
const TURN_LIMIT: Duration = Duration::from_secs(1);

/// Some of the items that a request has, one after the other.
#[derive(Clone, Debug)]
pub struct Portion<T> {
    all: Arc<Vec<T>>,
    range: Range<usize>,
}

impl<T> Portion<T> {
    /// The items from this one on, as many as one transaction takes: one at least, if there is any.
    fn starting_at(&self, first: usize, weight: impl Fn(&T) -> usize) -> Self {
        let mut items = 0;
        let fitting = self[first..].iter().take_while(|item| {
            items += weight(item);
            items <= MAX_ITEMS
        });
        let count = fitting.count().max(1).min(self.len() - first);
        let start = self.range.start + first;
        Self { all: Arc::clone(&self.all), range: start..start + count }
    }

    /// These items, and at the first portion those of all others: what a request has no room for is refused before a part of it is
    /// done.
    pub fn to_be_done(&self) -> &[T] {
        if self.range.start == 0 { &self.all } else { self }
    }
}

impl<T> Deref for Portion<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.range.clone()]
    }
}

impl<T> From<Vec<T>> for Portion<T> {
    fn from(all: Vec<T>) -> Self {
        let range = 0..all.len();
        Self { all: Arc::new(all), range }
    }
}

impl<T> FromIterator<T> for Portion<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

/// A command of several items. Its answer may be about the first of them only: then the transaction had no room for more.
pub trait SeveralItems: Command {
    fn count(&self) -> usize;

    /// Returns the command for the items from this one on, as many as one transaction takes.
    fn portion(&self, first: usize) -> Self;
}

impl SeveralItems for CreateTasks {
    fn count(&self) -> usize {
        self.tasks.len()
    }

    fn portion(&self, first: usize) -> Self {
        Self { queue: self.queue.clone(), tasks: self.tasks.starting_at(first, |(_, new)| of_new_task(new)) }
    }
}

impl SeveralItems for ReportRuns {
    fn count(&self) -> usize {
        self.reports.len()
    }

    fn portion(&self, first: usize) -> Self {
        let reports = self.reports.starting_at(first, |report| of_run_action(&report.action));
        Self { queue: self.queue.clone(), reports }
    }
}

/// Returns whether a command has more than [`LARGE`] portions, as far as that is known before.
fn is_large(command: &impl SeveralItems) -> bool {
    let mut first = 0;
    (0..LARGE).all(|_| {
        first += command.portion(first).count();
        first < command.count()
    })
}

/// Waits for the turn of a command that needs one.
async fn turn<'s>(
    store: &'s (impl Store + ?Sized),
    command: &impl SeveralItems,
) -> StoreResult<Option<SemaphorePermit<'s>>> {
    if !is_large(command) {
        return Ok(None);
    }
    let acquired = timeout(TURN_LIMIT, store.parts().portions.acquire()).await;
    acquired.ok().and_then(Result::ok).map(Some).ok_or(StoreError::Busy)
}

/// Executes a command of several items in as many transactions as it needs, most of them in one. `held` is what is reserved for
/// its memory. What needs many waits for its turn. After the first portion a busy storage is asked again, and other errors are
/// [`StoreError::PartlyDone`], unless the queue is gone, and what was done with it.
pub async fn write_items<A: Send, C: SeveralItems + Command<Answer = Vec<A>>>(
    store: &(impl Store + ?Sized),
    command: C,
    held: Option<Held>,
) -> StoreResult<Vec<A>> {
    let (held, deadline) = (held.map(Arc::new), Instant::now() + ANSWER_LIMIT);
    let mut answers = Vec::with_capacity(command.count());
    let mut portion = command.portion(0);
    let _turn = if portion.count() < command.count() { turn(store, &command).await? } else { None };
    loop {
        let held = held.clone().map(|held| -> Held { Box::new(held) });
        let written = timeout_at(deadline, store.write_holding(portion, held)).await;
        match written.unwrap_or(Err(StoreError::OutcomeUnknown)) {
            Ok(portion) => answers.extend(portion),
            Err(error) if answers.is_empty() => return Err(error),
            Err(StoreError::Refused(refusal)) => return Err(refusal.into()),
            // Others come first at the moment, and nothing of this portion was done.
            Err(StoreError::Busy) if Instant::now() < deadline => sleep(PAUSE).await,
            Err(_) => return Err(StoreError::PartlyDone),
        }
        if answers.len() >= command.count() {
            return Ok(answers);
        }
        portion = command.portion(answers.len());
    }
}
