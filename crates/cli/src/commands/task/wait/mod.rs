//! `task wait`: asks until no task is pending or running, and tells how they ended. Which tasks is in `watched.rs`, what happens while the
//! server is away in `../concurrent_calls.rs`.

mod watched;

use std::time::Duration;

use taskqueue_client::Status;
use taskqueue_core::shell::CommandLine;
use taskqueue_core::status::Statuses;
use taskqueue_core::words;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::watched::{SeenTask, SilentRuns, UnservedRoutes, WatchedTasks};
use super::concurrent_calls::Outage;
use super::named_tasks;
use crate::args::{ConditionArgs, WaitArgs};
use crate::commands::queue::StatusCounts;
use crate::config::{ClientContext, command_line};
use crate::failure::{CommandError, Failure};
use crate::output::{self, Progress, ProgressView, Summary};

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
        watched: WatchedTasks::new(&args.conditions, &ids),
        unserved: UnservedRoutes::default(),
        unheard: SilentRuns::default(),
        outage: Outage::default(),
        latest: None,
        progress: Progress::of_tasks("waiting", 0),
    };
    let end = wait.until_ended().await?;
    wait.finish(end).await
}

/// A wait for tasks.
struct Wait<'s> {
    context: &'s ClientContext,
    args: &'s WaitArgs,
    watched: WatchedTasks,
    unserved: UnservedRoutes,
    unheard: SilentRuns,
    outage: Outage,
    /// What the server said last.
    latest: Option<Tally>,
    progress: Progress,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    /// No task is pending or running.
    AllEnded,
    /// The time is over; the server did or did not answer any more.
    TimedOut { is_away: bool },
}

impl Wait<'_> {
    async fn until_ended(&mut self) -> Result<WaitEnd, CommandError> {
        // A time beyond what the clock can count is never over.
        let deadline = self.args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let one_answer = if self.args.timeout == Some(Duration::ZERO) { ONE_ANSWER } else { Duration::ZERO };
        let mut answer_by = deadline.map(|deadline| deadline + one_answer);
        loop {
            let began = Instant::now();
            let polled = match answer_by {
                Some(limit) => timeout_at(limit, self.poll()).await,
                None => Ok(self.poll().await),
            };
            answer_by = deadline;
            let pause = match polled {
                Ok(Ok(tally)) if tally.unfinished() == 0 => return Ok(WaitEnd::AllEnded),
                Ok(Ok(_)) => (began.elapsed() * PAUSE_FACTOR).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX),
                Ok(Err(error)) => {
                    let (pause, note) = self.outage.after(&self.context.url, error, Instant::now())?;
                    if let Some(note) = note {
                        self.progress.suspend(|| output::note(&note));
                    }
                    pause
                }
                Err(_) => return Ok(WaitEnd::TimedOut { is_away: self.outage.is_away(Instant::now()) }),
            };
            let next = Instant::now() + pause;
            sleep_until(deadline.map_or(next, |deadline| next.min(deadline))).await;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(WaitEnd::TimedOut { is_away: self.outage.is_away(Instant::now()) });
            }
        }
    }

    /// Asks once, and shows what is new.
    async fn poll(&mut self) -> Result<Tally, CommandError> {
        self.outage.ask(Instant::now());
        let tally = self.watched.poll(self.context, &mut self.outage).await?;
        self.outage.all_answered(Instant::now());
        self.latest = Some(tally);
        let warnings = self.watched.take_warnings();
        self.warn(warnings);
        self.progress.set_total(tally.total());
        self.progress.set_position(tally.total() - tally.unfinished());
        if self.progress.is_shown() {
            let running = self.watched.progress(self.context, &tally).await?;
            let parts = [Some(tally.summary().sentence()), overall(&tally, &running.iter().collect::<Vec<_>>())];
            self.progress.set_message(|| parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
        }
        if tally.counts.get(Status::Pending) > 0 {
            let warnings = self.unserved.check(self.context, &self.watched).await;
            self.warn(warnings);
        }
        if tally.counts.get(Status::Running) > 0 {
            let warnings = self.unheard.check(self.context, &self.watched).await;
            self.warn(warnings);
        }
        Ok(tally)
    }

    fn warn(&self, warnings: Vec<String>) {
        // Each time the bar is drawn anew.
        if !warnings.is_empty() {
            self.progress.suspend(|| warnings.iter().for_each(|warning| output::warning(warning)));
        }
    }

    async fn finish(self, end: WaitEnd) -> Result<(), CommandError> {
        let Some(tally) = self.latest else { return Err(self.never_answered(end).into()) };
        if end == WaitEnd::AllEnded {
            self.show_unsuccessful(&tally).await;
        }
        drop(self.progress);
        let summary = Summary { timed_out: Some(end != WaitEnd::AllEnded), ..tally.summary() };
        self.context.printer.done(&summary, &summary.sentence())?;
        let has = if tally.unfinished() == 1 { "has" } else { "have" };
        let not_ended = format!("{} {has} not ended", words::count(tally.unfinished(), "task"));
        let failure = match end {
            WaitEnd::TimedOut { is_away: true } => Failure::Unreachable(format!(
                "timed out: the server at {} does not answer; {not_ended} when it last did",
                self.context.url
            )),
            WaitEnd::TimedOut { is_away: false } => Failure::Refused(format!("timed out: {not_ended}")),
            WaitEnd::AllEnded if tally.total() == 0 && self.args.allow_empty => {
                output::note("nothing matches");
                return Ok(());
            }
            WaitEnd::AllEnded if tally.total() == 0 => {
                Failure::Refused("nothing matches; --allow-empty accepts that".to_owned())
            }
            WaitEnd::AllEnded if tally.problems().is_empty() => return Ok(()),
            WaitEnd::AllEnded if tally.unsuccessful() == 0 => Failure::Refused(tally.problems()),
            WaitEnd::AllEnded => Failure::RefusedAt {
                message: format!("{}; list them with:", tally.problems()),
                excerpt: format!("  {}", listing(self.context, &self.args.conditions, &self.watched, &tally)),
            },
        };
        Err(failure.into())
    }

    /// Returns the error if the time was over before the first useful answer.
    fn never_answered(&self, end: WaitEnd) -> Failure {
        let url = &self.context.url;
        match end {
            WaitEnd::TimedOut { is_away: false } => {
                Failure::Refused(format!("timed out: the server at {url} is too busy"))
            }
            _ => Failure::Unreachable(format!("timed out: the server at {url} was not reached")),
        }
    }

    /// Warns of some tasks that did not succeed. That the server no longer answers is no reason to hide the result.
    async fn show_unsuccessful(&self, tally: &Tally) {
        if tally.unsuccessful() == 0 {
            return;
        }
        let shown = self.watched.unsuccessful(self.context, UNSUCCESSFUL_SHOWN).await.unwrap_or_default();
        let text = |task: SeenTask| match (task.status, task.reason) {
            (Status::Cancelled, _) => format!("{} was cancelled", task.id),
            (_, Some(reason)) => format!("{} failed: {reason}", task.id),
            (_, None) => format!("{} failed", task.id),
        };
        self.warn(shown.into_iter().map(text).collect());
    }
}

