//! Creates the tasks of a sweep, for some seconds at a time: no request takes long, and the page shows how far it came. Ids are derived
//! as by the command line, so nothing is created twice, wherever it goes on.

use std::time::Duration;

use taskqueue_core::definition::Definition;
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::ids::QueueName;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::typed::Plan;
use crate::pages::submit::create::{Batch, Outcome, Planned, write, write_error};
use crate::show;
use crate::state::Dashboard;

/// After this time the answer says how far it came.
const TURN: Duration = Duration::from_secs(4);
/// How long a part of a sweep may take that was created before and is only counted again.
const COUNTING: Duration = Duration::from_secs(10);
const TOO_LARGE: &str =
    "This sweep takes too long for a browser. Use the command for it; what was created is not created again.";
/// How long names are checked before anything is created. Those behind are checked when it is their turn.
const CHECKING: Duration = Duration::from_secs(2);
/// After this time other requests have their turn on this thread.
const SLICE: Duration = Duration::from_millis(2);

/// Returns whether each of the first `most` tasks gets a name, and if not, why; of many large ones those that there is time for.
pub(super) async fn check_names(dashboard: &Dashboard, plan: &Plan<'_>, most: usize) -> Result<(), String> {
    if !plan.name.as_ref().is_some_and(|name| name.has_placeholders()) {
        return Ok(());
    }
    let mut slice = Slice::begin(dashboard).await;
    for index in 0..plan.sweep.count().min(most) {
        definition(plan, index)?;
        slice.pause_if_due().await;
        if slice.worked() >= CHECKING {
            break;
        }
    }
    Ok(())
}

fn definition(plan: &Plan<'_>, index: usize) -> Result<Definition, String> {
    plan.definition_at(index).map_err(|error| format!("Task {}: {error}", show::number(index as u64 + 1)))
}

/// A short time in which the tasks of a sweep are made, while no other sweep does it. Each may be a megabyte, and this thread serves
/// others.
struct Slice<'d> {
    all: &'d Mutex<()>,
    mine: Option<MutexGuard<'d, ()>>,
    began: Instant,
    /// In the slices before this one.
    worked: Duration,
}

impl<'d> Slice<'d> {
    async fn begin(dashboard: &'d Dashboard) -> Self {
        let all = &dashboard.sweeping;
        Self { all, mine: Some(all.lock().await), began: Instant::now(), worked: Duration::ZERO }
    }

    /// Returns how long it has worked: what it waits for others does not count.
    fn worked(&self) -> Duration {
        self.worked + self.began.elapsed()
    }

    async fn pause_if_due(&mut self) {
        if self.began.elapsed() >= SLICE {
            self.pause(tokio::task::yield_now()).await;
        }
    }

    /// Lets others go on while something else is waited for.
    async fn pause<T>(&mut self, meanwhile: impl Future<Output = T>) -> T {
        self.worked = self.worked();
        self.mine = None;
        let answer = meanwhile.await;
        (self.mine, self.began) = (Some(self.all.lock().await), Instant::now());
        answer
    }
}

/// Creates what is not done yet, until the turn is over or something stops it, which is told.
pub(super) async fn create(
    dashboard: &Dashboard,
    queue: &QueueName,
    plan: &Plan<'_>,
    Outcome { done: done_before, mut tally, .. }: Outcome,
) -> Outcome {
    let (began, mut ids, mut batch) = (Instant::now(), DerivedIds::new(plan.batch), Batch::default());
    let (mut done, mut stopped, mut slice) = (done_before, None, Slice::begin(dashboard).await);
    let count = plan.sweep.count();
    for index in 0..count {
        slice.pause_if_due().await;
        let definition = match definition(plan, index) {
            Ok(definition) => definition,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        };
        // The ids of equal tasks depend on how many came before, so those that are done are counted, too.
        let id = ids.next(&definition);
        if index < done_before {
            if slice.worked() < COUNTING {
                continue;
            }
            stopped = Some(TOO_LARGE.to_owned());
            break;
        }
        let is_full = batch.push(Planned {
            number: index as u64 + 1,
            id,
            is_derived: true,
            definition,
            not_before: plan.not_before,
            times: plan.times,
        });
        if !is_full && index + 1 < count {
            continue;
        }
        if let Err(error) = slice.pause(write(dashboard, queue, std::mem::take(&mut batch), &mut tally)).await {
            stopped = Some(write_error(&error));
            break;
        }
        done = index + 1;
        if began.elapsed() >= TURN {
            break;
        }
    }
    Outcome { done, tally, stopped }
}
