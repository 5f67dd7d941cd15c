//! `task wait`: asks until no task is pending or running, and tells how they ended. Which tasks is in `watched.rs`, what
//! happens while the server is away in `../outage.rs`.

mod followed;
mod overall;
mod tally;
mod unheard;
mod unserved;
mod watched;

use std::time::Duration;

use taskqueue_client::{Error, Status};
use taskqueue_core::words;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::tally::Tally;
use self::unheard::Unheard;
use self::unserved::Unserved;
use self::watched::{Unsuccessful, Watched};
use crate::args::WaitArgs;
use crate::client_context::ClientContext;
use crate::commands::task::named_tasks;
use crate::commands::task::outage::{Outage, is_temporary, outage_note};
use crate::failure::{CommandError, Failure};
use crate::output::{self, WaitSummary};
use crate::progress::Progress;
use crate::shell_command::ShellCommand;

const POLL_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// The pause after a poll is this many times its duration, so that polling never takes more than a tenth of the time.
const PAUSE_FACTOR: u32 = 10;
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// With `--timeout 0` the server is asked once, and gets this time to answer.
const ONE_ANSWER: Duration = Duration::from_secs(10);
/// Further tasks that did not succeed are only counted.
const UNSUCCESSFUL_SHOWN: u16 = 5;
/// So many ids fit into a filter and into a line that people copy.
const IDS_IN_COMMAND: usize = 100;

pub(super) async fn run(context: &ClientContext, args: &WaitArgs) -> Result<(), CommandError> {
    let ids = named_tasks::ids(context, &args.ids).await?;
    let mut wait = Wait {
        context,
        args,
        watched: Watched::new(args, &ids),
        unserved: Unserved::default(),
        unheard: Unheard::default(),
        outage: Outage::default(),
        latest: None,
        progress: Progress::of_tasks("waiting", 0),
    };
    let end = wait.until_ended().await?;
    wait.finish(end).await
}

struct Wait<'s> {
    context: &'s ClientContext,
    args: &'s WaitArgs,
    watched: Watched,
    unserved: Unserved,
    unheard: Unheard,
    outage: Outage,
    /// What the server said last.
    latest: Option<Tally>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    AllEnded,
    /// The time is over.
    TimedOut {
        /// Whether the server did not answer any more.
        is_away: bool,
    },
}