/// Returns the command that lists the tasks that did not succeed.
fn listing(context: &ClientContext, conditions: &ConditionArgs, watched: &WatchedTasks, tally: &Tally) -> CommandLine {
    let command = command_line(context, "task list");
    if let WatchedTasks::Followed(followed) = watched {
        let unsuccessful = followed.among(Statuses::UNSUCCESSFUL).take(IDS_IN_COMMAND);
        let ids: Vec<String> = unsuccessful.map(|task| format!("\"{}\"", task.id)).collect();
        return command.flag("--filter", &format!("id in [{}]", ids.join(", ")));
    }
    let command =
        command.optional("--name", conditions.name.as_deref()).optional("--fuzzy", conditions.fuzzy.as_deref());
    let filter = conditions.filter.as_deref();
    match (tally.counts.get(Status::Failed), tally.counts.get(Status::Cancelled)) {
        (_, 0) => command.flag("--status", Status::Failed.as_str()).optional("--filter", filter),
        (0, _) => command.flag("--status", Status::Cancelled.as_str()).optional("--filter", filter),
        _ => {
            let both = Statuses::UNSUCCESSFUL.filter_text();
            command.flag("--filter", &filter.map_or(both.clone(), |filter| format!("({filter}) and {both}")))
        }
    }
}

/// The states so far of the tasks that are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) counts: StatusCounts,
    /// Named tasks that do not exist, or no longer.
    pub(super) missing: u64,
}

impl Tally {
    pub(super) fn unfinished(&self) -> u64 {
        self.counts.among(Statuses::LIVING)
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.total() + self.missing
    }

    /// Returns how many ended otherwise than well.
    pub(super) fn unsuccessful(&self) -> u64 {
        self.counts.among(Statuses::UNSUCCESSFUL)
    }

