//! `task wait`: polls until all tasks have ended, and prints how they ended.

use std::time::Duration;

use taskqueue_client::{Error, ErrorCode, Status, Task, TaskId, TaskQuery};
use tokio::time::{Instant, sleep_until};

use super::concurrent_calls::ConcurrentCalls;
use crate::args::{TargetArgs, WaitArgs};
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary, WaitSummary};
use crate::progress::Progress;

const POLL_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// The pause after a poll is this many times its duration, so that polling never takes more than a tenth of the time.
const PAUSE_FACTOR: u32 = 10;
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Further tasks that did not succeed are only counted.
const FAILURES_SHOWN: u64 = 20;
const PAGE_LIMIT: u16 = 1000;

pub(super) async fn run(context: &ClientContext, args: &WaitArgs) -> Result<(), CommandError> {
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let ids = targets(context, &args.target).await?;
    let mut wait = Wait::new(context, ids);
    let timed_out = wait.poll_until(deadline).await?;
    wait.finish(timed_out)
}

/// The tasks to wait for: those named, or those that match now.
async fn targets(context: &ClientContext, target: &TargetArgs) -> Result<Vec<TaskId>, CommandError> {
    let mut ids = target.ids.clone();
    if !target.selection.is_empty() {
        let query = TaskQuery::of(target.selection.selection()).limit(PAGE_LIMIT);
        let mut walk = context.client.walk_tasks(&context.queue, query);
        while let Some(task) = walk.next().await? {
            ids.push(task.id);
        }
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

struct Wait<'s> {
    context: &'s ClientContext,
    open: Vec<TaskId>,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    missing: u64,
    progress: Progress,
}

impl<'s> Wait<'s> {
    fn new(context: &'s ClientContext, open: Vec<TaskId>) -> Self {
        let total = open.len() as u64;
        let progress = Progress::of_tasks("waiting", total);
        Self { context, open, total, succeeded: 0, failed: 0, cancelled: 0, missing: 0, progress }
    }

    /// Polls until no task is open. Returns whether the deadline came first.
    async fn poll_until(&mut self, deadline: Option<Instant>) -> Result<bool, CommandError> {
        loop {
            let began = Instant::now();
            self.poll().await?;
            if self.open.is_empty() {
                return Ok(false);
            }
            let pause = (began.elapsed() * PAUSE_FACTOR).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX);
            let next = Instant::now() + pause;
            match deadline {
                Some(deadline) if Instant::now() >= deadline => return Ok(true),
                Some(deadline) => sleep_until(next.min(deadline)).await,
                None => sleep_until(next).await,
            }
        }
    }

    /// Requests every open task once.
    async fn poll(&mut self) -> Result<(), CommandError> {
        let mut calls = ConcurrentCalls::new();
        for id in std::mem::take(&mut self.open) {
            let (client, queue) = (self.context.client.clone(), self.context.queue.clone());
            let call = async move { (id, client.task(&queue, id).await) };
            if let Some((id, outcome)) = calls.start(call).await? {
                self.record(id, outcome)?;
            }
        }
        while let Some((id, outcome)) = calls.next().await? {
            self.record(id, outcome)?;
        }
        Ok(())
    }

    fn record(&mut self, id: TaskId, outcome: Result<Task, Error>) -> Result<(), CommandError> {
        let task = match outcome {
            Ok(task) => task,
            Err(error) if error.code() == Some(ErrorCode::TaskNotFound) => {
                self.missing += 1;
                self.warn(&format!("{id} does not exist (task_not_found)"));
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
                let reason = failure.map(|failure| format!(": {}: {}", failure.kind, failure.message));
                self.warn(&format!("{id} failed{}", reason.unwrap_or_default()));
            }
            Status::Cancelled => {
                self.cancelled += 1;
                self.warn(&format!("{id} was cancelled"));
            }
        }
        self.progress.set_position(self.total - self.unfinished());
        self.progress.set_message(|| self.summary().sentence());
        Ok(())
    }

    fn warn(&self, message: &str) {
        if self.failed + self.cancelled + self.missing <= FAILURES_SHOWN {
            self.progress.suspend(|| output::warning(message));
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

    fn finish(self, timed_out: bool) -> Result<(), CommandError> {
        let (unfinished, all_succeeded) = (self.unfinished(), self.succeeded == self.total);
        let record = WaitSummary { summary: self.summary(), timed_out };
        let printer = &self.context.printer;
        drop(self.progress);
        printer.done(&record, &record.summary.sentence())?;
        if timed_out {
            let tasks = if unfinished == 1 { "task has" } else { "tasks have" };
            return Err(Failure::Refused(format!("timed out: {unfinished} {tasks} not ended")).into());
        }
        if all_succeeded { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }
}
