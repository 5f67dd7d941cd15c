//! The end of a run: its time limit, after which the command is stopped as if the worker had asked for it; and its result: exit
//! code 0 completes with the result file, exit code 75 releases, everything else fails.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taskqueue_client::Failure;
use tokio::sync::watch;
use tokio::time::Instant;

use super::run_folder::RunFolder;
use crate::handler::HandlerResult;
use crate::process::{CommandEnd, Exit, StartError};
use crate::settings::sleep_until_some;
use crate::stop::RunControl;
use crate::template::FillError;

/// From sysexits.h: a temporary failure.
const EX_TEMPFAIL: i32 = 75;

/// The type of the error of a run that took too long. The server uses the same word.
const TIMEOUT_KIND: &str = "ExecutionTimeout";

/// The result, and a note about it that was also added to the log. `exceeded` is the time limit that ended the run, if one did.
/// Blocks.
pub(super) fn result_of_end(
    end: &CommandEnd,
    folder: &RunFolder,
    exceeded: Option<TimeLimit>,
) -> (HandlerResult, Option<String>) {
    folder.mark_ended();
    if !end.was_stopped && end.status == Exit::Code(0) {
        return match folder.read_result() {
            Ok((result, note)) => {
                note.iter().for_each(|note| folder.append_to_log(note));
                (HandlerResult::Complete(result), note)
            }
            Err(failure) => (HandlerResult::Fail(failure), None),
        };
    }
    (without_success(end, exceeded), None)
}

fn without_success(end: &CommandEnd, exceeded: Option<TimeLimit>) -> HandlerResult {
    let (kind, message) = match (end.status, exceeded) {
        (_, Some(limit)) if end.was_stopped => {
            (TIMEOUT_KIND, format!("the run took longer than {} and was stopped", limit.words))
        }
        _ if end.was_stopped => return HandlerResult::Stopped,
        (Exit::Code(EX_TEMPFAIL), _) => return HandlerResult::Release,
        (Exit::Code(code), _) => ("ExitCode", format!("the command ended with exit code {code}")),
        (Exit::Signal(signal), _) => ("Signal", format!("the command was ended by {}", signal_name(signal))),
    };
    let traceback = (!end.tail.is_empty()).then(|| end.tail.as_str().into());
    HandlerResult::Fail(Failure { kind: kind.into(), message: message.into(), traceback })
}

pub(super) fn result_of_start_error(program: &OsStr, error: &StartError) -> HandlerResult {
    let program = program.to_string_lossy();
    let (kind, message) = match error {
        StartError::NotFound(_) => ("CommandNotFound", format!("{program} was not found on the worker's machine")),
        StartError::NotExecutable(_, error) => {
            ("CommandNotExecutable", format!("{program} cannot be executed on the worker's machine: {error}"))
        }
        StartError::TooLong => {
            ("CommandTooLong", "the arguments are too long for a command; read TASKQUEUE_ARGS_FILE instead".to_owned())
        }
        // Too many processes or no memory: the task can run elsewhere or later.
        StartError::Other(error) => {
            return HandlerResult::CannotRun(format!("{program} could not be started: {error}"));
        }
    };
    reject(kind, message)
}

pub(super) fn result_of_fill_error(error: &FillError) -> HandlerResult {
    match error {
        FillError::Missing(path) => reject("MissingArgument", format!("the command needs the argument {path}")),
        FillError::Nul(path) => {
            reject("InvalidArgument", format!("the argument {path} contains U+0000, which no command line can"))
        }
    }
}

/// Running the task again would end in the same way.
fn reject(kind: &str, message: String) -> HandlerResult {
    HandlerResult::Reject(Failure { kind: kind.into(), message: message.into(), traceback: None })
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL (out of memory?)",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

/// The end of the time of a run, and who has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeLimit {
    pub(super) ends_at: Instant,
    /// Says for people what the run has exceeded.
    words: String,
}

