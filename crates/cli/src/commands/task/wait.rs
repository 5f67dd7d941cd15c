//! `task wait`: looks again and again until all tasks have ended, and tells how.

use std::time::Duration;

use taskqueue_client::{Error, ErrorCode, Status, Task, TaskId, TaskQuery};
use tokio::time::{Instant, sleep_until};

use super::concurrent_calls::Flight;
use crate::args::{TargetArgs, WaitArgs};
use crate::failure::{Failure, Stop};
use crate::output::{self, Summary, WaitSummary};
use crate::progress::Progress;
use crate::session::Session;

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looking takes at most one part in so many of the time, however many tasks there are.
const REST_FACTOR: u32 = 10;
/// The longest time between two looks.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// Tasks that did not succeed and are told one by one.
const FAILURES_TOLD: u64 = 20;
const PAGE_LIMIT: u16 = 1000;

pub(super) async fn run(session: &Session, args: &WaitArgs) -> Result<(), Stop> {
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let ids = targets(session, &args.target).await?;
    let mut wait = Wait::new(session, ids);
    let timed_out = wait.until(deadline).await?;
    wait.finish(timed_out)
}

/// The tasks to wait for: those named, or those that match now.
async fn targets(session: &Session, target: &TargetArgs) -> Result<Vec<TaskId>, Stop> {
    let mut ids = target.ids.clone();
    if !target.selection.is_empty() {
        let query = TaskQuery::of(target.selection.selection()).limit(PAGE_LIMIT);
        let mut walk = session.client.walk_tasks(&session.queue, query);
        while let Some(task) = walk.next().await? {
            ids.push(task.id);
        }
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

struct Wait<'s> {
    session: &'s Session,
    open: Vec<TaskId>,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    missing: u64,
    progress: Progress,
}

impl<'s> Wait<'s> {
    fn new(session: &'s Session, open: Vec<TaskId>) -> Self {
        let total = open.len() as u64;
        let progress = Progress::of_tasks("waiting", total);
        Self { session, open, total, succeeded: 0, failed: 0, cancelled: 0, missing: 0, progress }
    }

    /// Looks until nothing is open. Gives whether the time was over before.
    async fn until(&mut self, deadline: Option<Instant>) -> Result<bool, Stop> {
        loop {
            let began = Instant::now();
            self.look().await?;
            if self.open.is_empty() {
                return Ok(false);
            }
            let rest = (began.elapsed() * REST_FACTOR).clamp(LOOK_EVERY, LOOK_AT_LEAST_EVERY);
            let next = Instant::now() + rest;
            match deadline {
                Some(deadline) if Instant::now() >= deadline => return Ok(true),
                Some(deadline) => sleep_until(next.min(deadline)).await,
                None => sleep_until(next).await,
            }
        }
    }

    /// Looks at every open task once.
    async fn look(&mut self) -> Result<(), Stop> {
        let mut flight = Flight::new();
        for id in std::mem::take(&mut self.open) {
            let (client, queue) = (self.session.client.clone(), self.session.queue.clone());
            let call = async move { (id, client.task(&queue, id).await) };
            if let Some((id, outcome)) = flight.launch(call).await? {
                self.note(id, outcome)?;
            }
        }
        while let Some((id, outcome)) = flight.land().await? {
            self.note(id, outcome)?;
        }
        Ok(())
    }

    fn note(&mut self, id: TaskId, outcome: Result<Task, Error>) -> Result<(), Stop> {
        let task = match outcome {
            Ok(task) => task,
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                self.missing += 1;
                self.tell(&format!("{id} does not exist (task_not_found)"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        match task.status {
            Status::Pending | Status::Running => self.open.push(id),
            Status::Succeeded => self.succeeded += 1,
            Status::Failed => {
                self.failed += 1;
                let failure = task.last_error.map(|error| error.failure);
                let why = failure.map(|failure| format!(": {}: {}", failure.kind, failure.message));
                self.tell(&format!("{id} failed{}", why.unwrap_or_default()));
            }
            Status::Cancelled => {
                self.cancelled += 1;
                self.tell(&format!("{id} was cancelled"));
            }
        }
        self.progress.set(self.total - self.unfinished());
        if self.progress.is_visible() {
            self.progress.say(self.summary().sentence());
        }
        Ok(())
    }

    fn tell(&self, message: &str) {
        if self.failed + self.cancelled + self.missing <= FAILURES_TOLD {
            self.progress.suspended(|| output::warning(message));
        }
    }

    fn unfinished(&self) -> u64 {
        self.total - self.succeeded - self.failed - self.cancelled - self.missing
    }

    fn summary(&self) -> Summary {
        let counts = vec![
            ("succeeded", self.succeeded),
            ("failed", self.failed),
            ("cancelled", self.cancelled),
            ("missing", self.missing),
            ("unfinished", self.unfinished()),
        ];
        Summary { counts }
    }

    fn finish(self, timed_out: bool) -> Result<(), Stop> {
        let (unfinished, all_succeeded) = (self.unfinished(), self.succeeded == self.total);
        let record = WaitSummary { summary: self.summary(), timed_out };
        let printer = &self.session.printer;
        drop(self.progress);
        printer.done(&record, &record.summary.sentence())?;
        if timed_out {
            let tasks = if unfinished == 1 { "task has" } else { "tasks have" };
            return Err(Failure::Refused(format!("the time is over and {unfinished} {tasks} not ended")).into());
        }
        if all_succeeded { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }
}
