//! `task logs --follow`: asks for what comes next until the task has ended. The server holds a request until there is
//! something; while a task waits to be tried again, or has printed nothing yet, it is asked about now and then.

use std::time::Duration;

use taskqueue_client::{Status, Task, Timestamp};
use tokio::time::{Instant, sleep};

use super::{Cursor, Logs, Step, is_without_output};
use crate::commands::task::outage::Outage;
use crate::failure::CommandError;

/// Shorter than the time after which many proxies close a silent connection.
const WAIT_SECONDS: u32 = 30;
/// Between two requests that the server does not hold.
const PAUSE: Duration = Duration::from_millis(500);
/// The same for a task that is not running: it prints nothing before it is claimed.
const PENDING_PAUSE: Duration = Duration::from_secs(1);
/// Workers send the last bytes of a run behind its report. They are what everybody looks for.
const LATE_BYTES: Duration = Duration::from_secs(2);

/// The output of a task that is followed until the task has ended.
pub(super) struct Follow<'s> {
    logs: Logs<'s>,
    outage: Outage,
    /// Whether what is kept was printed, of which `--tail` may leave out the most.
    has_begun: bool,
    /// When the run that is printed was claimed; it tells two runs of the same attempt apart.
    started_at: Option<Timestamp>,
    /// Whether another run may have begun unnoticed.
    is_unsure: bool,
    /// Whether the task had ended when it was looked at last, and nothing has come since.
    is_quiet: bool,
    /// What was said last about the wait.
    told: Option<&'static str>,
    is_feature_known: bool,
}

/// The next step after an answer.
enum NextRequest {
    AtOnce,
    After(Duration),
    Ended(Box<Task>),
}