impl Wait<'_> {
    async fn until_ended(&mut self) -> Result<End, CommandError> {
        // A time beyond what the clock can count is never over.
        let deadline = self.args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut answer_by = match self.args.timeout {
            Some(Duration::ZERO) => deadline.map(|deadline| deadline + ONE_ANSWER),
            _ => deadline,
        };
        loop {
            let began = Instant::now();
            let polled = match answer_by {
                Some(limit) => timeout_at(limit, self.poll()).await,
                None => Ok(self.poll().await),
            };
            answer_by = deadline;
            let pause = match polled {
                Ok(Ok(tally)) if tally.unfinished() == 0 => return Ok(End::AllEnded),
                Ok(Ok(_)) => (began.elapsed() * PAUSE_FACTOR).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX),
                Ok(Err(CommandError::Call(error))) if is_temporary(&error) => self.after_failure(error)?,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(End::TimedOut { is_away: self.outage.is_away(Instant::now()) }),
            };
            let next = Instant::now() + pause;
            sleep_until(deadline.map_or(next, |deadline| next.min(deadline))).await;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(End::TimedOut { is_away: self.outage.is_away(Instant::now()) });
            }
        }
    }

    /// Asks once, and shows what is new.
    async fn poll(&mut self) -> Result<Tally, CommandError> {
        self.outage.ask(Instant::now());
        let tally = self.watched.poll(self.context, &mut self.outage).await?;
        self.outage.all_answered(Instant::now());
        self.latest = Some(tally);
        for warning in self.watched.take_warnings() {
            self.progress.suspend(|| output::warning(&warning));
        }
        self.progress.set_total(tally.total());
        self.progress.set_position(tally.total() - tally.unfinished());
        if self.progress.is_shown() {
            let progress = self.watched.progress(self.context, &tally).await?;
            let parts = [Some(tally.summary().sentence()), progress];
            self.progress.set_message(|| parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
        }
        if tally.counts.pending > 0 {
            for warning in
                self.unserved.check(self.context, &self.watched, self.args.conditions.filter.as_deref()).await
            {
                self.progress.suspend(|| output::warning(&warning));
            }
        }
        if tally.counts.running > 0 {
            for warning in self.unheard.check(self.context, &self.watched).await {
                self.progress.suspend(|| output::warning(&warning));
            }
        }
        Ok(tally)
    }

    /// Gives the pause before the next try, or the error if the server stays away.
    fn after_failure(&mut self, error: Error) -> Result<Duration, CommandError> {
        let Some(pause) = self.outage.failed(&error, Instant::now()) else {
            return Err(error.into());
        };
        if self.outage.is_new() {
            let words = outage_note(&self.context.url, &error);
            self.progress.suspend(|| output::note(&words));
        }
        Ok(pause)
    }

    async fn finish(self, end: End) -> Result<(), CommandError> {
        let Some(tally) = self.latest else { return Err(self.never_answered(end).into()) };
        if end == End::AllEnded {
            self.show_unsuccessful(&tally).await;
        }
        drop(self.progress);
        let record = WaitSummary { summary: tally.summary(), timed_out: end != End::AllEnded };
        self.context.printer.done(&record, &record.summary.sentence())?;
        match end {
            End::TimedOut { is_away: true } => Err(Failure::Unreachable(format!(
                "timed out: the server at {} does not answer; {} when it last did",
                self.context.url,
                not_ended(tally.unfinished())
            ))
            .into()),
            End::TimedOut { is_away: false } => {
                Err(Failure::Refused(format!("timed out: {}", not_ended(tally.unfinished()))).into())
            }
            End::AllEnded if tally.total() == 0 && self.args.allow_empty => {
                output::note("nothing matches");
                Ok(())
            }
            End::AllEnded if tally.total() == 0 => {
                Err(Failure::Refused("nothing matches; --allow-empty accepts that".to_owned()).into())
            }
            End::AllEnded if tally.problems().is_empty() => Ok(()),
            End::AllEnded => Err(problems(self.context, self.args, &self.watched, &tally).into()),
        }
    }

    /// The time was over before the first useful answer.
    fn never_answered(&self, end: End) -> Failure {
        let url = &self.context.url;
        match end {
            End::TimedOut { is_away: false } => Failure::Refused(format!("timed out: the server at {url} is too busy")),
            _ => Failure::Unreachable(format!("timed out: the server at {url} was not reached")),
        }
    }

    /// The reasons of some of them. That the server no longer answers is no reason to hide the result.
    async fn show_unsuccessful(&self, tally: &Tally) {
        if tally.unsuccessful() == 0 {
            return;
        }
        let limit = UNSUCCESSFUL_SHOWN;
        let shown = self.watched.unsuccessful(self.context, limit).await.unwrap_or_default();
        for Unsuccessful { id, status, reason } in shown {
            let text = match (status, reason) {
                (Status::Cancelled, _) => format!("{id} was cancelled"),
                (_, Some(reason)) => format!("{id} failed: {reason}"),
                (_, None) => format!("{id} failed"),
            };
            self.progress.suspend(|| output::warning(&text));
        }
    }
}

fn not_ended(count: u64) -> String {
    format!("{} {} not ended", words::count(count, "task"), if count == 1 { "has" } else { "have" })
}

/// How many did not succeed, and the command that lists them.
fn problems(context: &ClientContext, args: &WaitArgs, watched: &Watched, tally: &Tally) -> Failure {
    let message = tally.problems();
    if tally.unsuccessful() == 0 {
        return Failure::Refused(message);
    }
    let excerpt = format!("  {}", listing(context, args, watched, tally).as_str());
    Failure::RefusedAt { message: format!("{message}; list them with:"), excerpt }
}

fn listing(context: &ClientContext, args: &WaitArgs, watched: &Watched, tally: &Tally) -> ShellCommand {
    let command = ShellCommand::new(context, "task list");
    if let Watched::Followed(followed) = watched {
        let ids: Vec<String> =
            followed.unsuccessful().take(IDS_IN_COMMAND).map(|task| format!("\"{}\"", task.id)).collect();
        return command.flag("--filter", &format!("id in [{}]", ids.join(", ")));
    }
    let command = command
        .optional_flag("--name", args.conditions.name.as_deref())
        .optional_flag("--fuzzy", args.conditions.fuzzy.as_deref());
    let filter = args.conditions.filter.as_deref();
    match (tally.counts.failed, tally.counts.cancelled) {
        (_, 0) => command.flag("--status", Status::Failed.as_str()).optional_flag("--filter", filter),
        (0, _) => command.flag("--status", Status::Cancelled.as_str()).optional_flag("--filter", filter),
        _ => {
            const BOTH: &str = r#"status in ["failed", "cancelled"]"#;
            let filter = filter.map_or_else(|| BOTH.to_owned(), |filter| format!("({filter}) and {BOTH}"));
            command.flag("--filter", &filter)
        }
    }
}
