//! Creates the tasks of a sweep, for some seconds at a time: no request takes long, and the page shows how far it came. Ids are derived
//! as by the command line, so nothing is created twice, wherever it goes on.

use std::time::Duration;

use taskqueue_core::definition::Definition;
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::ids::QueueName;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::typed::Plan;
use crate::address::Query;
use crate::pages::submit::create::{Batch, Outcome, Planned, Tally, write, write_error};
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

/// The fields that carry what became of tasks.
const COUNTS: [&str; 4] = ["created", "existing", "different", "refused"];

/// How far a sweep came, and what became of its tasks. It travels in the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) done: usize,
    counts: [u64; 4],
}

impl Progress {
    pub(super) fn of(form: &Query) -> Self {
        let number =
            |name: &str| form.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0).min(1_000_000_000);
        Self { done: usize::try_from(number("done")).unwrap_or(0), counts: COUNTS.map(number) }
    }

    /// The hidden fields that it travels in.
    pub(super) fn hidden(&self) -> Vec<(&'static str, u64)> {
        [("done", self.done as u64)].into_iter().chain(COUNTS.into_iter().zip(self.counts)).collect()
    }
}

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
    progress: Progress,
) -> (Outcome, Progress) {
    let (mut done, mut tally) = (progress.done, Tally::so_far(progress.counts));
    let (began, mut ids, mut batch) = (Instant::now(), DerivedIds::new(plan.batch), Batch::default());
    let (mut stopped, mut slice) = (None, Slice::begin(dashboard).await);
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
        if index < progress.done {
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
    let counts = tally.counts();
    (Outcome { tally, stopped }, Progress { done, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_travels_in_the_form_and_nonsense_is_the_beginning() {
        let progress = Progress { done: 7, counts: [4, 1, 1, 1] };
        let form = progress.hidden().into_iter().fold(Query::default(), |form, (name, value)| form.and(name, value));
        assert_eq!(Progress::of(&form), progress);
        assert_eq!(Progress::of(&Query::parse("done=-1&created=x")), Progress::default());
    }
}