impl<'s> Follow<'s> {
    pub(super) fn new(logs: Logs<'s>) -> Self {
        Self {
            logs,
            outage: Outage::default(),
            has_begun: false,
            started_at: None,
            is_unsure: false,
            is_quiet: false,
            told: None,
            is_feature_known: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        let task = loop {
            self.outage.ask(Instant::now());
            let next = match self.step().await {
                Ok(next) => next,
                Err(error) => {
                    let (pause, note) = self.outage.after(&self.logs.context.url, error, Instant::now())?;
                    note.iter().try_for_each(|note| self.logs.printer.note(note))?;
                    self.is_unsure = true;
                    NextRequest::After(pause)
                }
            };
            match next {
                NextRequest::AtOnce => {}
                NextRequest::After(pause) => sleep(pause).await,
                NextRequest::Ended(task) => break task,
            }
        };
        self.logs.printer.begin_run()?;
        self.logs.printer.note(&ending(&task))?;
        Ok(self.logs.printer.finish()?)
    }

    /// Asks once and prints what is new.
    async fn step(&mut self) -> Result<NextRequest, CommandError> {
        let progressed = if self.has_begun { self.next_piece().await } else { self.first_pieces().await };
        match progressed {
            Err(CommandError::Call(error)) if is_without_output(&error) => self.without_output().await,
            other => other,
        }
    }

    async fn first_pieces(&mut self) -> Result<NextRequest, CommandError> {
        self.logs.print_kept().await?;
        self.outage.all_answered(Instant::now());
        self.has_begun = true;
        Ok(NextRequest::AtOnce)
    }

    async fn next_piece(&mut self) -> Result<NextRequest, CommandError> {
        let (context, id, offset) = (self.logs.context, self.logs.id, self.logs.cursor.offset);
        // The next run prints from its beginning, so nothing of it may be behind this offset for long.
        let may_be_another = self.is_unsure || self.logs.cursor.has_ended;
        let wait_seconds = (!may_be_another).then_some(WAIT_SECONDS);
        let answer = context.client.output(&context.queue, id, offset, wait_seconds).await?;
        self.outage.all_answered(Instant::now());
        let output = answer.value;
        if !output.ended && (self.started_at.is_none() || self.is_unsure) && self.is_another_claim().await? {
            // The same output is of another run, as the task says.
            self.logs.cursor = Cursor::default();
            return self.begin_run(output.attempt);
        }
        match self.logs.cursor.accept(&output) {
            Step::AnotherRun => return self.begin_run(output.attempt),
            Step::Next { missing: 1.., is_first: true } => self.logs.tell_pushed_out(output.start).await?,
            Step::Next { .. } => {}
        }
        self.logs.print(&output)?;
        if !output.text.is_empty() {
            (self.is_quiet, self.told) = (false, None);
            return Ok(NextRequest::AtOnce);
        }
        if output.ended {
            return self.after_the_run().await;
        }
        // A wait without result takes long, and an answer without a wait was asked for to be sure.
        self.is_unsure = answer.wait_applied.is_some();
        Ok(if self.is_unsure || may_be_another { NextRequest::AtOnce } else { NextRequest::After(PAUSE) })
    }

    /// Looks at the task while its run prints. Returns whether it was claimed again since.
    async fn is_another_claim(&mut self) -> Result<bool, CommandError> {
        let task = self.task().await?;
        self.is_unsure = false;
        let before = self.started_at.replace(task.started_at.unwrap_or(task.created_at));
        Ok(before.is_some_and(|before| self.started_at != Some(before)))
    }

    fn begin_run(&mut self, attempt: i64) -> Result<NextRequest, CommandError> {
        (self.started_at, self.is_quiet, self.told) = (None, false, None);
        self.logs.begin_run(attempt)?;
        Ok(NextRequest::AtOnce)
    }

    /// Goes on when the run is over and everything that has arrived is printed.
    async fn after_the_run(&mut self) -> Result<NextRequest, CommandError> {
        let task = self.task().await?;
        if matches!(task.status, Status::Pending | Status::Running) {
            // Nothing follows in a line that the run left open.
            self.logs.printer.begin_run()?;
        }
        match task.status {
            Status::Pending => {
                self.wait_for("the run has ended; waiting until the task is claimed again", PENDING_PAUSE)
            }
            Status::Running => self.wait_for("the next attempt runs and has printed nothing yet", PAUSE),
            _ => Ok(self.at_the_end(task)),
        }
    }

    /// Goes on when nothing is kept of the task.
    async fn without_output(&mut self) -> Result<NextRequest, CommandError> {
        if !self.is_feature_known {
            self.logs.require_feature().await?;
            self.is_feature_known = true;
        }
        let task = self.task().await?;
        self.outage.all_answered(Instant::now());
        match task.status {
            Status::Pending => self.wait_for("the task is pending; waiting until it is claimed", PENDING_PAUSE),
            Status::Running => self.wait_for("the task is running and has printed nothing yet", PAUSE),
            _ if self.is_quiet => {
                self.logs.printer.note("nothing is kept of what it printed")?;
                Ok(NextRequest::Ended(Box::new(task)))
            }
            _ => Ok(self.at_the_end(task)),
        }
    }

    /// The task has ended: everything is printed if nothing comes for a moment.
    fn at_the_end(&mut self, task: Task) -> NextRequest {
        if std::mem::replace(&mut self.is_quiet, true) {
            NextRequest::Ended(Box::new(task))
        } else {
            NextRequest::After(LATE_BYTES)
        }
    }

    fn wait_for(&mut self, what: &'static str, pause: Duration) -> Result<NextRequest, CommandError> {
        self.is_quiet = false;
        if self.told.replace(what) != Some(what) {
            self.logs.printer.note(what)?;
        }
        Ok(NextRequest::After(pause))
    }

    async fn task(&self) -> Result<Task, CommandError> {
        Ok(self.logs.context.client.task(&self.logs.context.queue, self.logs.id).await?)
    }
}

/// Returns how the task ended.
fn ending(task: &Task) -> String {
    let error = task.last_error.as_ref().filter(|_| task.status == Status::Failed).map(|error| &error.failure);
    match error {
        Some(failure) => format!("{} failed: {}: {}", task.id, failure.kind, failure.message),
        None => format!("{} is {}", task.id, task.status.as_str()),
    }
}