impl TimeLimit {
    /// The limit that ends a run first, if there is one: that of the worker, which counts from now on, or the end and the seconds
    /// that the task has.
    pub(super) fn first(of_worker: Option<Duration>, of_task: Option<(Instant, Duration)>) -> Option<Self> {
        let of_worker =
            of_worker.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit, "--timeout allows")));
        let of_task = of_task.map(|(ends_at, limit)| (ends_at, limit, "the timeout_seconds of its task allow"));
        let first = of_worker.into_iter().chain(of_task).min_by_key(|(ends_at, ..)| *ends_at);
        first.map(|(ends_at, limit, setter)| Self { ends_at, words: format!("{setter} ({} s)", limit.as_secs()) })
    }
}

/// Passes on what the worker wants of a run, and asks for its end when its time is over. Never returns. `is_exceeded` becomes true if the
/// time is over before the worker asks for the end: such a run fails, whatever the worker asks for until it has ended.
pub(super) async fn pass_on_control(
    ends_at: Option<Instant>,
    mut wanted: watch::Receiver<RunControl>,
    control: &watch::Sender<RunControl>,
    is_exceeded: &AtomicBool,
) {
    let mut is_over = std::pin::pin!(sleep_until_some(ends_at));
    let (mut has_timed_out, mut is_open) = (false, true);
    loop {
        tokio::select! {
            biased;
            changed = wanted.changed(), if is_open => is_open = changed.is_ok(),
            () = &mut is_over, if !has_timed_out => {
                has_timed_out = true;
                is_exceeded.store(*wanted.borrow() == RunControl::Continue, Ordering::Relaxed);
            }
            else => std::future::pending().await,
        }
        let least = if has_timed_out { RunControl::Stop } else { RunControl::Continue };
        control.send_replace(least.max(*wanted.borrow_and_update()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_time_is_a_request_to_stop_and_a_stronger_one_wins() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        let limit = Duration::from_secs(7200);
        let started = Instant::now();
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_exceeded);
        tokio::spawn(async move { pass_on_control(Some(started + limit), wanted, &control, &flag).await });
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
        assert!(started.elapsed() >= limit);
        worker.send_replace(RunControl::Kill);
        seen.wait_for(|control| *control == RunControl::Kill).await.unwrap();
        assert!(is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_was_asked_to_end_within_its_time_does_not_exceed_it() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, _seen) = watch::channel(RunControl::Continue);
        let is_exceeded = AtomicBool::new(false);
        let limit = Duration::from_secs(10);
        worker.send_replace(RunControl::Stop);
        let passing = pass_on_control(Some(Instant::now() + limit), wanted, &control, &is_exceeded);
        assert!(tokio::time::timeout(2 * limit, passing).await.is_err());
        assert!(!is_exceeded.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_only_the_worker_decides() {
        let (worker, wanted) = watch::channel(RunControl::Continue);
        let (control, mut seen) = watch::channel(RunControl::Continue);
        tokio::spawn(async move { pass_on_control(None, wanted, &control, &AtomicBool::new(false)).await });
        let year = Duration::from_secs(31_536_000);
        assert!(tokio::time::timeout(year, seen.wait_for(|control| *control > RunControl::Continue)).await.is_err());
        worker.send_replace(RunControl::Stop);
        seen.wait_for(|control| *control == RunControl::Stop).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_that_ends_a_run_first_counts_and_is_named() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let task = |left, limit| Some((now + seconds(left), seconds(limit)));
        let cases = [
            (None, None, None),
            (Some(seconds(7)), None, Some((7, "--timeout allows (7 s)"))),
            (None, task(9, 10), Some((9, "the timeout_seconds of its task allow (10 s)"))),
            (Some(seconds(7)), task(9, 10), Some((7, "--timeout allows (7 s)"))),
            (Some(seconds(9)), task(7, 8), Some((7, "the timeout_seconds of its task allow (8 s)"))),
        ];
        for (of_worker, of_task, expected) in cases {
            let first = TimeLimit::first(of_worker, of_task);
            let first = first.map(|limit| ((limit.ends_at - now).as_secs(), limit.words));
            assert_eq!(first, expected.map(|(left, words)| (left, words.to_owned())), "{of_worker:?} {of_task:?}");
        }
    }
}