    pub(super) fn summary(&self) -> Summary {
        let ended = Statuses::ENDED.iter().map(|status| (status.as_str(), self.counts.get(status)));
        Summary::of(ended.chain([("missing", self.missing), ("unfinished", self.unfinished())]))
    }

    /// Returns what went wrong, such as `2 tasks failed, 1 was cancelled`.
    pub(super) fn problems(&self) -> String {
        let parts = [
            (self.counts.get(Status::Failed), "failed", "failed"),
            (self.counts.get(Status::Cancelled), "was cancelled", "were cancelled"),
            (self.missing, "does not exist", "do not exist"),
        ];
        let said = parts.iter().filter(|(count, ..)| *count > 0).map(|(count, one, many)| {
            format!("{} {}", words::count(*count, "task"), if *count == 1 { one } else { many })
        });
        said.collect::<Vec<_>>().join(", ")
    }
}

/// Returns how far tasks are together, by what their runs say: of one task all that is known, of several the part that is done, and when the last of them ends if none is still to begin.
/// `running` are the running tasks that report progress; one that reports none counts when it has ended.
fn overall(tally: &Tally, running: &[&ProgressView]) -> Option<String> {
    if let ([only], 1) = (running, tally.unfinished()) {
        let measures = only.measures();
        return Some(if measures.is_empty() { only.said() } else { measures }).filter(|text| !text.is_empty());
    }
    let parts: Vec<f64> = running.iter().filter_map(|view| view.estimate.done).collect();
    if parts.is_empty() {
        return None;
    }
    let ended = (tally.total() - tally.unfinished()) as f64;
    let done = (ended + parts.iter().sum::<f64>()) / tally.total() as f64;
    // The tasks may have changed between two answers.
    let percent = format!("{} % of all", (done.min(1.0) * 100.0).floor() as u64);
    Some(eta(tally, running).map_or(percent.clone(), |eta| format!("{percent}  {eta}")))
}

/// Returns when the last task ends, if all run and say when they do.
fn eta(tally: &Tally, running: &[&ProgressView]) -> Option<String> {
    let all: Option<Vec<u64>> = running.iter().map(|view| view.estimate.seconds_left).collect();
    let last = all.filter(|all| all.len() as u64 == tally.unfinished())?.into_iter().max()?;
    Some(format!("ETA {}", words::span(last)))
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{JsonObject, Task};

    use super::*;
    use crate::live::tests::{TEST_TIME, task};

    #[test]
    fn problems_are_counted_and_what_is_well_is_not_named() {
        let counts = StatusCounts([0, 0, 7, 2, 1]);
        assert_eq!(Tally { counts, missing: 0 }.problems(), "2 tasks failed, 1 task was cancelled");
        let missing = Tally { missing: 1, ..Tally::default() };
        assert_eq!((missing.problems().as_str(), missing.total()), ("1 task does not exist", 1));
        assert_eq!(Tally::default().problems(), "");
    }

    fn view(progress: &str) -> ProgressView {
        let running = Task {
            status: Status::Running,
            started_at: Some(TEST_TIME.plus_seconds(-100)),
            progress: Some(JsonObject::from_canonical(progress)),
            progress_updated_at: Some(TEST_TIME),
            ..task(1)
        };
        ProgressView::of(&running, TEST_TIME).unwrap()
    }

    #[test]
    fn one_task_shows_all_and_several_show_their_sum() {
        let tally = |succeeded, running| Tally { counts: StatusCounts([0, running, succeeded, 0, 0]), missing: 0 };
        let half = view(r#"{"step":50,"total":100}"#);
        assert_eq!(overall(&tally(9, 1), &[&half]).as_deref(), Some("50 %  50/100  2s per step  ETA 100s"));
        assert_eq!(overall(&tally(2, 2), &[&half]).as_deref(), Some("62 % of all"));
        let quarter = view(r#"{"step":25,"total":100}"#);
        assert_eq!(overall(&tally(1, 2), &[&half, &quarter]).as_deref(), Some("58 % of all  ETA 5m"));
        let all_done = view(r#"{"step":100,"total":100}"#);
        assert_eq!(overall(&tally(0, 2), &[&half, &all_done]).as_deref(), Some("75 % of all"), "it ends sometime");
        let said = view(r#"{"loss":0.5}"#);
        assert_eq!(overall(&tally(0, 1), &[&said]).as_deref(), Some("loss=0.5"));
        assert_eq!(overall(&tally(0, 2), &[&said]), None);
        assert_eq!(overall(&tally(0, 1), &[]), None);
        assert_eq!(overall(&tally(0, 1), &[&half, &half, &half]).as_deref(), Some("100 % of all"));
    }
}
